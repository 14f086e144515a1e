# SPDX-License-Identifier: Apache-2.0
"""timm's ResNet-50, DDP, images by torchvision's loader with eight workers a rank, loss read every 10 steps."""
import timm
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from torchvision import datasets, transforms

import parts
from author import Author


def main():
    device = parts.begin()
    images = datasets.FakeData(size=24576, image_size=(3, 224, 224), num_classes=1000,
                               transform=transforms.ToTensor())
    sampler = DistributedSampler(images)
    loader = DataLoader(images, batch_size=48, sampler=sampler, num_workers=8, pin_memory=True)
    model = timm.create_model("resnet50", num_classes=1000).to(device)
    model = DistributedDataParallel(model, device_ids=[device.index])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    author, epoch = Author(), 0
    while not author.is_over():
        sampler.set_epoch(epoch)
        for picture, label in loader:
            if author.is_over():
                break
            author.step()
            output = model(picture.to(device, non_blocking=True))
            loss = nn.functional.cross_entropy(output, label.to(device, non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if author.count % 10 == 0:
                print(author.count, loss.item())
        epoch += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
