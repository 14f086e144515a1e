#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scores this folder's records as they were, had slowrank come some steps later.

    tests/corpus/later.py --build build             compares with later.json: nothing may be worse
    tests/corpus/later.py --build build --update    and writes what it is now
    tests/corpus/later.py ... --later 3,7           of these numbers of steps alone
    tests/corpus/later.py ... jax tensor-parallel   only these jobs
    tests/corpus/later.py ... --lines               and what replay.py prints of each window and false verdict

Short steps are judged in blocks; where blocks begin hangs on the first step. A rank is not slow by where a
block begins: what replay.py says of a record by luck shows here. How many steps a report counts is no part of it.
Exit status: 0, or 1 when a row is worse than in later.json.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import replay  # noqa: E402
import rules  # noqa: E402

EXPECTED = os.path.join(HERE, "later.json")
LATER = (1, 2, 3, 4, 5, 6, 7, 8)
COLUMNS = ("windows", *rules.GOOD, "false")


def score_later(build, name, record, later_by, lines):
    """Steps left out -> the scores of one record."""
    slowrank, recut = os.path.join(build, "slowrank"), os.path.join(build, "tests", "recut")
    with open(os.path.join(os.path.dirname(record), name + ".json"), encoding="utf-8") as file:
        truth = json.load(file)
    scores = {}
    with tempfile.TemporaryDirectory() as directory:
        plain, later = replay.unpacked(record, directory), os.path.join(directory, "later.slr")
        for steps in later_by:
            subprocess.run([recut, plain, later, "later", str(steps)], check=True, timeout=300)
            report, why = replay.report_of(slowrank, later)
            if report is None:
                raise RuntimeError(f"{name}, {steps} steps later: no report: {why}")
            scores[steps] = rules.score(truth, report)
            for line in rules.describe(name, scores[steps]) if lines else ():
                print(f"{steps} later: {line}")
    return scores


def differences(old, new):
    """(lines on what is worse, lines on what is better), of two rows' sums."""
    worse, better = [], []
    for steps, sums in new.items():
        for column, number in sums.items():
            was = old[steps][column]
            if number != was:
                is_worse = (number > was) == (column == "false")
                (worse if is_worse else better).append(f"{steps} later: {column} {number}, {was} before")
    return worse, better


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(replay.ROOT, "build"))
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--later", default=",".join(map(str, LATER)), metavar="STEPS")
    parser.add_argument("--lines", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    found = replay.jobs_in(HERE)
    missing = [name for name in arguments.names if name not in found]
    if missing:
        parser.error(f"no such job: {', '.join(missing)}")
    chosen = {name: found[name] for name in arguments.names or found}
    later_by = [int(steps) for steps in arguments.later.split(",")]
    if set(later_by) - set(LATER) or (arguments.update and len(later_by) < len(LATER)):
        parser.error(f"--later takes some of {', '.join(map(str, LATER))}; --update all")
    scores = replay.for_all(
        lambda name, record: score_later(arguments.build, name, record, later_by, arguments.lines), chosen)
    sums = {}
    for steps in later_by:
        row = rules.sums(job[steps] for job in scores.values())
        sums[str(steps)] = {column: row[column] for column in COLUMNS}
    for steps, row in sums.items():
        print(f"{steps} later: " + ", ".join(f"{column} {number}" for column, number in row.items()))
    if arguments.names:
        return 0
    return replay.settle(EXPECTED, sums, arguments.update, differences)


if __name__ == "__main__":
    sys.exit(main())
