#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What slowrank costs the job: everything on by default, against the same job without.

    bench/overhead.py --build build [--ranks 8] [--minutes 3] [--pairs 6]

Two comparisons, because each misses something:
 - blocks: within one job the sources rest and work in turn (--pause-file), in pairs of blocks of
   random order. Free of differences between runs; but a resting probe's traps stay in the code.
 - pairs: short jobs without slowrank and with it, in turn. Sees all; as noisy as the machine.
Ratios of mean step times, with a 95 % bootstrap interval over pairs. Also the probe's memory and
CPU time from /proc, and the record's bytes per rank and step. Prints one JSON object. Needs root.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "cluster"))
import jobs  # noqa: E402

BUDGETS = {"slowdown_percent": 1.0, "probe_cpu_percent": 1.0, "probe_mib_per_rank": 32,
           "bytes_per_rank_step": 1024}
SETTLE_SECONDS = 0.5  # after a switch: the probe looks at the pause file a few times a second
RESAMPLES = 4000


def interval(pairs):
    """Ratio of the means over pairs (with, without), and its 95 % bootstrap interval."""
    def ratio(chosen):
        return sum(pair[0] for pair in chosen) / sum(pair[1] for pair in chosen)

    dice = random.Random(1)
    resampled = sorted(ratio(dice.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    low, high = resampled[int(0.025 * RESAMPLES)], resampled[int(0.975 * RESAMPLES)]
    return {"slowdown_percent": round(100 * (ratio(pairs) - 1), 3),
            "interval_95_percent": [round(100 * (low - 1), 3), round(100 * (high - 1), 3)],
            "pairs": len(pairs), "step_ms_with": round(statistics.mean(p[0] for p in pairs), 4),
            "step_ms_without": round(statistics.mean(p[1] for p in pairs), 4)}


def trimmed_mean(values):
    """Without the tenth at either end: one hiccup of the machine must not decide."""
    values = sorted(values)
    cut = len(values) // 10
    return statistics.mean(values[cut:len(values) - cut])


class Usage(threading.Thread):
    """Samples CPU time and memory of all processes of slowrank below one process."""

    def __init__(self, pid, program):
        super().__init__(daemon=True)
        self.pid, self.program = pid, os.path.realpath(program)
        self.cpu_seconds, self.peak_kib, self.started = {}, {}, time.monotonic()
        self.stopped = threading.Event()

    def run(self):
        while not self.stopped.wait(0.5):
            for pid in self.own_processes():
                self.sample(pid)
            self.ended = time.monotonic()

    def own_processes(self):
        found, waiting = [], [self.pid]
        while waiting:
            pid = waiting.pop()
            try:
                for task in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                        waiting += [int(child) for child in file.read().split()]
                if os.readlink(f"/proc/{pid}/exe") == self.program:
                    found.append(pid)
            except OSError:
                continue  # gone meanwhile
        return found

    def sample(self, pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
                peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
        except (OSError, StopIteration):
            return
        ticks = int(fields[11]) + int(fields[12])
        self.cpu_seconds[pid] = ticks / os.sysconf("SC_CLK_TCK")
        self.peak_kib[pid] = peak

    def summary(self):
        length = self.ended - self.started
        return {"processes": len(self.cpu_seconds),
                "cpu_percent_of_one_core": round(100 * sum(self.cpu_seconds.values()) / length, 3),
                "cpu_percent_each": [round(100 * s / length, 3) for s in self.cpu_seconds.values()],
                "peak_mib": round(sum(self.peak_kib.values()) / 1024, 1),
                "peak_mib_each": [round(kib / 1024, 1) for kib in self.peak_kib.values()]}


def start(arguments, directory, steps, watched, extra=()):
    truth_path = jobs.fresh_directory(directory)
    run = jobs.Run(directory)
    run.clean()
    command = [*jobs.mpirun(arguments.ranks), *jobs.workload_command(
        arguments.workload, truth_path, steps=steps, step_ms=arguments.step_ms,
        compute_ms=arguments.compute_ms, collectives=arguments.collectives)]
    if watched:
        command = [arguments.slowrank, "run", "--record", run.record, "--alerts", run.alerts_path,
                   "--quiet", *extra, "--", *command]
    with open(run.log, "w", encoding="utf-8") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=subprocess.STDOUT)
    return process, run, truth_path


def switch_blocks(process, pause_file, block_seconds, deadline):
    """Lets sources rest and work in turn until the job ends; returns (begin, end, pair, on)."""
    dice = random.Random(2)
    blocks, pair = [], 0
    while time.monotonic() < deadline and process.poll() is None:
        first_on = dice.random() < 0.5
        for on in (first_on, not first_on):
            if on and os.path.exists(pause_file):
                os.unlink(pause_file)
            elif not on:
                with open(pause_file, "w", encoding="ascii"):
                    pass
            begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            time.sleep(block_seconds)
            end = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            blocks.append((begin + int(SETTLE_SECONDS * 1e9), end, pair, on))
        pair += 1
    if os.path.exists(pause_file):
        os.unlink(pause_file)
    return blocks


def block_pairs(truth, blocks):
    starts = [step["monotonic_ns"] for step in truth.steps]
    lengths = {}
    for begin, end, pair, on in blocks:
        inside = [(b - a) / 1e6 for a, b in zip(starts, starts[1:]) if begin <= a and b <= end]
        if len(inside) >= 10:
            lengths[pair, on] = trimmed_mean(inside)
    return [(lengths[pair, True], lengths[pair, False]) for pair, on in lengths
            if on and (pair, False) in lengths]


def measure_blocks(arguments, result):
    directory = os.path.join(arguments.work, "blocks")
    pause_file = os.path.join(directory, "pause")
    steps = int(arguments.minutes * 60 * 1000 / arguments.step_ms)
    process, run, truth_path = start(arguments, directory, steps, True,
                                     ["--pause-file", pause_file])
    usage = Usage(process.pid, arguments.slowrank)
    usage.start()
    time.sleep(3)  # attaching, and finding the period
    blocks = switch_blocks(process, pause_file, arguments.block_seconds,
                           time.monotonic() + arguments.minutes * 60)
    status = process.wait()
    usage.stopped.set()
    usage.join()
    if status != 0:
        raise RuntimeError(f"the job failed with status {status}:\n{run.tail()}")
    pairs = block_pairs(jobs.Truth(truth_path), blocks)
    if len(pairs) < 3:
        raise RuntimeError("too few blocks: give it more --minutes")
    result["blocks"] = interval(pairs)
    result["probe_with_rests"] = usage.summary()


def measure_always_on(arguments, result):
    """The probe's own cost, and the record, with nothing ever resting."""
    directory = os.path.join(arguments.work, "on")
    steps = int(arguments.minutes * 20 * 1000 / arguments.step_ms)
    process, run, truth_path = start(arguments, directory, steps, True)
    usage = Usage(process.pid, arguments.slowrank)
    usage.start()
    status = process.wait()
    usage.stopped.set()
    usage.join()
    if status != 0:
        raise RuntimeError(f"the job failed with status {status}:\n{run.tail()}")
    report = run.report(arguments.slowrank)
    rank_steps = report["job"]["ranks"] * max(report["job"]["steps"], 1)
    result["probe"] = usage.summary()
    result["probe"]["mib_per_rank"] = round(result["probe"]["peak_mib"] / arguments.ranks, 2)
    result["probe"]["cpu_percent_by_report"] = report["coverage"].get("probe_cpu_percent")
    result["record"] = {
        "bytes": os.path.getsize(run.record), "rank_steps": rank_steps,
        "bytes_per_rank_step": round(os.path.getsize(run.record) / rank_steps, 1),
        "report_steps": report["job"]["steps"], "true_steps": len(jobs.Truth(truth_path).steps),
        "dropped": report["coverage"].get("dropped")}


def measure_pairs(arguments, result):
    steps = int(arguments.pair_seconds * 1000 / arguments.step_ms)
    dice = random.Random(3)
    pairs = []
    for _ in range(arguments.pairs):
        means = {}
        for watched in dice.sample((True, False), 2):
            process, run, truth_path = start(
                arguments, os.path.join(arguments.work, "pairs"), steps, watched)
            if process.wait() != 0:
                raise RuntimeError(f"the job failed:\n{run.tail()}")
            means[watched] = trimmed_mean(jobs.Truth(truth_path).lengths_ms(20, 1 << 62))
        pairs.append((means[True], means[False]))
    if pairs:
        result["pairs"] = interval(pairs)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--work", default="/var/tmp/slowrank-overhead")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--step-ms", type=float, default=20)
    parser.add_argument("--compute-ms", type=float, default=0.5)
    parser.add_argument("--collectives", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=3, help="of the job that is switched")
    parser.add_argument("--block-seconds", type=float, default=2.0)
    parser.add_argument("--pairs", type=int, default=6, help="of whole jobs; 0 = none")
    parser.add_argument("--pair-seconds", type=float, default=10)
    arguments = parser.parse_args()
    arguments.slowrank = os.path.abspath(os.path.join(arguments.build, "slowrank"))
    arguments.workload = os.path.abspath(os.path.join(arguments.build, "workload_mpi"))
    return arguments


def main():
    arguments = parse_arguments()
    if os.geteuid() != 0:
        print("bench/overhead.py: needs root, for BPF", file=sys.stderr)
        return 77
    result = {"bench": "overhead", "compared_against": "the same job with sources resting, and "
              "the same job without slowrank", "budgets": BUDGETS,
              "job": {"ranks": arguments.ranks, "step_ms": arguments.step_ms,
                      "compute_ms": arguments.compute_ms, "collectives": arguments.collectives},
              "machine": {"cores": os.cpu_count(), "kernel": os.uname().release}}
    measure_always_on(arguments, result)
    measure_blocks(arguments, result)
    measure_pairs(arguments, result)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
