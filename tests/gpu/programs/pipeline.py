# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.pipelining, 8 micro-batches; the argument is the schedule: GPipe, 1F1B, Interleaved1F1B, or dp-pp."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

import parts
from author import Author

MICRO_BATCHES = 8
device = parts.begin()
kind, world = sys.argv[1], dist.get_world_size()
data = world // 2 if kind == "dp-pp" else 1
mesh = init_device_mesh("cuda", (data, world // data), mesh_dim_names=("dp", "pp"))
rank, ranks = mesh.get_local_rank("pp"), world // data
several = 2 if kind == "Interleaved1F1B" else 1
stages = []
for index in range(rank, several * ranks, ranks):
    part = parts.encoder(4 // several).to(device)
    if data > 1:
        part = DistributedDataParallel(part, process_group=mesh.get_group("dp"))
    stages.append(pipelining.PipelineStage(part, index, several * ranks, device,
                                           group=mesh.get_group("pp")))
optimizer = torch.optim.AdamW([p for stage in stages for p in stage.submod.parameters()], lr=1e-4)
make = getattr(pipelining, "Schedule" + ("1F1B" if kind == "dp-pp" else kind))
schedule = make(stages if several > 1 else stages[0], MICRO_BATCHES,
                loss_fn=nn.functional.mse_loss)
for _ in Author().steps():
    batch = torch.randn(4 * MICRO_BATCHES, parts.LENGTH, parts.WIDTH, device=device)
    if rank == 0:
        schedule.step(batch)
    elif rank == ranks - 1:
        schedule.step(target=batch, losses=[])
    else:
        schedule.step()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
