# SPDX-License-Identifier: Apache-2.0
"""DDP whose gradients are compressed by torch's hook; the argument: powersgd or fp16."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import parts
from author import Author

device = parts.begin()
model = DistributedDataParallel(parts.encoder().to(device), device_ids=[device.index])
if sys.argv[1] == "powersgd":
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=20)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
else:
    model.register_comm_hook(dist.group.WORLD, default_hooks.fp16_compress_hook)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in Author().steps():
    batch = torch.randn(32, parts.LENGTH, parts.WIDTH, device=device)
    nn.functional.mse_loss(model(batch), batch).backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
