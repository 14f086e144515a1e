# SPDX-License-Identifier: Apache-2.0
"""A recommender: each rank has some of the embedding tables, exchanged by all-to-all both ways; the dense part's gradients are averaged."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.nn.functional import all_to_all_single

import parts
from author import Author

TABLES, ROWS, WIDTH, BATCH, BAG = 8, 200_000, 128, 8192, 20
device = parts.begin()
ranks = dist.get_world_size()
own = TABLES // ranks
tables = nn.ModuleList(nn.EmbeddingBag(ROWS, WIDTH, mode="sum") for _ in range(own)).to(device)
dense = nn.Sequential(nn.Linear((TABLES + 1) * WIDTH, 2048), nn.ReLU(), nn.Linear(2048, 1024), nn.ReLU(),
                      nn.Linear(1024, 1)).to(device)
below = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, WIDTH)).to(device)
shared = [*below.parameters(), *dense.parameters()]
optimizer = torch.optim.Adagrad([*shared, *tables.parameters()], lr=1e-2)
for step in Author().steps():
    ids = torch.randint(0, ROWS, (TABLES, BATCH, BAG), device=device)
    asked = torch.empty_like(ids)
    dist.all_to_all_single(asked, ids)  # each rank's tables, of everyone's batch
    looked = torch.stack([table(part.reshape(-1, BAG)) for table, part in
                          zip(tables, asked.reshape(ranks, own, BATCH, BAG).transpose(0, 1))])
    sent = looked.reshape(own, ranks, BATCH, WIDTH).transpose(0, 1).contiguous()
    came = all_to_all_single(torch.empty_like(sent), sent)
    numbers, clicked = torch.randn(BATCH, 13, device=device), torch.rand(BATCH, 1, device=device).round()
    features = torch.cat((below(numbers), *came.reshape(TABLES, BATCH, WIDTH)), -1)
    loss = nn.functional.binary_cross_entropy_with_logits(dense(features), clicked)
    loss.backward()
    for parameter in shared:
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
    optimizer.step()
    optimizer.zero_grad()
    if step % 100 == 0:
        print(step, loss.item())
dist.destroy_process_group()
