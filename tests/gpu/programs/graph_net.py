# SPDX-License-Identifier: Apache-2.0
"""torch_geometric's GraphSAGE over batches of small graphs of uneven sizes, DDP; the loader collates in the rank itself."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GraphSAGE, global_mean_pool

import parts
from author import Author


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = GraphSAGE(64, 512, num_layers=4), nn.Linear(512, 10)

    def forward(self, batch):
        return self.head(global_mean_pool(self.body(batch.x, batch.edge_index), batch.batch))


def graph():
    nodes = int(torch.randint(200, 1200, ()))
    return Data(x=torch.randn(nodes, 64), edge_index=torch.randint(0, nodes, (2, 8 * nodes)), y=torch.randint(0, 10, (1,)))


device = parts.begin()
loader = DataLoader([graph() for _ in range(512)], batch_size=64, shuffle=True)
model = DistributedDataParallel(Net().to(device), device_ids=[device.index])
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
author = Author()
while not author.is_over():
    for batch in loader:
        if author.is_over():
            break
        author.step()
        batch = batch.to(device)
        loss = nn.functional.cross_entropy(model(batch), batch.y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
dist.destroy_process_group()
