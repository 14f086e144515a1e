# SPDX-License-Identifier: Apache-2.0
"""peft: LoRA on a Llama of 8 layers, by transformers' Trainer. Its options are those of TrainingArguments."""
from peft import LoraConfig, get_peft_model

import hf_trainer

if __name__ == "__main__":
    hf_trainer.train(get_peft_model(hf_trainer.model(), LoraConfig(task_type="CAUSAL_LM")))
