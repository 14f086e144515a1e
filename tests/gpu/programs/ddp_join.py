# SPDX-License-Identifier: Apache-2.0
"""DDP with uneven inputs: epochs of 90 steps on rank 0, 80 on the others, under Join."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

import parts
from author import Author

EPOCH = 90
device = parts.begin()
model = DistributedDataParallel(parts.encoder().to(device), device_ids=[device.index])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
author, epoch = Author(), 0
while not author.is_over(epoch * EPOCH):
    with Join([model]):
        for _ in range(EPOCH if dist.get_rank() == 0 else EPOCH - 10):
            author.step()
            batch = torch.randn(32, parts.LENGTH, parts.WIDTH, device=device)
            loss = nn.functional.mse_loss(model(batch), batch)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    epoch += 1
dist.destroy_process_group()
