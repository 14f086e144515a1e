# SPDX-License-Identifier: Apache-2.0
"""A generator and a discriminator of images, each under DDP with its own optimizer, in turn."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import parts
from author import Author

NOISE, BATCH, CHANNELS = 128, 128, (256, 128, 64)


def generator():
    layers, width = [nn.ConvTranspose2d(NOISE, 512, 4)], 512
    for after in (*CHANNELS, 3):
        layers += [nn.BatchNorm2d(width), nn.ReLU(), nn.ConvTranspose2d(width, after, 4, 2, 1)]
        width = after
    return nn.Sequential(*layers, nn.Tanh())


def discriminator():
    layers, width = [], 3
    for after in (*reversed(CHANNELS), 512):
        layers += [nn.Conv2d(width, after, 4, 2, 1), nn.LeakyReLU(0.2)]
        width = after
    return nn.Sequential(*layers, nn.Conv2d(width, 1, 4), nn.Flatten())


device = parts.begin()
maker, judge = (DistributedDataParallel(net.to(device), device_ids=[device.index])
                for net in (generator(), discriminator()))
by_maker, by_judge = (torch.optim.Adam(net.parameters(), lr=2e-4, betas=(0.5, 0.999)) for net in (maker, judge))
ask = nn.functional.binary_cross_entropy_with_logits
real, fake = torch.ones(BATCH, 1, device=device), torch.zeros(BATCH, 1, device=device)
for step in Author().steps():
    pictures = torch.randn(BATCH, 3, 64, 64, device=device)
    made = maker(torch.randn(BATCH, NOISE, 1, 1, device=device))
    loss = ask(judge(pictures), real) + ask(judge(made.detach()), fake)
    by_judge.zero_grad()
    loss.backward()
    by_judge.step()
    by_maker.zero_grad()
    ask(judge(made), real).backward()
    by_maker.step()
    if step % 10 == 0:
        print(step, loss.item())
dist.destroy_process_group()
