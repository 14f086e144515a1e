# SPDX-License-Identifier: Apache-2.0
"""fully_shard of a transformer; each 60 steps torch.distributed.checkpoint saves it while the training goes on."""
import os
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch import nn
from torch.distributed.fsdp import fully_shard

import parts
from author import Author

EACH = 60
device = parts.begin()
talk = dist.new_group(backend="gloo")
model = parts.encoder().to(device)
for layer in model:
    fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
with tempfile.TemporaryDirectory() as folder:
    folders, saving = [folder], None
    dist.broadcast_object_list(folders, 0, group=talk)
    for step in Author().steps():
        batch = torch.randn(48, parts.LENGTH, parts.WIDTH, device=device)
        nn.functional.mse_loss(model(batch), batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % EACH == EACH - 1:
            if saving:
                saving.result()
            saving = checkpoint.async_save({"model": model.state_dict()}, process_group=talk,
                                           checkpoint_id=os.path.join(folders[0], str(step // EACH % 2)))
    if saving:
        saving.result()
    dist.barrier()
dist.destroy_process_group()
