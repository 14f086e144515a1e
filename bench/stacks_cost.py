#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What looking at a process's stacks costs that process: slowrank stacks works and rests in turn, in pairs of blocks of random order.

    bench/stacks_cost.py --slowrank build/slowrank [--pairs 40] [--hz 50] [--python /usr/bin/python3] [--busy-ms 8] [--sleep-ms 4]

The process counts in Python and then sleeps, step by step, beside threads that wait; each step is timed by the wall clock and by
its thread's CPU time. Cost: the mean of the differences within pairs over the mean of the steps without, with a 95 % interval
(bootstrap over pairs). A block's first steps do not count: slowrank opens files then, and finds names. Prints one JSON object.
"""
import argparse
import json
import random
import statistics
import subprocess
import sys
import threading
import time

SETTLE_SECONDS, BLOCK_SECONDS = 0.5, 1.7
LONG_STEP = 1.5  # times the median: counts as so long, and is counted
DRAWS = 2000

PROGRAM = """
import sys, threading, time
busy_s, sleep_s = float(sys.argv[1]), float(sys.argv[2])
for _ in range(8):
    threading.Thread(target=time.sleep, args=(100000,), daemon=True).start()

def count(turns):
    number = 0
    for _ in range(turns):
        number += 1
    return number

begin = time.perf_counter()
count(1000000)
turns = int(busy_s / (time.perf_counter() - begin) * 1000000)
print("ready", flush=True)
while True:
    wall, cpu = time.monotonic(), time.thread_time()
    count(turns)
    time.sleep(sleep_s)
    print(wall, time.monotonic() - wall, time.thread_time() - cpu, flush=True)
"""


def run_blocks(options, process):
    """[(working, begin, end)], in pairs."""
    dice, blocks = random.Random(1), []
    for _ in range(options.pairs):
        for working in dice.sample((True, False), 2):
            begin = time.monotonic()
            if working:
                subprocess.run([options.slowrank, "stacks", "--pid", str(process.pid), "--seconds", str(BLOCK_SECONDS), "--hz", str(options.hz),
                                "--format", "folded"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            else:
                time.sleep(BLOCK_SECONDS)
            blocks.append((working, begin + SETTLE_SECONDS, min(time.monotonic(), begin + BLOCK_SECONDS)))
    return blocks


def means(blocks, steps, column):
    """[(with, without)] of each pair, and how many steps were long."""
    limit = LONG_STEP * statistics.median(step[column] for step in steps)
    pairs, long_steps = [], 0
    for pair in zip(blocks[::2], blocks[1::2]):
        means_of = {}
        for working, begin, end in pair:
            lengths = [step[column] for step in steps if begin <= step[0] and step[0] + step[1] <= end]
            long_steps += sum(length > limit for length in lengths)
            means_of[working] = statistics.mean(min(length, limit) for length in lengths)
        pairs.append((means_of[True], means_of[False]))
    return pairs, long_steps


def cost(pairs):
    """Percent, and the ends of the 95 % interval."""
    def percent(chosen):
        return 100 * sum(a - b for a, b in chosen) / sum(b for _, b in chosen)

    dice = random.Random(1)
    many = sorted(percent(dice.choices(pairs, k=len(pairs))) for _ in range(DRAWS))
    return [round(value, 3) for value in (percent(pairs), many[DRAWS // 40], many[-DRAWS // 40])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slowrank", default="build/slowrank")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--hz", type=int, default=50)
    parser.add_argument("--busy-ms", type=float, default=8)
    parser.add_argument("--sleep-ms", type=float, default=4)
    options = parser.parse_args()
    with subprocess.Popen([options.python, "-c", PROGRAM, str(options.busy_ms / 1e3), str(options.sleep_ms / 1e3)], stdout=subprocess.PIPE, text=True) as process:
        lines = []
        assert process.stdout.readline() == "ready\n"
        reader = threading.Thread(target=lambda: lines.extend(process.stdout))
        reader.start()
        blocks = run_blocks(options, process)
        process.kill()
        reader.join()
    steps = [tuple(map(float, line.split())) for line in lines if len(line.split()) == 3]
    result = {"hz": options.hz, "pairs": options.pairs, "steps": len(steps)}
    for name, column in (("wall", 1), ("cpu", 2)):
        pairs, long_steps = means(blocks, steps, column)
        result[name] = {"step_ms": round(1e3 * statistics.median(step[column] for step in steps), 3), "cost_percent": cost(pairs), "long_steps": long_steps}
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
