# SPDX-License-Identifier: Apache-2.0
"""Python programs that are hard to look at: odd_job.py KIND [NUMBER]. Lines that are known are marked."""
import asyncio
import os
import sys
import threading
import time


def rest():
    time.sleep(1000)  # AT rest


def brief(pause_s):
    time.sleep(pause_s)


def churn():
    """Threads begin and end all the time."""
    while True:
        threads = [threading.Thread(target=brief, args=(i / 5000,)) for i in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def descend(depth):
    if depth:
        descend(depth - 1)  # AT descend
    else:
        rest()  # AT bottom


def climb(depth):
    return climb(depth - 1) if depth else None


def climb_always(depth):
    while True:
        climb(depth)


def compile_always():
    """Code objects and functions come, run, and are freed."""
    number = 0
    while True:
        number += 1
        space = {}
        exec(compile(f"def f{number}(n):\n    return n and f{number}(n - 1)\nf{number}(30)", f"made{number % 7}.py", "exec"), space)


async def inner():
    rest()  # AT inner


async def outer():
    await inner()  # AT outer


def generate(depth):
    if depth:
        yield from generate(depth - 1)  # AT generate
    else:
        yield rest()  # AT generated


def from_generators():
    return list(generate(40))


def in_tasks():
    """Tasks that hand over to each other, thousands of times a second."""

    async def hand_over():
        while True:
            await asyncio.sleep(0)

    async def all_of_them():
        await asyncio.gather(*(hand_over() for _ in range(50)))

    asyncio.run(all_of_them())


def exec_always(count):
    """The same process is this program again, and again."""
    time.sleep(0.02)
    os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), "exec", str(count + 1)])


kind, number = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
sys.setrecursionlimit(10**6)
threading.stack_size(512 << 20 if kind in ("deep", "climb") else 0)
targets = {
    "churn": [churn, churn, rest],
    "deep": [lambda: descend(number)],
    "climb": [lambda: climb_always(number)],
    "compile": [compile_always, rest],
    "async": [lambda: asyncio.run(outer()), from_generators, in_tasks],
    "exec": [],
    "rest": [rest] * 4,
}[kind]
for target in targets:
    threading.Thread(target=target, daemon=True).start()
if kind == "exec":
    if not number:
        print("ready", flush=True)
    exec_always(number)
time.sleep(0.3)
print("ready", flush=True)
sys.stdin.read()
