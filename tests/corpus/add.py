#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds jobs to this folder: the record, packed, and the truth beside it.

    tests/corpus/add.py NAME RECORD TRUTH [--program TEXT] [--attached]

TRUTH is the log of tests/workload or tests/gpu, or a JSON object as rules.py describes it. Records that
are there are replaced. Afterwards: tests/corpus/replay.py --update
"""
import argparse
import json
import lzma
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import rules  # noqa: E402
import truth  # noqa: E402

FOLDER_BYTES_MAX = 52 << 20


def read_truth(path, program=""):
    with open(path, encoding="utf-8") as file:
        try:
            made = json.load(file)
        except ValueError:  # one object a line
            made = None
    if made is None or "event" in made:
        return truth.read(path, program)
    known = ("program", "step_begins_s", "windows", "disturbed", "slow_alike", "other_passes", "ended_s",
             "lost_from_step", "cut_in_record", "no_steps", "says", "note")
    made.setdefault("step_begins_s", made.get("steps"))
    return {**{key: made[key] for key in known if key in made},
            **({"program": program} if program else {})}


def report_of(slowrank, record):
    done = subprocess.run([slowrank, "report", record, "--format", "json"], capture_output=True,
                          text=True, check=False)
    return json.loads(done.stdout)


def begin_with_the_record(made, report):
    """Leaves out the steps of a job before slowrank was attached to it."""
    begins, start_s = made["step_begins_s"], report["job"]["start_unix_ns"] / 1e9
    unseen = sum(at < start_s for at in begins)
    made["step_begins_s"] = begins[unseen:]
    for span in [*made["windows"], *made.get("disturbed", []), *made.get("slow_alike", [])]:
        for key in ("first", "last", "since", "measured_from"):
            if key in span:
                span[key] = max(0, span[key] - unseen)


def unpack(build, record):
    """A record's bytes, its frames unpacked: packed as a whole they take two thirds as much."""
    with tempfile.TemporaryDirectory() as directory:
        plain = os.path.join(directory, "plain.slr")
        subprocess.run([os.path.join(build, "tests", "unpack"), record, plain], check=True)
        with open(plain, "rb") as file:
            return file.read()


def add(name, unpacked, made):
    """Writes both files of a job. Raises when the folder becomes too large."""
    rules.score(made, None)  # it can be scored
    packed = lzma.compress(unpacked, preset=9 | lzma.PRESET_EXTREME)
    stem = os.path.join(HERE, name)
    with open(stem + ".slr.xz", "wb") as file:
        file.write(packed)
    with open(stem + ".json", "w", encoding="utf-8") as file:
        json.dump(made, file)
        file.write("\n")
    size = sum(os.path.getsize(os.path.join(HERE, name)) for name in os.listdir(HERE)
               if os.path.isfile(os.path.join(HERE, name)))
    print(f"{name}: {len(packed) >> 10} KiB; all: {size >> 10} KiB")
    if size > FOLDER_BYTES_MAX:
        raise RuntimeError(f"{size >> 20} MiB: {FOLDER_BYTES_MAX >> 20} are the limit")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("record")
    parser.add_argument("truth")
    parser.add_argument("--program", default="")
    parser.add_argument("--attached", action="store_true",
                        help="slowrank came later: steps before the record are left out")
    parser.add_argument("--slowrank", default=os.path.join(ROOT, "build", "slowrank"))
    arguments = parser.parse_args()
    made = read_truth(arguments.truth, arguments.program)
    if arguments.attached:
        begin_with_the_record(made, report_of(arguments.slowrank, arguments.record))
    add(arguments.name, unpack(os.path.dirname(arguments.slowrank), arguments.record), made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
