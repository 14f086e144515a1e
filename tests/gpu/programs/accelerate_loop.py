# SPDX-License-Identifier: Apache-2.0
"""accelerate: a loop with two micro-batches a step and clipped gradients, GPT-2 of 6 layers."""
import torch
from accelerate import Accelerator
from transformers import GPT2Config, GPT2LMHeadModel

from author import Author

accelerator = Accelerator(gradient_accumulation_steps=2)
model = GPT2LMHeadModel(GPT2Config(vocab_size=8192, n_positions=256, n_embd=512, n_layer=6, n_head=8))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
loader = torch.utils.data.DataLoader(torch.randint(0, 8192, (8192, 256)), batch_size=8, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
author, begins = Author(), True
while not author.is_over():
    for batch in loader:
        if begins:
            if author.is_over():
                break
            author.step()
        with accelerator.accumulate(model):
            loss = model(input_ids=batch, labels=batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        begins = accelerator.sync_gradients
accelerator.end_training()
