#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces of made-up jobs: other depths, degrees, schedules and faults than the published ones have.

usage: trace_shapes.py SLOWRANK FIGURES [--half | SHAPE...]    FIGURES: the program of main.c; --half: every other shape
Their figures are held against trace_figures.py, their verdicts against what is wrong with the job.
"""
import collections
import csv
import gzip
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import trace_figures

COLUMNS = ["dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "seq_id", "mc", "gmc", "mb_id"]
DEFAULTS = dict(replicas=4, stages=4, microbatches=8, chunks=1, steps=20, tensor=1, slow={}, long={}, uneven=0, noise=0.01,
                overlapped=False, record_all=True, omit=(), early=False, forward=0.03, wanted=None, change=None, tolerance=2e-3)


class Work:
    """One operation on its way into a trace."""

    def __init__(self, worker, kind, length, after, chunk=-1, model_chunk=-1, microbatch=-1):
        self.worker, self.kind, self.length, self.after = worker, kind, length, [o for o in after if o]
        self.chunk, self.model_chunk, self.microbatch = chunk, model_chunk, microbatch
        self.group, self.start, self.end = [self], None, None


def program(job, stage):
    """(forward, chunk, microbatch) of each pass: 1F1B, or interleaved with several chunks (Narayanan et al., SC 2021)."""
    p, v, m = job["stages"], job["chunks"], job["microbatches"]
    total = m * v

    def one(forward, number):
        chunk = number % (p * v) // p
        return forward, chunk if forward else v - 1 - chunk, number // (p * v) * p + number % p

    if v == 1:
        warm_up = min(p - stage - 1, total)
    else:
        warm_up = total if m == p else min(2 * (p - stage - 1) + (v - 1) * p, total)
    passes = [one(True, i) for i in range(warm_up)]
    for i in range(total - warm_up):
        passes += [one(True, warm_up + i), one(False, i)]
    return passes + [one(False, i) for i in range(total - warm_up, total)]


def worker_of(job, rng, replica, stage, lengths):
    """The operations of a worker in one step; messages by (direction, way) as well."""
    worker, p, v = (replica, stage), job["stages"], job["chunks"]
    factor = job["slow"].get(worker, 1) * job["long"].get(stage, 1)
    made, messages = [], collections.defaultdict(list)

    def add(kind, length, after, **chunk):
        if kind in job["omit"]:
            return None
        made.append(Work(worker, kind, length * rng.gauss(1, job["noise"]), after, **chunk))
        return made[-1]

    last = None
    gathers = {}
    for chunk in range(v):
        last = gathers[chunk] = add("params-all-gather", 0.004, [last], chunk=chunk)
    before, ends, previous = None, {}, {}
    for number, (forward, chunk, microbatch) in enumerate(program(job, stage)):
        direction = "forward" if forward else "backward"
        model_chunk = chunk * p + stage
        source, target = (model_chunk - 1, model_chunk + 1) if forward else (model_chunk + 1, model_chunk - 1)
        receive = send = None
        first = not any(o.kind == direction + "-compute" for o in made)
        if 0 <= source < p * v or (job["record_all"] and v > 1 and not first):
            receive = add(direction + "-recv", 0.0008, [previous.get(forward) if job["early"] else before, *messages[direction, "recv"][-1:]])
            messages[direction, "recv"].append(receive)
            receive.effective = 0 <= source < p * v
        length = job["forward"] * (1 if forward else 2) * factor / v * lengths[replica, microbatch]
        compute = add(direction + "-compute", length, [before, receive, gathers[chunk] if forward else None],
                      chunk=chunk, model_chunk=model_chunk, microbatch=microbatch)
        if 0 <= target < p * v or (job["record_all"] and v > 1):
            send = add(direction + "-send", 0.0008, [compute, *messages[direction, "send"][-1:]])
            messages[direction, "send"].append(send)
            send.effective = 0 <= target < p * v
        before = previous[forward] = ends[forward, chunk] = compute
    scatters = last_scatter = None
    if job["overlapped"]:
        for chunk in reversed(range(v)):
            last_scatter = add("grads-reduce-scatter", 0.005, [ends[False, chunk], last_scatter or last], chunk=chunk)
    before = add("gc", 1e-6, [before]) or before
    before = add("layernorm-grads-all-reduce", 0.0004, [before, last_scatter]) or before
    if stage in (0, p - 1) and p > 1:
        before = add("embedding-grads-all-reduce", 0.002, [before]) or before
    if job["overlapped"]:
        before = add("separate-grads-all-reduce", 0.001, [before]) or before
    else:
        for chunk in range(v):
            before = add("grads-reduce-scatter", 0.005, [before], chunk=chunk) or before
    before = add("optimizer-clip-main-grad", 0.001, [before]) or before
    add("optimizer", 0.004, [before])
    return made, messages


def step_of(job, rng):
    lengths = {(r, m): max(rng.gauss(1, job["uneven"]), 0.3) for r in range(job["replicas"]) for m in range(job["microbatches"])}
    workers, messages = {}, {}
    for replica in range(job["replicas"]):
        for stage in range(job["stages"]):
            workers[replica, stage], messages[replica, stage] = worker_of(job, rng, replica, stage, lengths)
    for (replica, stage), own in messages.items():
        for direction, way in (("forward", 1), ("backward", -1)):
            sends = [o for o in own[direction, "send"] if o.effective]
            receives = [o for o in messages[replica, (stage + way) % job["stages"]][direction, "recv"] if o.effective]
            assert len(sends) == len(receives)
            for send, receive in zip(sends, receives):
                send.group = receive.group = [send, receive]
    groups = collections.defaultdict(list)
    for (replica, stage), made in workers.items():
        counts = collections.Counter()
        for o in made:
            o.sequence = counts[o.kind]
            counts[o.kind] += 1
            if o.kind in trace_figures.BY_STAGE:
                groups[o.kind, stage, o.sequence].append(o)
            elif o.kind == "embedding-grads-all-reduce":
                groups[o.kind, replica, o.sequence].append(o)
            elif o.kind == "optimizer-clip-main-grad":
                groups[o.kind, o.sequence].append(o)
    for members in groups.values():
        for o in members:
            o.group = members
    return [o for made in workers.values() for o in made]


def run(operations, rng):
    """Times of all: each starts a little after what it waits for; those of a group end together."""
    waiting = list(operations)
    while waiting:
        left = []
        for o in waiting:
            if o.start is None and all(b.end is not None for b in o.after):
                o.start = max([b.end for b in o.after], default=0) + abs(rng.gauss(0, 30e-6))
            if o.end is None and all(m.start is not None for m in o.group):
                o.end = max(m.start for m in o.group) + o.length
            if o.end is None:
                left.append(o)
        assert len(left) < len(waiting), "a circle"
        waiting = left


def trace(job):
    rng = random.Random(repr(sorted((k, v) for k, v in job.items() if k != "change")))
    rows = []
    for step in range(job["steps"]):
        operations = step_of(job, rng)
        run(operations, rng)
        for o in operations:
            replica, stage = o.worker
            rows.append(dict(zip(COLUMNS, [
                replica, stage, (stage * job["replicas"] + replica) * job["tensor"], 10 + 3 * step, o.kind, repr(o.start), repr(o.end - o.start),
                o.sequence, o.chunk, o.model_chunk, o.microbatch])))
    return [{k: str(v) for k, v in row.items()} for row in rows]


def shuffled(rows, rng):
    rng.shuffle(rows)
    return rows


def other_columns(rows, rng):
    """An index before all else, columns that nobody knows, empty fields where there is no number, numbers with a point."""
    names = list(COLUMNS)
    rng.shuffle(names)
    return [{"": str(i), **{n: ("" if row[n] == "-1" else row[n] + ".0" if n in ("seq_id", "step") else row[n]) for n in names},
             "host": "node, \"7\"", "bytes": ""} for i, row in enumerate(rows)]


def rows_missing(rows, rng):
    """A few operations are missing: their steps are not whole."""
    gone = {rng.randrange(len(rows)) for _ in range(4)}
    return [row for i, row in enumerate(rows) if i not in gone]


def replica_missing(rows, _):
    """One replica was not recorded in the last steps."""
    steps = sorted({int(row["step"]) for row in rows})
    return [row for row in rows if row["dp_rank"] != "1" or int(row["step"]) < steps[-4]]


SHAPES = {
    "healthy": dict(),
    "worker": dict(slow={(2, 1): 1.8}, wanted=[("compute-slow", [(2, 1)])]),
    "last worker": dict(replicas=2, stages=2, slow={(1, 1): 1.5}, wanted=[("compute-slow", [(1, 1)])]),
    "two workers": dict(replicas=8, slow={(1, 0): 1.6, (5, 2): 1.6}, wanted=[("compute-slow", [(1, 0), (5, 2)])]),
    "two workers of a stage": dict(replicas=8, slow={(1, 3): 1.6, (6, 3): 1.6}, wanted=[("compute-slow", [(1, 3), (6, 3)])]),
    "long last stage": dict(long={3: 1.4}, wanted=[("workload-imbalance", [(r, 3) for r in range(4)])]),
    "long first stage": dict(long={0: 1.5}, wanted=[("workload-imbalance", [(r, 0) for r in range(4)])]),
    "long stage and a worker in it": dict(replicas=6, long={3: 1.5}, slow={(2, 3): 1.4},
                                    wanted=[("compute-slow", [(2, 3)]), ("workload-imbalance", [(r, 3) for r in range(6)])]),
    "long stage, hidden behind a worker": dict(replicas=6, long={3: 1.3}, slow={(2, 1): 2.0}, wanted=[("compute-slow", [(2, 1)])]),
    "receives posted early": dict(early=True, slow={(2, 3): 1.2}, wanted=[("compute-slow", [(2, 3)])]),
    "receives posted early, long stage": dict(early=True, long={3: 1.4}, wanted=[("workload-imbalance", [(r, 3) for r in range(4)])]),
    "deep": dict(replicas=2, stages=8, microbatches=16, slow={(0, 5): 1.5}, wanted=[("compute-slow", [(0, 5)])]),
    "wide": dict(replicas=16, stages=2, microbatches=4, slow={(13, 0): 1.4}, wanted=[("compute-slow", [(13, 0)])]),
    "no pipeline": dict(replicas=8, stages=1, microbatches=4, slow={(3, 0): 1.5}, wanted=[("compute-slow", [(3, 0)])]),
    "few microbatches": dict(stages=4, microbatches=2, slow={(1, 2): 1.7}, wanted=[("compute-slow", [(1, 2)])]),
    "tensor parallel": dict(tensor=8, slow={(3, 0): 1.5}, wanted=[("compute-slow", [(3, 0)])]),
    "interleaved": dict(chunks=2, slow={(0, 2): 1.6}, wanted=[("compute-slow", [(0, 2)])]),
    "interleaved, three chunks": dict(chunks=3, stages=3, microbatches=9, slow={(3, 1): 1.6}, wanted=[("compute-slow", [(3, 1)])]),
    "interleaved, long stage": dict(chunks=2, long={3: 1.5}, wanted=[("workload-imbalance", [(r, 3) for r in range(4)])]),
    "interleaved, messages with an effect only": dict(chunks=2, record_all=False, slow={(1, 1): 1.6}, wanted=[("compute-slow", [(1, 1)])]),
    "overlapped": dict(overlapped=True, slow={(2, 3): 1.6}, wanted=[("compute-slow", [(2, 3)])]),
    "overlapped, interleaved": dict(overlapped=True, chunks=2, slow={(2, 0): 1.6}, wanted=[("compute-slow", [(2, 0)])]),
    "uneven sequences": dict(uneven=0.25, steps=32, wanted=[("workload-imbalance", [])]),
    "without gc and embedding": dict(omit=("gc", "embedding-grads-all-reduce"), slow={(2, 1): 1.8}, wanted=[("compute-slow", [(2, 1)])]),
    "without gathers and clip": dict(omit=("params-all-gather", "optimizer-clip-main-grad"), slow={(2, 1): 1.8}, wanted=[("compute-slow", [(2, 1)])]),
    "short steps": dict(forward=0.001, slow={(2, 1): 1.8}, steps=80, wanted=[("compute-slow", [(2, 1)])]),
    "shuffled": dict(slow={(2, 1): 1.8}, change=shuffled, wanted=[("compute-slow", [(2, 1)])]),
    "other columns": dict(chunks=2, slow={(2, 1): 1.8}, change=other_columns, wanted=[("compute-slow", [(2, 1)])]),
    "rows missing": dict(slow={(2, 1): 1.8}, change=rows_missing, wanted=[("compute-slow", [(2, 1)])], tolerance=1e-2),
    "replica missing": dict(slow={(2, 0): 1.8}, change=replica_missing, wanted=[("compute-slow", [(2, 0)])], tolerance=1e-2),
}


def report(slowrank, program, path):
    record = path.with_name("record.slr")
    made = subprocess.run([slowrank, "import", "--from", "whatif", str(path), "-o", str(record)], capture_output=True, text=True)
    if made.returncode:
        return {"verdicts": made.stderr}, None
    said = subprocess.run([slowrank, "report", str(record), "--format", "json"], check=True, capture_output=True, text=True)
    figures = subprocess.run([program, str(record)], capture_output=True, text=True)
    return json.loads(said.stdout), json.loads(figures.stdout or "null")


def check(slowrank, program, path, name, shape):
    job = {**DEFAULTS, **shape}
    rows = trace(job)
    truth = trace_figures.figures(rows)
    if job["change"]:
        rows = job["change"](rows, random.Random(name))
    with gzip.open(path, "wt", compresslevel=1, newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    said, figures = report(slowrank, program, path)
    if not figures:
        return [f"{name}: no figures, {said['verdicts']}"]
    problems = []

    def near(where, value, expected):
        if abs(value / expected - 1) > job["tolerance"]:
            problems.append(f"{name}: {where} {value}, not {expected}")

    near("S", figures["S"], truth["S"])
    near("ideal step", figures["step_s_mean_ideal"], truth["step_s_mean_ideal"])
    for kind in ("by_dp_rank", "by_stage"):
        for number, slowdown in truth[kind].items():
            near(f"{kind} {number}", figures[kind][number], slowdown)
    wanted = sorted((verdict_class, sorted((s * job["replicas"] + r) * job["tensor"] for r, s in workers))
                    for verdict_class, workers in job["wanted"] or [])
    verdicts = sorted((verdict["class"], verdict["ranks"]) for verdict in said["verdicts"])
    if verdicts != wanted:
        problems.append(f"{name}: {verdicts}, not {wanted}")
    return problems


def main():
    names = list(SHAPES)[::2] if sys.argv[3:] == ["--half"] else sys.argv[3:] or list(SHAPES)
    problems = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            problems += check(sys.argv[1], sys.argv[2], pathlib.Path(scratch) / "trace.csv.gz", name, SHAPES[name])
    print("\n".join(problems) or f"{len(names)} jobs are told as they are")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
