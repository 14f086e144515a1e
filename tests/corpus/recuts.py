#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cuts the steps of this folder's records elsewhere, and compares what is said of them.

    tests/corpus/recuts.py --build build             compares with recuts.json: nothing may be worse
    tests/corpus/recuts.py --build build --update    and writes what it is now
    tests/corpus/recuts.py ... --folder F            of another folder: the table alone; a record without a
                                                     truth beside it (bench_simulator's) has all its verdicts count
    tests/corpus/recuts.py ... --lines jax           of these jobs: the table, and each verdict that differs

Who is slow, why, and from when to when must not depend on where steps are cut. Of each window of the truth
that the report names, the table counts in how many the report of the record with other steps (recut.c) says
the same: ranks, class, cause; begin and end of the verdict within 1 s; the alert no more than 1 s later, or one
step of the time where that is longer, for what a step holds is known when it has ended. "same" is all of these; merge 1 changes nothing, and shows so. "came" and "went" are verdicts of any kind that only one of the two reports has.
Exit status: 0, or 1 when anything is worse than recuts.json; 2 for what cannot be read.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import changes  # noqa: E402
import replay  # noqa: E402
import rules  # noqa: E402

EXPECTED = os.path.join(HERE, "recuts.json")
CUTS = ("merge 1", "merge 2", "merge 4", "merge 8", "merge 32", "split", "shift 1", "shift 3")
NEAR_S = 1.0
SAID = ("ranks", "class", "cause", "begin", "end", "alert")
COLUMNS = ("named", "same", *SAID, "went", "came")
FEWER_IS_BETTER = ("went", "came")


def is_said(key, old, new, step_s):
    """Whether the verdict of the record with other steps, which last so long, says the same of a window."""
    if key not in ("begin", "end", "alert"):
        return old[key] == new[key]
    name = {"begin": "onset_unix_ns"}.get(key, key + "_unix_ns")
    later_s = (new[name] - old[name]) / 1e9
    if key == "alert":
        return later_s <= max(NEAR_S, step_s * (old["slowdown"] or 1))
    return -NEAR_S <= later_s <= NEAR_S


def named_in(record, report):
    """The verdicts, by id, that name a window of the truth beside the record; all where there is no truth."""
    try:
        with open(record[:record.rindex(".slr")] + ".json", encoding="utf-8") as file:
            truth = json.load(file)
    except FileNotFoundError:
        return {verdict["id"] for verdict in report["verdicts"]}
    return {window["verdict"]["id"] for window in rules.score(truth, report)["windows"]
            if window["counted"] and window["named"]}


def compare(named, old, new):
    """COLUMNS -> count, of one record and one cut."""
    count = collections.Counter(named=len(named))
    step_s = (new["summary"]["step_ms_median"] or 0) / 1e3
    for was, now in changes.pairs(old["verdicts"], new["verdicts"]):
        if was is None or now is None:
            count["came" if now else "went"] += 1
        elif was["id"] in named:
            said = [key for key in SAID if is_said(key, was, now, step_s)]
            count.update(said)
            count["same"] += said == list(SAID)
    return count


def recut_job(build, record, cuts, lines):
    """cut -> counts of one record; with lines, prints what differs."""
    slowrank, recut = os.path.join(build, "slowrank"), os.path.join(build, "tests", "recut")
    name = os.path.basename(record).split(".slr")[0]
    counts = {}
    with tempfile.TemporaryDirectory() as directory:
        plain, other = replay.unpacked(record, directory), os.path.join(directory, "recut.slr")
        old, why = replay.report_of(slowrank, plain)
        if old is None:
            raise RuntimeError(f"{name}: no report: {why}")
        named = named_in(record, old)
        for cut in cuts:
            subprocess.run([recut, plain, other, *cut.split()], check=True, timeout=300)
            new, why = replay.report_of(slowrank, other)
            os.unlink(other)
            if new is None:
                raise RuntimeError(f"{name}, {cut}: no report: {why}")
            counts[cut] = compare(named, old, new)
            for kind, line in changes.lines(old, new) if lines else ():
                print(f"{name}, {cut}: {kind}: {line}")
    return counts


def recut_all(build, chosen, cuts, lines):
    """cut -> counts, of all jobs together."""
    jobs = replay.for_all(lambda _, record: recut_job(build, record, cuts, lines), chosen)
    return {cut: {column: sum(job[cut][column] for job in jobs.values()) for column in COLUMNS}
            for cut in cuts}


def lack(count, column):
    """How far it is from what should be; how many are named is for replay.py to say."""
    return count[column] if column in FEWER_IS_BETTER else count["named"] - count[column]


def worse_and_better(old, new):
    """(lines on what is worse, lines on what is better)."""
    worse, better = [], []
    for cut in new:
        for column in COLUMNS:
            was, now = lack(old[cut], column), lack(new[cut], column)
            if was != now:
                (worse if now > was else better).append(
                    f"{cut}: {column} {new[cut][column]}, {old[cut][column]} before")
    return worse, better


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--folder", default=HERE)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--lines", action="store_true")
    parser.add_argument("--cuts", default=",".join(CUTS), help="these alone, with commas between them")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    found = replay.jobs_in(arguments.folder)
    missing = [name for name in arguments.names if name not in found]
    if missing or not found:
        parser.error(f"no such job: {', '.join(missing) or arguments.folder}")
    cuts = arguments.cuts.split(",")
    if set(cuts) - set(CUTS) or (arguments.update and len(cuts) < len(CUTS)):
        parser.error(f"--cuts takes some of {', '.join(CUTS)}; --update all")
    chosen = {name: found[name] for name in arguments.names or found}
    counts = recut_all(arguments.build, chosen, cuts, arguments.lines)
    print(f"{'':9s}" + "".join(f"{column:>7s}" for column in COLUMNS))
    for cut, count in counts.items():
        print(f"{cut:9s}" + "".join(f"{count[column]:7d}" for column in COLUMNS))
    if arguments.names or os.path.abspath(arguments.folder) != HERE:
        return 0
    return replay.settle(EXPECTED, counts, arguments.update, worse_and_better)


if __name__ == "__main__":
    sys.exit(main())
