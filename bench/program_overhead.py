#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What slowrank costs the programs of tests/gpu/programs, everything on by default.

    bench/program_overhead.py --slowrank build/slowrank [--programs ddp,peft] [--pairs 40]

As bench/gpu_overhead.py, whose blocks and interval these are: within one job slowrank works and rests in turn, in pairs
of random order. The programs know nothing of that: blocks are switched from outside, by the clock, and
a step belongs to the block that it begins and ends in. Each rank keeps to a few cores of its own, and takes the
time of the same few bytecodes in each step. Prints one JSON object; exit 77 without a GPU for each rank (--share-gpu: one for all).
"""
import argparse
import importlib.util
import json
import os
import random
import shutil
import sys
import time

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import gpu_overhead  # noqa: E402

SPEC = importlib.util.spec_from_file_location(
    "programs", os.path.join(ROOT, "tests", "gpu", "programs", "run.py"))
programs = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(programs)
SHORT_STEP_MS = 60  # below that, a step may cost more
BUDGETS = {"long": 0.3, "short": 1.0}  # percent, upper end of the interval


class Job(programs.Job):
    """A program whose slowrank rests while the file exists."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.environment["PACE"] = "1"

    def pin(self, ranks):
        """Every other core, where there are enough: neighbours may be threads of one physical core."""
        count, cores = self.arguments.pin_cores, sorted(os.sched_getaffinity(0))
        outside = programs.Outside(None, {rank: told["pid"] for rank, told in ranks.items()}, cores)
        stride = 2 if len(cores) >= 2 * (1 + len(ranks) * count) else 1
        for rank in ranks if count else ():
            outside.pin(rank, {cores[(1 + rank * count + i) * stride % len(cores)] for i in range(count)})

    def slowrank(self, *words):
        return super().slowrank(words[0], "--pause-file", self.path("pause"), *words[1:])

    def switch(self, on):
        """Returns when, by the clock of the program's author."""
        if on:
            os.unlink(self.path("pause"))
        else:
            with open(self.path("pause"), "w", encoding="ascii"):
                pass
        return time.time()


def switch_in_turn(job, pairs, seconds, dice):
    """[(when, on)] of all blocks, and of the end. The first one works already."""
    switches, is_on = [], True
    for _ in range(pairs):
        for on in dice.sample((True, False), 2):
            at = job.switch(on) if on != is_on else time.time()
            switches.append((at, on))
            is_on = on
            time.sleep(seconds)
    return [*switches, (time.time(), None)]


def read_blocks(switches, ranks):
    """Blocks as gpu_overhead.pair_up() takes them; the pace is the slowest rank's. Switches are by the ranks' clock."""
    begins, paces = ranks[0]["steps"], map(max, zip(*(rank["paces"] for rank in ranks.values())))
    steps = list(zip(begins, begins[1:], paces))
    return [(on, [(begin - first, 1e3 * (end - begin), pace) for begin, end, pace in steps
                  if first <= begin and end <= last])
            for (first, on), (last, _) in zip(switches, switches[1:])]


def measure(arguments, name, lane):
    job = Job(arguments, lane, name, "root")
    try:
        job.begin()
        job.start()
        job.pin(job.wait(lambda ranks: True, programs.START_S, "the job does not begin"))
        job.warm()
        switches = switch_in_turn(job, arguments.pairs, arguments.block_seconds,
                                  random.Random(arguments.seed))
        job.end()
        status = job.finish()
        if status:
            raise RuntimeError(f"the job ended with {status}:\n{job.tail()}")
        ranks = programs.read_ranks(job.truth_folder)
    finally:
        job.kill()
        shutil.rmtree(job.folder, ignore_errors=True)
    found = gpu_overhead.interval(gpu_overhead.pair_up(read_blocks(switches, ranks)))
    budget = BUDGETS["short" if found["step_ms_without"] < SHORT_STEP_MS else "long"]
    counts = gpu_overhead.what_counts(found)["interval_95_percent"]
    return dict(found, budget_percent=budget, within_budget=counts[1] <= budget)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slowrank", type=os.path.abspath,
                        default=os.path.join(ROOT, "build", "slowrank"))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--work", type=os.path.abspath, default="/var/tmp/slowrank-program-overhead")
    parser.add_argument("--programs", type=lambda text: text.split(","),
                        default=["trainer-log-500", "vision", "fsdp"])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--block-seconds", type=float, default=gpu_overhead.BLOCK_SECONDS)
    parser.add_argument("--pin-cores", type=int, default=2, help="of each rank; 0 = any")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share-gpu", action="store_true", help="all ranks on the first GPU, over sockets")
    parser.set_defaults(faults="outside")  # of programs.Job
    arguments = parser.parse_args()
    unknown = set(arguments.programs) - set(programs.PROGRAMS)
    if unknown:
        parser.error(f"not a program: {', '.join(sorted(unknown))}")
    return arguments


def main():
    arguments = parse_arguments()
    needed = 1 if arguments.share_gpu else arguments.ranks
    gpus, why = programs.count_gpus(arguments.python, needed)
    if why:
        print(f"bench/program_overhead.py: {why}", file=sys.stderr)
        return programs.SKIP
    os.makedirs(arguments.work, exist_ok=True)
    found = {}
    with programs.share_gpu.by_kernels(arguments.work, arguments.share_gpu):
        lane = programs.Lane(0, 1, gpus, needed)
        for name in arguments.programs:
            found[name] = gpu_overhead.attempt(measure, arguments, name, lane)
            print(json.dumps({name: found[name]}), file=sys.stderr, flush=True)
    print(json.dumps({
        "bench": "program_overhead", "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "compared_against": "the same job with slowrank resting", "ranks": arguments.ranks,
        "gpus": needed, "programs": found, "machine": {"cores": os.cpu_count(), "kernel": os.uname().release,
                                       "root": os.geteuid() == 0}}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
