#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training job on real GPUs, started by torchrun: GPT blocks, bf16, synthetic data.

    torchrun --nproc-per-node 2 train.py --mode ddp --steps 500 --plan plan.json --truth t.jsonl

Its size is found by measuring: --step-ms is what a step takes on one GPU; with --launch-bound the
step is as long because the host launches many small kernels. Faults come from the plan
(fault_plan.py, faults.py); what truly happened, and when every step began, goes to the truth log.
"""
import argparse
import collections
import contextlib
import gc
import os
import random
import signal
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fault_plan  # noqa: E402
import faults  # noqa: E402
import nodes  # noqa: E402
import timeline  # noqa: E402

WARM_UP_STEPS = 20

torch = dist = gpt = None  # imported in main(), after the process has its namespace and its core


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=("ddp", "fsdp", "tp_dp", "pp", "ep"), default="ddp")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--step-ms", type=float, default=None, help="60, or 22 if launch-bound")
    parser.add_argument("--launch-bound", action="store_true")
    parser.add_argument("--dim", type=int, default=None)
    parser.add_argument("--sequence", type=int, default=None)
    parser.add_argument("--layers", type=int, default=None, help="0 = calibrate")
    parser.add_argument("--batch", type=int, default=None, help="0 = calibrate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plan")
    parser.add_argument("--truth")
    parser.add_argument("--injector", help="socket of injector.py")
    parser.add_argument("--work", default="/var/tmp", help="on a disk, for major page faults")
    parser.add_argument("--net-helper", help="ranks go into network namespaces made by it")
    parser.add_argument("--pin-cores", type=int, default=0,
                        help="each rank onto so many cores of its own")
    parser.add_argument("--freeze", action="store_true",
                        help="what lives after the warm-up is no work for the garbage collector")
    parser.add_argument("--sync-every", type=int, default=1, help="read the loss; 0 = never")
    parser.add_argument("--graph", action="store_true", help="forward and backward as CUDA graph")
    parser.add_argument("--graph-comm", action="store_true", help="the all-reduce in it too")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--profile-steps", help="FIRST:LAST, PyTorch's profiler in mid-run")
    parser.add_argument("--remake-at", type=int, default=-1, help="communicator made anew")
    parser.add_argument("--die-at", type=int, default=-1)
    parser.add_argument("--die-rank", type=int, default=-1)
    parser.add_argument("--timeline", action="store_true",
                        help="record CUPTI's kernel timeline within the windows (timeline.py)")
    parser.add_argument("--switch", choices=("pause-file", "profiler"))
    parser.add_argument("--pause-file")
    parser.add_argument("--block-steps", type=int, default=40)
    parser.add_argument("--count-launches", action="store_true",
                        help="with PyTorch's profiler, after the last step")
    arguments = parser.parse_args(argv)
    small = arguments.launch_bound
    arguments.step_ms = arguments.step_ms or (22.0 if small else 60.0)
    arguments.dim = arguments.dim or (256 if small else 2048)
    arguments.sequence = arguments.sequence or (128 if small else 1024)
    if arguments.layers is None:
        arguments.layers = 0 if small else 8
    if arguments.batch is None:
        arguments.batch = 2 if small else 0
    if arguments.graph and arguments.mode != "ddp":
        parser.error("--graph goes with --mode ddp")
    if arguments.switch == "pause-file" and not arguments.pause_file:
        parser.error("--switch pause-file needs --pause-file")
    return arguments


# --- where the rank lives: before torch is imported, so that all its threads live there too


def sent_bytes(device):
    with open(f"/proc/self/task/{os.getpid()}/net/dev", encoding="ascii") as file:
        for line in file:
            name, _, numbers = line.partition(":")
            if name.strip() == device:
                return int(numbers.split()[8])
    return 0


def pin(local_rank, count):
    """Every other core, where there are enough: neighbours may be threads of one physical core."""
    cores = sorted(os.sched_getaffinity(0))
    place = int(os.environ.get("SHARE_GPU_RANK", local_rank))
    ranks = int(os.environ.get("SHARE_GPU_RANKS", os.environ.get("LOCAL_WORLD_SIZE", place + 1)))
    stride = 2 if len(cores) >= 2 * (1 + ranks * count) else 1
    first = 1 + place * count
    os.sched_setaffinity(0, {cores[(first + i) * stride % len(cores)] for i in range(count)})


class RandomBatches:
    """A data set made up on the spot; the fault of the input pipeline sits in its iterator."""

    def __init__(self, arguments, batch, rank):
        self.shape = (batch, arguments.sequence, arguments.dim)
        self.generator = torch.Generator().manual_seed(arguments.seed * 1000 + rank)
        self.stored = [torch.randn(self.shape, generator=self.generator).to(torch.bfloat16)
                       .pin_memory() for _ in range(4)]
        self.in_loader, self.index = lambda: None, 0

    def __next__(self):
        self.in_loader()
        self.index += 1
        return self.stored[self.index % len(self.stored)]


# --- one step, for each way to train


class Trainer:
    """Holds the model and does one step at a time; made anew for --remake-at."""

    def __init__(self, arguments, layers, batch, hooks):
        self.arguments, self.hooks = arguments, hooks
        self.group, self.graph = None, None
        world, rank = dist.get_world_size(), dist.get_rank()
        torch.manual_seed(arguments.seed)
        model = getattr(self, "make_" + arguments.mode)(layers, world, rank)
        model.in_forward = hooks["in_forward"]
        if arguments.compile:
            for block in model.blocks:
                block.compile()
        self.module = model
        self.wrap()
        self.optimizer = torch.optim.AdamW(self.module.parameters(), lr=1e-5, fused=True)
        self.batch_shape = (batch, arguments.sequence, arguments.dim)

    def cast(self, model):
        return model.cuda().to(torch.bfloat16)

    def make_ddp(self, layers, world, rank):
        if self.arguments.remake_at >= 0:  # one that may be destroyed
            self.group = dist.new_group(list(range(world)))
        return self.cast(gpt.Stack(self.arguments.dim, layers))

    def make_fsdp(self, layers, world, rank):
        return self.cast(gpt.Stack(self.arguments.dim, layers))

    def make_tp_dp(self, layers, world, rank):
        if world < 4 or world % 2:
            raise SystemExit("--mode tp_dp needs 4, 6, 8... ranks")
        # Every rank makes every group, in one order: NCCL's rule.
        pairs = [dist.new_group([first, first + 1]) for first in range(0, world, 2)]
        columns = [dist.new_group(list(range(odd, world, 2))) for odd in range(2)]
        self.tensor_group, self.group = pairs[rank // 2], columns[rank % 2]
        return self.cast(gpt.Stack(self.arguments.dim, layers, self.tensor_group))

    def make_pp(self, layers, world, rank):
        share = layers // world + (1 if rank < layers % world else 0)
        return self.cast(gpt.Stack(self.arguments.dim, max(1, share)))

    def make_ep(self, layers, world, rank):
        if self.arguments.sequence % world:
            raise SystemExit(f"--mode ep needs a --sequence that {world} ranks can share")
        group = dist.new_group(list(range(world)))
        return self.cast(gpt.Stack(self.arguments.dim, layers, group, gpt.ExpertBlock))

    def wrap(self):
        mode = self.arguments.mode
        self.model = self.module
        if mode == "fsdp":
            from torch.distributed.fsdp import fully_shard
            for block in self.module.blocks:
                fully_shard(block)
            self.model = fully_shard(self.module)
        elif mode in ("ddp", "tp_dp") and not self.arguments.graph:
            self.model = torch.nn.parallel.DistributedDataParallel(
                self.module, process_group=self.group, gradient_as_bucket_view=True)

    def remake(self):
        """Destroys the communicator of the gradients and goes on with a new one."""
        if self.arguments.mode != "ddp" or self.arguments.graph:
            return "only with --mode ddp, without --graph"
        torch.cuda.synchronize()
        self.model = None
        self.optimizer.zero_grad(set_to_none=True)
        gc.collect()
        dist.destroy_process_group(self.group)
        self.group = dist.new_group(list(range(dist.get_world_size())))
        self.wrap()
        return ""

    def step(self, data):
        if self.arguments.graph:
            return self.graph_step(data)
        if self.arguments.mode == "pp":
            return self.pipeline_step(data)
        self.optimizer.zero_grad(set_to_none=True)
        loss = gpt.loss_of(self.model(data))
        loss.backward()
        if self.arguments.mode == "ep":
            self.reduce_gradients()
        self.optimizer.step()
        return loss

    def reduce_gradients(self):
        """Of all that every rank has."""
        parameters = [p for p in self.module.parameters() if not getattr(p, "is_expert", False)]
        flat = torch.cat([p.grad.flatten() for p in parameters])
        dist.all_reduce(flat)
        offset = 0
        for parameter in parameters:
            count = parameter.numel()
            parameter.grad.copy_(flat[offset:offset + count].view_as(parameter.grad))
            offset += count

    def capture(self):
        self.static = torch.zeros(self.batch_shape, device="cuda", dtype=torch.bfloat16)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.optimizer.zero_grad(set_to_none=True)
                gpt.loss_of(self.module(self.static)).backward()
                self.reduce_gradients()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.static_loss = gpt.loss_of(self.module(self.static))
            self.static_loss.backward()
            if self.arguments.graph_comm:
                self.reduce_gradients()

    def graph_step(self, data):
        if self.graph is None:
            self.capture()
        self.static.copy_(data)
        self.hooks["in_forward"]()  # what a graph does was decided when it was captured
        self.graph.replay()
        if not self.arguments.graph_comm:
            self.reduce_gradients()
        self.optimizer.step()
        return self.static_loss

    def pipeline_step(self, data, micro_batches=4):
        """All micro-batches forward, then all backward, stage by stage."""
        rank, last = dist.get_rank(), dist.get_world_size() - 1
        self.optimizer.zero_grad(set_to_none=True)
        kept = []
        for part in data.chunk(micro_batches):
            if rank > 0:
                part = torch.empty_like(part)
                dist.recv(part, rank - 1)
                part.requires_grad_()
            result = self.model(part)
            if rank < last:
                dist.send(result.detach().contiguous(), rank + 1)
            else:
                result = gpt.loss_of(result)
            kept.append((part, result))
        loss = kept[-1][1].detach().mean() if rank == last else torch.zeros((), device="cuda")
        for part, result in reversed(kept):
            if rank < last:
                gradient = torch.empty_like(result)
                dist.recv(gradient, rank + 1)
                result.backward(gradient)
            else:
                result.backward()
            if rank > 0:
                dist.send(part.grad.contiguous(), rank - 1)
        self.optimizer.step()
        dist.all_reduce(loss)
        return loss


# --- what happens around the steps


class Switch:
    """Turns what is to be measured on and off in blocks of steps, in pairs of random order."""

    def __init__(self, arguments, rank, truth):
        self.arguments, self.rank, self.truth = arguments, rank, truth
        self.dice = random.Random(arguments.seed)  # the same order on every rank
        self.order, self.profiler, self.block = [], None, -1

    def at_step(self, step):
        if not self.arguments.switch or step % self.arguments.block_steps:
            return
        if not self.order:
            first_on = self.dice.random() < 0.5
            self.order = [first_on, not first_on]
        is_on = self.order.pop(0)
        self.block += 1
        if self.arguments.switch == "profiler":
            self.set_profiler(is_on)
        elif self.rank == 0:
            self.set_pause_file(not is_on)
        if self.rank == 0:
            self.truth.add("block", block=self.block, on=is_on, step=step)

    def set_pause_file(self, exists):
        if exists:
            with open(self.arguments.pause_file, "w", encoding="ascii"):
                pass
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.arguments.pause_file)

    def set_profiler(self, is_on):
        if self.profiler:
            self.profiler.stop()
            self.profiler = None
        if is_on:
            self.profiler = torch.profiler.profile()
            self.profiler.start()

    def close(self):
        if self.arguments.switch == "profiler":
            self.set_profiler(False)
        elif self.arguments.switch and self.rank == 0:
            self.set_pause_file(False)


class Pace:
    """How fast this rank's cores are in a step: time of the same few bytecodes before each block, in
    forward and backward. It wanders with what other guests do on them."""

    ROUNDS = 800  # about 10 us

    def __init__(self, blocks):
        self.ms = 0.0
        for block in blocks:
            block.register_forward_pre_hook(self.on_block)

    def sample(self, *_):
        begun = time.perf_counter()
        for _ in range(self.ROUNDS):
            pass
        self.ms += (time.perf_counter() - begun) * 1e3

    def on_block(self, _, inputs):
        self.sample()
        if inputs[0].requires_grad:
            inputs[0].register_hook(self.sample)  # on autograd's thread

    def take(self):
        taken, self.ms = self.ms, 0.0
        return taken


class Recent:
    """Means over the last healthy steps: length, CPU time, bytes sent."""

    def __init__(self, device):
        self.device, self.marks = device, collections.deque(maxlen=21)

    def mark(self, is_healthy):
        if is_healthy:
            self.marks.append((time.perf_counter() * 1e3, time.process_time() * 1e3,
                               sent_bytes(self.device) if self.device else 0))
        else:
            self.marks.clear()

    def keep(self):
        self.means = [(b - a) / max(1, len(self.marks) - 1)
                      for a, b in zip(self.marks[0], self.marks[-1])] if self.marks else None

    def mean(self, index, default):
        return self.means[index] if getattr(self, "means", None) else default


def run_steps(arguments, trainer, batches, runner, truth, rank, recent, plan):
    switch = Switch(arguments, rank, truth)
    first, last = map(int, arguments.profile_steps.split(":")) if arguments.profile_steps \
        else (-1, -1)
    profiler = None
    kernels = timeline.Timeline(torch, truth, rank, plan) if arguments.timeline else None
    is_quiet = [True] * (arguments.steps + 8)
    for window in plan:  # any rank's: all ranks slow down together
        for step in range(max(0, window["first_step"]), window["last_step"] + 6):
            if step < len(is_quiet):
                is_quiet[step] = False
    pace = Pace(trainer.module.blocks) if arguments.switch else None
    host_ms = None
    for step in range(arguments.steps):
        switch.at_step(step)
        if is_quiet[step]:
            recent.mark(True)
            if step + 1 == len(is_quiet) or not is_quiet[step + 1]:
                recent.keep()
                recent.marks.clear()
        truth.add("step", at_once=False, rank=rank, step=step, host_ms_before=host_ms,
                  pace_ms_before=pace.take() if pace else None)
        runner.at_step(step, recent.mean(0, arguments.step_ms))
        if kernels:
            kernels.at_step(step)
        if step == first:
            truth.add("note", rank=rank, step=step, what="profiler on")
            profiler = torch.profiler.profile()
            profiler.start()
        if step == last and profiler:
            profiler.stop()
            profiler = None
            truth.add("note", rank=rank, step=step, what="profiler off")
        if step == arguments.remake_at:
            truth.add("note", rank=rank, step=step, what="communicator made anew",
                      why=trainer.remake())
        if step == arguments.die_at and rank == arguments.die_rank:
            truth.add("note", rank=rank, step=step, what="death")
            os.kill(os.getpid(), signal.SIGKILL)
        begun = time.perf_counter()
        loss = trainer.step(next(batches).to("cuda", non_blocking=True))
        host_ms = round((time.perf_counter() - begun) * 1e3, 3)
        if arguments.sync_every and step % arguments.sync_every == 0:
            loss.item()
    runner.close(arguments.steps)
    switch.close()
    if profiler:
        profiler.stop()
    torch.cuda.synchronize()


def count_launches(trainer, batches):
    """Kernels, copies and fills of one step, as PyTorch's profiler sees them."""
    with torch.profiler.profile() as profiler:
        trainer.step(next(batches).to("cuda", non_blocking=True))
        torch.cuda.synchronize()
    names = [event.name for event in profiler.events()]
    return sum(name.startswith(("cudaLaunchKernel", "cuLaunchKernel", "cudaMemcpyAsync",
                                "cudaMemsetAsync", "cudaGraphLaunch")) for name in names)


