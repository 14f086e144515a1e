# SPDX-License-Identifier: Apache-2.0
"""The model of train.py: GPT blocks, whole or split over ranks, and how big they are to be.

To be imported when the process is where it is to stay: torch starts threads.
"""
import time

import torch
import torch.distributed as dist

AUXILIARY_COLUMNS = 4096


class ToTensorParallel(torch.autograd.Function):
    """Forward: as it is; backward: sum over the group."""

    @staticmethod
    def forward(context, data, group):
        context.group = group
        return data

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient, group=context.group)
        return gradient, None


class FromTensorParallel(torch.autograd.Function):
    """Forward: sum over the group; backward: as it is."""

    @staticmethod
    def forward(context, data, group):
        data = data.contiguous()
        dist.all_reduce(data, group=group)
        return data

    @staticmethod
    def backward(context, gradient):
        return gradient, None


class AllToAll(torch.autograd.Function):
    """Each rank gets its share of every rank's rows; backward: they return."""

    @staticmethod
    def forward(context, data, group):
        context.group = group
        data = data.contiguous()
        result = torch.empty_like(data)
        dist.all_to_all_single(result.flatten(0, -2), data.flatten(0, -2), group=group)
        return result

    @staticmethod
    def backward(context, gradient):
        return AllToAll.apply(gradient, context.group), None


class Block(torch.nn.Module):
    """One transformer block; with a group, its matrices are split over the group's ranks."""

    def __init__(self, dim, group=None):
        super().__init__()
        self.group, parts = group, dist.get_world_size(group) if group else 1
        self.heads, self.head_dim = max(1, dim // 64 // parts), 64
        inner = self.heads * self.head_dim
        self.norm1, self.norm2 = torch.nn.LayerNorm(dim), torch.nn.LayerNorm(dim)
        self.qkv = torch.nn.Linear(dim, 3 * inner, bias=False)
        self.out = torch.nn.Linear(inner, dim, bias=False)
        self.up = torch.nn.Linear(dim, 4 * dim // parts, bias=False)
        self.down = torch.nn.Linear(4 * dim // parts, dim, bias=False)

    def enter(self, data):
        return ToTensorParallel.apply(data, self.group) if self.group else data

    def leave(self, data):
        return FromTensorParallel.apply(data, self.group) if self.group else data

    def forward(self, data):
        batch, length, _ = data.shape
        parts = self.qkv(self.enter(self.norm1(data)))
        parts = parts.view(batch, length, 3, self.heads, self.head_dim).permute(2, 0, 3, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        data = data + self.leave(self.out(mixed.transpose(1, 2).flatten(2)))
        return data + self.feed_forward(self.norm2(data))

    def feed_forward(self, data):
        hidden = torch.nn.functional.gelu(self.up(self.enter(data)))
        return self.leave(self.down(hidden))


class ExpertBlock(Block):
    """One whose second half is an expert of this rank's: all ranks of the group send it rows."""

    def __init__(self, dim, group):
        super().__init__(dim)
        self.expert_group = group
        for parameter in (*self.up.parameters(), *self.down.parameters()):
            parameter.is_expert = True

    def feed_forward(self, data):
        rows = AllToAll.apply(data, self.expert_group)
        return AllToAll.apply(super().feed_forward(rows), self.expert_group)


class Stack(torch.nn.Module):
    """Blocks, and the auxiliary kernels that every rank runs once in every step."""

    def __init__(self, dim, layers, group=None, block=Block):
        super().__init__()
        self.blocks = torch.nn.ModuleList(block(dim, group) for _ in range(layers))
        self.in_forward = lambda: None  # the trainer's hook

    def forward(self, data):
        for index, block in enumerate(self.blocks):
            data = block(data)
            if index == len(self.blocks) // 2:
                self.in_forward()
        return data


class Auxiliary:
    """Kernels whose length is that of a matrix; the fault `longer-kernels` makes it bigger."""

    ROWS, REPEATS = 64, 24

    def __init__(self):
        self.rows = self.ROWS
        self.data = torch.zeros(self.ROWS, AUXILIARY_COLUMNS, device="cuda")

    def reserve(self, rows):
        if rows > self.data.shape[0]:
            self.data = torch.zeros(rows, AUXILIARY_COLUMNS, device="cuda")

    def resize(self, rows):
        self.rows = rows or self.ROWS
        self.reserve(self.rows)

    def run(self):
        view = self.data[:self.rows]
        for _ in range(self.REPEATS):
            torch.sin_(view)


def loss_of(output):
    return output.float().square().mean()


def timed_steps(model, optimizer, batch, count):
    """Mean length in ms of local steps, without any communication."""
    def one():
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(batch)).backward()
        optimizer.step()
        torch.cuda.synchronize()

    for _ in range(3):
        one()
    begun = time.perf_counter()
    for _ in range(count):
        one()
    return (time.perf_counter() - begun) * 1e3 / count


def calibrate(arguments):
    """Finds layers or batch so that a local step takes --step-ms; all ranks take rank 0's."""
    layers, batch = arguments.layers or 12, arguments.batch or 4
    least_layers = dist.get_world_size() if arguments.mode == "pp" else 1
    # Tensor parallel: each of two ranks does half of what is measured here.
    split = 2 if arguments.mode == "tp_dp" and not arguments.launch_bound else 1
    for _ in range(3):
        if arguments.layers and arguments.batch:
            break
        model = Stack(arguments.dim, layers).cuda().to(torch.bfloat16)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
        data = torch.randn(batch, arguments.sequence, arguments.dim, device="cuda",
                           dtype=torch.bfloat16)
        took_ms = timed_steps(model, optimizer, data, 10)
        del model, optimizer, data
        wanted = split * arguments.step_ms / took_ms
        if not arguments.layers:
            layers = max(2, min(round(layers * wanted), 256))
        else:
            batch = max(1, min(round(batch * wanted), 256))
        if 0.93 < wanted < 1.07:
            break
    torch.cuda.empty_cache()
    found = torch.tensor([layers, batch], device="cuda")
    dist.broadcast(found, 0)
    layers, batch = found.tolist()
    return max(layers, least_layers), batch
