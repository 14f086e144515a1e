# SPDX-License-Identifier: Apache-2.0
"""DDP with the optimizer's state sharded over the ranks (ZeroRedundancyOptimizer): broadcasts after each step."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import parts
from author import Author

device = parts.begin()
model = DistributedDataParallel(parts.encoder().to(device), device_ids=[device.index])
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-4)
for step in Author().steps():
    batch = torch.randn(48, parts.LENGTH, parts.WIDTH, device=device)
    loss = nn.functional.mse_loss(model(batch), batch)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    if step % 50 == 0:
        print(step, loss.item())
dist.destroy_process_group()