def warm_up_ms(trainer, batches, count=15):
    """Length of a step with all its communication, the same on every rank."""
    for _ in range(WARM_UP_STEPS - count):
        trainer.step(next(batches).to("cuda"))
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(count):
        trainer.step(next(batches).to("cuda", non_blocking=True)).item()
    took = torch.tensor([(time.perf_counter() - begun) * 1e3 / count], device="cuda")
    dist.all_reduce(took, dist.ReduceOp.MAX)
    return took.item()


def train(arguments, rank, local_rank, device):
    truth = fault_plan.TruthWriter(arguments.truth)
    world = dist.get_world_size()
    plan = fault_plan.read_plan(arguments.plan, world) if arguments.plan else []
    layers, batch = gpt.calibrate(arguments)
    recent, auxiliary = Recent(device), gpt.Auxiliary()
    context = {"injector": arguments.injector, "work": arguments.work, "gpu": local_rank,
               "auxiliary": auxiliary, "net_device": device, "net_helper": arguments.net_helper,
               "cpu_ms_per_step": lambda: recent.mean(1, arguments.step_ms),
               "sent_bytes_per_step": lambda: recent.mean(2, 0)}
    runner = faults.FaultRunner(plan, rank, context, truth)

    def in_forward():
        if torch.cuda.is_current_stream_capturing():
            return
        auxiliary.run()
        runner.on_device()

    trainer = Trainer(arguments, layers, batch, {"in_forward": in_forward})
    batches = RandomBatches(arguments, batch, rank)
    batches.in_loader = runner.each_step
    step_ms = warm_up_ms(trainer, batches)
    if arguments.freeze:
        gc.collect()
        gc.freeze()
    runner.prepare(step_ms)
    parameters = sum(p.numel() for p in trainer.module.parameters())
    if rank == 0:
        truth.add("job", ranks=world, mode=arguments.mode, step_ms=step_ms, layers=layers,
                  batch=batch, warm_up_steps=WARM_UP_STEPS, parameters=parameters, torch=torch.__version__,
                  nccl=".".join(map(str, torch.cuda.nccl.version())),
                  gpu=torch.cuda.get_device_name(), options=vars(arguments))
    truth.add("rank", rank=rank, pid=os.getpid(), host=os.uname().nodename, gpu=local_rank,
              cores=sorted(os.sched_getaffinity(0)))
    dist.barrier()
    run_steps(arguments, trainer, batches, runner, truth, rank, recent, plan)
    truth.add("end", rank=rank)
    if arguments.count_launches:
        truth.add("note", rank=rank, what="launches", count=count_launches(trainer, batches))
    dist.barrier()


def main():
    global torch, dist, gpt
    arguments = parse_arguments()
    rank, local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    device = nodes.enter_network(rank) if arguments.net_helper else None
    if arguments.pin_cores:
        pin(local_rank, arguments.pin_cores)
    import torch
    import torch.distributed as dist
    import gpt

    torch.cuda.set_device(local_rank)
    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = True
    dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))
    try:
        train(arguments, rank, local_rank, device)
    finally:
        dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
