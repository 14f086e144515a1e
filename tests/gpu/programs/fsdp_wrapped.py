# SPDX-License-Identifier: Apache-2.0
"""FullyShardedDataParallel of a transformer of 8 layers, bfloat16, the loss read every 20 steps."""
import functools

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

import parts
from author import Author

device = parts.begin()
policy = functools.partial(transformer_auto_wrap_policy,
                           transformer_layer_cls={nn.TransformerEncoderLayer})
model = FullyShardedDataParallel(
    parts.encoder(16), auto_wrap_policy=policy, device_id=device,
    mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in Author().steps():
    batch = torch.randn(64, parts.LENGTH, parts.WIDTH, device=device)
    loss = nn.functional.mse_loss(model(batch).float(), batch)
    loss.backward()
    model.clip_grad_norm_(1.0)
    optimizer.step()
    optimizer.zero_grad()
    if step % 20 == 0:
        print(step, loss.item())
dist.destroy_process_group()
