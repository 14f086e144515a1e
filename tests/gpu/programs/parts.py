# SPDX-License-Identifier: Apache-2.0
"""A model and data for the programs on torch alone: random, of the usual kinds."""
import os

import torch
import torch.distributed as dist
from torch import nn

WIDTH, LENGTH = 768, 128


def begin():
    """The process group by torchrun's environment; the device of this rank."""
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    return device


def encoder(layers=8):
    return nn.Sequential(*(nn.TransformerEncoderLayer(WIDTH, 12, batch_first=True, norm_first=True)
                           for _ in range(layers)))


class Noise(torch.utils.data.Dataset):
    """So many items of so few."""

    def __init__(self, count, few=256):
        self.count, self.items = count, torch.randn(few, LENGTH, WIDTH)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.items[index % len(self.items)]
