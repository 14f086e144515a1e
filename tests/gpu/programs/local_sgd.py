# SPDX-License-Identifier: Apache-2.0
"""Each rank trains alone for eight steps, then all average what changed (as DiLoCo does); the author's step is that round."""
import torch
import torch.distributed as dist
from torch import nn

import parts
from author import Author

ALONE = 8
device = parts.begin()
model = parts.encoder(4).to(device)
kept = [parameter.detach().clone() for parameter in model.parameters()]
for parameter in model.parameters():
    dist.broadcast(parameter.data, 0)
inner = torch.optim.AdamW(model.parameters(), lr=1e-4)
outer = torch.optim.SGD(kept, lr=0.7, momentum=0.9, nesterov=True)
for _ in Author().steps():
    for _ in range(ALONE):
        batch = torch.randn(32, parts.LENGTH, parts.WIDTH, device=device)
        nn.functional.mse_loss(model(batch), batch).backward()
        inner.step()
        inner.zero_grad()
    for before, parameter in zip(kept, model.parameters()):
        before.grad = before - parameter.data
        dist.all_reduce(before.grad, op=dist.ReduceOp.AVG)
    outer.step()
    for before, parameter in zip(kept, model.parameters()):
        parameter.data.copy_(before)
dist.destroy_process_group()
