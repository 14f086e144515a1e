#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Changes published traces in ways that must not change what is said of them, or only as the change says.

usage: trace_variants.py SLOWRANK FIGURES [FOLDER]    FIGURES: the program of main.c; FOLDER (or SLOWRANK_TRACES) has AR.csv.gz,
ST.csv.gz, expected.json
Exit status 77 where there are no traces.
"""
import csv
import gzip
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile


def read(path):
    with gzip.open(path, "rt", newline="") as file:
        return list(csv.DictReader(file))


def write(path, rows, columns):
    opened = gzip.open(path, "wt", newline="") if path.suffix == ".gz" else open(path, "w", newline="")
    with opened as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def report(slowrank, program, path):
    record = path.with_name("record.slr")
    subprocess.run([slowrank, "import", "--from", "whatif", str(path), "-o", str(record)],
                   check=True, stderr=subprocess.DEVNULL)
    said = subprocess.run([slowrank, "report", str(record), "--format", "json"], check=True, capture_output=True, text=True)
    figures = subprocess.run([program, str(record)], capture_output=True, text=True)
    return json.loads(said.stdout), json.loads(figures.stdout or "null")


# Each takes the rows (their own copy) and returns them, the columns, and how ranks, replicas and steps are called now.

def as_it_is(rows, _):
    return rows, {}


def shuffled(rows, rng):
    rng.shuffle(rows)
    return rows, {}


def columns_moved(rows, rng):
    columns = list(rows[0]) + ["comment"]
    rng.shuffle(columns)
    for row in rows:
        row["comment"] = "x"
    return rows, {"columns": columns}


def without_model_chunk_number(rows, _):
    """What follows from the chunk within the stage."""
    for row in rows:
        row["gmc"] = "-1"
    return rows, {}


def without_chunks(rows, _):
    """One chunk a stage: nothing is lost."""
    return rows, {"columns": [column for column in rows[0] if column not in ("mc", "gmc", "mb_id")]}


def plain_text(rows, _):
    return rows, {"suffix": ".csv"}


def later_steps(rows, _):
    """Steps do not begin at 0, and have gaps."""
    for row in rows:
        row["step"] = str(1000000 + 17 * int(row["step"]))
    return rows, {}


def late_clock(rows, _):
    """A step's times do not begin at 0."""
    for row in rows:
        row["start_ts"] = repr(float(row["start_ts"]) + 25.5)
    return rows, {}


def scaled(rows, _):
    for row in rows:
        row["start_ts"] = repr(float(row["start_ts"]) * 4)
        row["duration"] = repr(float(row["duration"]) * 4)
    return rows, {"scale": 4}


def clocks_apart(rows, rng):
    """Each rank's clock is off by up to a third of a millisecond."""
    offsets = {rank: rng.uniform(-0.3e-3, 0.3e-3) for rank in sorted({row["rank"] for row in rows})}
    for row in rows:
        row["start_ts"] = repr(float(row["start_ts"]) + offsets[row["rank"]])
    return rows, {"tolerance": 3e-3}


def rough_clock(rows, rng):
    """Each time is read with an error of its own."""
    for row in rows:
        row["start_ts"] = repr(float(row["start_ts"]) + rng.gauss(0, 0.05e-3))
    return rows, {"tolerance": 3e-3}


def replicas_moved(rows, _):
    """Replica r is called n - 1 - r; its ranks keep their numbers."""
    last = max(int(row["dp_rank"]) for row in rows)
    names = {r: last - r for r in range(last + 1)}
    for row in rows:
        row["dp_rank"] = str(names[int(row["dp_rank"])])
    return rows, {"replicas": names}


def ranks_moved(rows, rng):
    """Other numbers for the same workers, in no order."""
    ranks = sorted({int(row["rank"]) for row in rows})
    names = dict(zip(ranks, rng.sample(range(2 * len(ranks) + 3), len(ranks))))
    for row in rows:
        row["rank"] = str(names[int(row["rank"])])
    return rows, {"ranks": names}


def first_half(rows, _):
    steps = sorted({int(row["step"]) for row in rows})
    kept = set(steps[:len(steps) // 2])
    return [row for row in rows if int(row["step"]) in kept], {"fewer": True}


def last_half(rows, _):
    steps = sorted({int(row["step"]) for row in rows})
    kept = set(steps[len(steps) // 2:])
    return [row for row in rows if int(row["step"]) in kept], {"fewer": True}


def step_torn(rows, rng):
    """Operations of one step are missing: it is left out, and the first one is not the pattern."""
    first = min(int(row["step"]) for row in rows)
    return [row for row in rows if int(row["step"]) != first or rng.random() < 0.7], {"fewer": True}


VARIANTS = [as_it_is, shuffled, columns_moved, without_model_chunk_number, without_chunks, plain_text, later_steps, late_clock, clocks_apart, rough_clock,
            scaled,
            replicas_moved, ranks_moved, first_half, last_half, step_torn]


def near(problems, where, value, expected, tolerance):
    if value is None or abs(value / expected - 1) > tolerance:
        problems.append(f"{where}: {value}, not {expected}")


def check(name, said, figures, expected, changes, problems):
    where = name
    tolerance = 0.05 if changes.get("fewer") else changes.get("tolerance", 1e-3)
    if not figures:
        problems.append(f"{where}: no figures")
        return
    near(problems, where + " S", figures["S"], expected["slowdown_S"], tolerance)
    near(problems, where + " step", figures["step_s_mean_ideal"] / changes.get("scale", 1),
         expected["step_s_mean_ideal"], tolerance)
    for replica, slowdown in expected["S_by_dp_rank"].items():
        now = changes.get("replicas", {}).get(int(replica), int(replica))
        near(problems, f"{where} replica {replica}", figures["by_dp_rank"][str(now)], slowdown, tolerance)
    for stage, slowdown in expected["S_by_stage"].items():
        near(problems, f"{where} stage {stage}", figures["by_stage"][stage], slowdown, tolerance)
    names = changes.get("ranks", {})
    culprit = {"AR": ("compute-slow", [0]), "ST": ("workload-imbalance", [6, 7])}[name.split()[0]]
    wanted = (culprit[0], sorted(names.get(rank, rank) for rank in culprit[1]))
    verdicts = [(verdict["class"], verdict["ranks"]) for verdict in said["verdicts"]]
    if verdicts != [wanted]:
        problems.append(f"{where}: {verdicts}, not {wanted}")


def main():
    slowrank, program = sys.argv[1:3]
    folder = sys.argv[3] if len(sys.argv) > 3 else os.environ.get("SLOWRANK_TRACES")
    if not folder:
        print("SLOWRANK_TRACES is not set: no traces to change")
        sys.exit(77)
    folder = pathlib.Path(folder)
    figures = json.loads((folder / "expected.json").read_text())
    problems = []
    count = 0
    with tempfile.TemporaryDirectory() as scratch:
        for trace in ("AR", "ST"):
            rows = read(folder / f"{trace}.csv.gz")
            for variant in VARIANTS:
                changed, changes = variant([dict(row) for row in rows], random.Random(count))
                path = pathlib.Path(scratch) / (trace + changes.get("suffix", ".csv.gz"))
                write(path, changed, changes.get("columns", list(rows[0])))
                check(f"{trace} {variant.__name__}", *report(slowrank, program, path), figures[trace], changes, problems)
                count += 1
    print("\n".join(problems) or f"{count} variants are told as they are")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
