#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs to time a collective by events (probe/inject/timed_calls.h), and how right its times are.

    torchrun --nproc-per-node 2 bench/timed_calls.py --library build/libslowrank_inject.so [--out FILE]

The library is loaded into the ranks after NCCL is at work, as attach --deep does; each rank reads its
own ring. Calls of all_reduce in bursts, timed and not in turn: the difference is the cost. Then a
step of many small kernels and some collectives, likewise. With NCCL_PROFILER_PLUGIN naming the same
library the plug-in tells the same calls' times (by globaltimer): differences of start, stop and length.
Prints one JSON object.
"""
import argparse
import ctypes
import glob
import json
import mmap
import os
import random
import statistics
import struct
import time

HEADER_BYTES, RECORD_BYTES = 4096, 128
HEAD, TAIL, PAUSED, TIMED_UNTIL = 64, 192, 280, 288
COLLECTIVE, PAIR, BOUND, TIMED_CALL, TIMED_STATE = 4, 5, 6, 13, 14
GLOBALTIMER, EVENTS = 1, 3


class Ring:
    """The reading side of probe/ring/ring_layout.h, for the own process."""

    def __init__(self, directory):
        found = glob.glob(os.path.join(directory, f"slowrank-ring.{os.getuid()}.{os.getpid()}.*"))
        with open(found[0], "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 0)
        os.unlink(found[0])
        self.slots = struct.unpack_from("<I", self.map, 20)[0]
        self.records = []

    def drain(self):
        tail, head = (struct.unpack_from("<Q", self.map, at)[0] for at in (TAIL, HEAD))
        while tail < head:
            at = HEADER_BYTES + tail % self.slots * RECORD_BYTES
            sequence, _, kind, length = struct.unpack_from("<QIHH", self.map, at)
            if sequence != tail + 1:
                break
            self.records.append((kind, bytes(self.map[at + 16:at + 16 + length])))
            struct.pack_into("<Q", self.map, at, tail + self.slots)
            tail += 1
        struct.pack_into("<Q", self.map, TAIL, tail)

    def pause(self, paused):
        struct.pack_into("<I", self.map, PAUSED, int(paused))

    def time_calls(self, seconds):
        until = time.monotonic_ns() + int(seconds * 1e9) if seconds else 0
        struct.pack_into("<q", self.map, TIMED_UNTIL, until)

    def wait(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.drain()
            time.sleep(0.01)


def offset(records, domain):
    """Host minus device: the middle of where all pairs say it lies, and half the width."""
    low, high = -1 << 62, 1 << 62
    errors = []
    for kind, payload in records:
        if kind != PAIR:
            continue
        gpu, host, error, of, _, _, _ = struct.unpack_from("<qqqIiII", payload)
        if of == domain:
            errors.append(error)
            low, high = max(low, host - gpu - error), min(high, host - gpu + error)
    if not errors:
        return None
    return {"offset": (low + high) / 2, "half_width_us": (high - low) / 2e3, "pairs": len(errors),
            "best_us": min(errors) / 1e3, "median_us": statistics.median(errors) / 1e3}


def quantiles(values):
    values = sorted(values)
    return {name: round(values[min(len(values) - 1, int(len(values) * share))], 3)
            for name, share in (("least", 0), ("5%", .05), ("median", .5), ("95%", .95), ("most", 1))}


def compare(records):
    """Timed calls against the plug-in's, joined by the host's time of the call; in us."""
    clocks = {domain: offset(records, domain) for domain in (GLOBALTIMER, EVENTS)}
    calls = [struct.unpack_from("<Qqqqqq", p) for kind, p in records if kind == TIMED_CALL]
    told = [struct.unpack_from("<QQQqqqq", p) for kind, p in records if kind == COLLECTIVE]
    result = {"timed": len(calls), "plugin": len(told), "clocks": clocks}
    starts, stops, lengths, own = [], [], [], []
    told.sort(key=lambda call: call[3])
    at = 0
    host = clocks[EVENTS]["offset"] if clocks[EVENTS] else 0
    for _, entered, returned, launched, start, stop in sorted(calls, key=lambda call: call[1]):
        early = max(0, min(launched - host, stop) - start) # as probe/call_times.c
        start += early
        while at < len(told) and told[at][3] < entered:
            at += 1
        if at == len(told) or told[at][3] > returned or not told[at][5]:
            continue
        lengths.append((stop - start - told[at][6] + told[at][5]) / 1e3)
        own.append((told[at][6] - told[at][5]) / 1e3)
        if clocks[GLOBALTIMER] and clocks[EVENTS]:
            moved = clocks[EVENTS]["offset"] - clocks[GLOBALTIMER]["offset"]
            starts.append((start - told[at][5] + moved) / 1e3)
            stops.append((stop - told[at][6] + moved) / 1e3)
    result["joined"] = len(lengths)
    for name, values in (("length_us", own), ("length_difference_us", lengths),
                         ("start_difference_us", starts), ("stop_difference_us", stops)):
        if values:
            result[name] = quantiles(values)
    return result


def student(values):
    half = 2.0 * statistics.stdev(values) / len(values)**0.5 if len(values) > 1 else 0
    middle = statistics.fmean(values)
    return [round(middle - half, 3), round(middle, 3), round(middle + half, 3)]


def in_pairs(ring, pairs, measure):
    """[without, with, difference of each pair], in random order within a pair."""
    chance = random.Random(1)  # the same on all ranks
    rows = []
    for _ in range(pairs):
        row = {}
        for on in chance.sample([True, False], 2):
            ring.pause(not on)
            measure(0.02)
            row[on] = measure(1)
            ring.drain()
        rows.append((row[False], row[True], row[True] - row[False]))
    ring.pause(False)
    return {"without": round(statistics.median(row[0] for row in rows), 3),
            "with": round(statistics.median(row[1] for row in rows), 3),
            "difference": student([row[2] for row in rows]),
            "median_difference": round(statistics.median(row[2] for row in rows), 3)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--out")
    parser.add_argument("--pairs", type=int, default=60)
    arguments = parser.parse_args()
    import torch
    import torch.distributed as dist

    rank = int(os.environ["LOCAL_RANK"])
    directory = os.environ.setdefault("SLOWRANK_RING_DIRECTORY", "/dev/shm")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    small, large = (torch.ones(count, device="cuda") for count in (1024, 1 << 22))
    dist.all_reduce(small)
    torch.cuda.synchronize()
    before = bursts(torch, dist, small, 20)
    library = ctypes.CDLL(os.path.abspath(arguments.library))
    if library.slowrank_inject_start():
        raise RuntimeError("the library has no ring")
    ring = Ring(directory)
    ring.time_calls(600)
    begun = time.monotonic()
    ring.wait(1.5)
    for _ in range(2):  # a pool for the context is made behind the first call
        dist.all_reduce(small)
        ring.wait(0.2)
    result = {"rank": rank, "torch": torch.__version__, "pointers": states(ring)}
    result["burst_us_before"] = before
    ring.wait(1.1)
    first = states(ring)
    result["burst_us"] = in_pairs(ring, arguments.pairs,
                                  lambda share: burst(torch, dist, small, share))
    result["step_us"] = in_pairs(ring, arguments.pairs,
                                 lambda share: step(torch, dist, small, share))
    ring.wait(1.1)
    last = states(ring)
    result["spent_us_a_call"] = round((last["spent_ns"] - first["spent_ns"]) /
                                      (last["timed"] - first["timed"]) / 1e3, 3)
    ring.records = [record for record in ring.records if record[0] in (PAIR, BOUND)]
    for i in range(2000):  # of all lengths, with the device ahead and behind
        dist.all_reduce(large if i % 3 == 0 else small)
        if i % 7 == 0:
            torch.cuda.synchronize()
        if i % 50 == 0:
            ring.wait(0.02)
    result["harmless"] = with_group(torch, dist)
    ring.wait(0.5)
    result["compared"] = compare(ring.records)
    ring.wait(1.1)
    result["states"] = states(ring)
    ring.time_calls(0)
    ring.wait(0.3)
    result["burst_us_after"] = bursts(torch, dist, small, 20)
    result["seconds"] = round(time.monotonic() - begun, 1)
    gathered = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, result)
    if rank == 0:
        text = json.dumps(gathered, indent=1)
        print(text)
        if arguments.out:
            with open(arguments.out, "w", encoding="utf-8") as file:
                file.write(text)
    dist.destroy_process_group()


def states(ring):
    ring.drain()
    found = [struct.unpack_from("<QQQQQI", p) for kind, p in ring.records if kind == TIMED_STATE]
    names = ("timed", "captured", "unplaced", "failed", "spent_ns", "pointers")
    return dict(zip(names, found[-1])) if found else {}


def burst(torch, dist, tensor, share):
    """Microseconds of the host for one call."""
    count = max(4, int(200 * share))
    torch.cuda.synchronize()
    begun = time.perf_counter_ns()
    for _ in range(count):
        dist.all_reduce(tensor, async_op=True)
    length = time.perf_counter_ns() - begun
    torch.cuda.synchronize()
    return length / count / 1e3


def bursts(torch, dist, tensor, count):
    return round(statistics.median(burst(torch, dist, tensor, 1) for _ in range(count)), 3)


def step(torch, dist, tensor, share):
    """Microseconds of one step of 800 small kernels and 20 collectives, the mean of some."""
    count = max(1, int(8 * share))
    other = torch.ones(256, device="cuda")
    torch.cuda.synchronize()
    begun = time.perf_counter_ns()
    for _ in range(count):
        for _ in range(20):
            for _ in range(40):
                other.add_(1)
            dist.all_reduce(tensor, async_op=True)
        torch.cuda.synchronize()
    return (time.perf_counter_ns() - begun) / count / 1e3


def with_group(torch, dist):
    """Coalesced calls and a captured graph, with right results."""
    tensors = [torch.ones(1 << 12, device="cuda") for _ in range(24)]
    ranks = dist.get_world_size()
    for _ in range(5):
        with dist._coalescing_manager(device=tensors[0].device, async_ops=True) as manager:
            for tensor in tensors:
                dist.all_reduce(tensor)
        manager.wait()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(tensors[0])
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    return [tensors[0][0].item() == ranks**8, tensors[1][0].item() == ranks**5]


if __name__ == "__main__":
    main()
