# SPDX-License-Identifier: Apache-2.0
"""Experts: tokens go where a router sends them, by all_to_all_single with uneven splits; 4 layers."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.nn.functional import all_to_all_single

import parts
from author import Author


class Experts(nn.Module):
    """One expert a rank."""

    def __init__(self, width):
        super().__init__()
        self.router = nn.Linear(width, dist.get_world_size())
        self.expert = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, tokens):
        weight, chosen = self.router(tokens).softmax(-1).max(-1)
        order = chosen.argsort()
        counts = chosen.bincount(minlength=dist.get_world_size())
        arriving = torch.empty_like(counts)
        dist.all_to_all_single(arriving, counts)
        sent, received = counts.tolist(), arriving.tolist()
        there = all_to_all_single(tokens.new_empty(sum(received), tokens.shape[1]), tokens[order],
                                  received, sent)
        back = all_to_all_single(torch.empty_like(tokens), self.expert(there), sent, received)
        return tokens + weight[:, None] * torch.empty_like(back).index_copy(0, order, back)


device = parts.begin()
model = nn.Sequential(*(Experts(2048) for _ in range(4))).to(device)
routers = [p for layer in model for p in layer.router.parameters()]
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in Author().steps():
    tokens = torch.randn(2048, 2048, device=device)
    loss = nn.functional.mse_loss(model(tokens), tokens)
    loss.backward()
    for parameter in routers:
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
