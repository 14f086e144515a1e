# SPDX-License-Identifier: Apache-2.0
"""DDP of a transformer of 8 layers; the argument: plain, no-sync (4 micro-batches a step), compile, or cuda-graphs."""
import contextlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import parts
from author import Author

device = parts.begin()
kind, model = sys.argv[1], parts.encoder().to(device)
if kind == "compile":
    model = torch.compile(model)
if kind == "cuda-graphs":
    sample = torch.randn(32, parts.LENGTH, parts.WIDTH, device=device, requires_grad=True)
    model = torch.cuda.make_graphed_callables(model, (sample,))
model = DistributedDataParallel(model, device_ids=[device.index])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
micro_batches = 4 if kind == "no-sync" else 1
for _ in Author().steps():
    for number in range(micro_batches):
        batch = torch.randn(32, parts.LENGTH, parts.WIDTH, device=device, requires_grad=True)
        last = number == micro_batches - 1
        with contextlib.nullcontext() if last else model.no_sync():
            nn.functional.mse_loss(model(batch), batch.detach()).backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
