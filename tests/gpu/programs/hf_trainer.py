# SPDX-License-Identifier: Apache-2.0
"""transformers' Trainer, DDP, a Llama of 8 layers. Its options are those of TrainingArguments."""
import torch
from transformers import (HfArgumentParser, LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback,
                          TrainingArguments)

from author import Author


class Tokens(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count, self.items = count, torch.randint(0, 8192, (512, 512))

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        item = self.items[index % len(self.items)]
        return {"input_ids": item, "labels": item}


class Steps(TrainerCallback):
    def __init__(self):
        self.author = Author()

    def on_step_begin(self, args, state, control, **_):
        self.author.step()

    def on_prediction_step(self, args, state, control, **_):
        self.author.tell("pass")

    def on_step_end(self, args, state, control, **_):
        control.should_training_stop |= self.author.is_over()
        if control.should_save and args.should_save:
            self.author.tell("save")

    def on_save(self, args, state, control, **_):
        if args.should_save:
            self.author.tell("saved")


def model():
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=8192, hidden_size=512, intermediate_size=1408, num_hidden_layers=8,
        num_attention_heads=8, max_position_embeddings=512))


def train(network):
    arguments, = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    Trainer(model=network, args=arguments, train_dataset=Tokens(16384), eval_dataset=Tokens(256),
            callbacks=[Steps()]).train()


if __name__ == "__main__":
    train(model())
