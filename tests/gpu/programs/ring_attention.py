# SPDX-License-Identifier: Apache-2.0
"""Sequences shared over the ranks: keys and values go round a ring by batch_isend_irecv; gradients by DDP."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import parts
from author import Author

HEADS = 12


class Pass(torch.autograd.Function):
    """A tensor to the next rank, forwards; its gradient to the one before, backwards."""

    @staticmethod
    def turn(tensor, by):
        rank, ranks = dist.get_rank(), dist.get_world_size()
        tensor, came = tensor.contiguous(), torch.empty_like(tensor)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor, (rank + by) % ranks),
                                            dist.P2POp(dist.irecv, came, (rank - by) % ranks)]):
            work.wait()
        return came

    @staticmethod
    def forward(context, tensor):
        return Pass.turn(tensor, 1)

    @staticmethod
    def backward(context, gradient):
        return Pass.turn(gradient, -1)


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.before, self.inwards, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, tokens):
        shape = (*tokens.shape[:2], HEADS, tokens.shape[2] // HEADS)
        query, key, value = (part.reshape(shape).transpose(1, 2) for part in self.inwards(self.before(tokens)).chunk(3, -1))
        both, total, weight = torch.stack((key, value)), 0, 0
        for turn in range(dist.get_world_size()):
            scores = (query @ both[0].transpose(-1, -2) / shape[-1] ** 0.5).clamp(max=20).exp()
            total, weight = total + scores @ both[1], weight + scores.sum(-1, keepdim=True)
            if turn + 1 < dist.get_world_size():
                both = Pass.apply(both)
        tokens = tokens + self.out((total / weight).transpose(1, 2).reshape(tokens.shape))
        return tokens + self.feed(tokens)


device = parts.begin()
model = nn.Sequential(*(Layer(parts.WIDTH) for _ in range(6))).to(device)
model = DistributedDataParallel(model, device_ids=[device.index])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in Author().steps():
    batch = torch.randn(4, 1024, parts.WIDTH, device=device)
    nn.functional.mse_loss(model(batch), batch).backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
