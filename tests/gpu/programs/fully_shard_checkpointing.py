# SPDX-License-Identifier: Apache-2.0
"""fully_shard of a transformer of 8 layers with activation checkpointing."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint

import parts
from author import Author


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = parts.encoder()

    def forward(self, values):
        for layer in self.layers:
            values = checkpoint(layer, values, use_reentrant=False)
        return values


device = parts.begin()
model = Model().to(device)
for layer in model.layers:
    fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in Author().steps():
    batch = torch.randn(32, parts.LENGTH, parts.WIDTH, device=device)
    loss = nn.functional.mse_loss(model(batch), batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
