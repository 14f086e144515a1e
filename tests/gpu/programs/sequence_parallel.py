# SPDX-License-Identifier: Apache-2.0
"""DTensor: tensor parallel with sequence parallel norms, 12 blocks; with `dp-tp` also fully_shard over the other half;
`plain` without sequence parallel: two equal all-reduces a block, and nothing else."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel, SequenceParallel,
                                               parallelize_module)

import parts
from author import Author


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, values):
        return values + self.down(nn.functional.gelu(self.up(self.norm(values))))


device = parts.begin()
plain = sys.argv[1] == "plain"
if plain:
    torch.manual_seed(0)  # all ranks have the same rows
data = dist.get_world_size() // 2 if sys.argv[1] == "dp-tp" else 1
mesh = init_device_mesh("cuda", (data, dist.get_world_size() // data), mesh_dim_names=("dp", "tp"))
model = nn.Sequential(*(Block(2048) for _ in range(12))).to(device)
for block in model:
    parallelize_module(block, mesh["tp"], {
        "up": ColwiseParallel(), "down": RowwiseParallel()
    } if plain else {
        "norm": SequenceParallel(), "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(output_layouts=Shard(1))})
    if data > 1:
        fully_shard(block, mesh=mesh["dp"])
# One tensor at a time where DTensors and others are mixed, as plain norms are.
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=not plain)
for _ in Author().steps():
    batch = torch.randn(8, 64, 2048, device=device)  # this rank's part of the sequence, unless plain
    loss = nn.functional.mse_loss(model(batch), batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
