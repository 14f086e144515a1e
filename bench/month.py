#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A long job's record within its limit: simulated by bench_month, as fast as that goes. Checks that the record and
the file that it is thinned to never take more than the limit, that memory stays as it is, and that the report of the
thinned record is the one that the job was told live: the same incidents, totals and costs. Prints one JSON object.
usage: bench/month.py [--build DIR] [--ranks N] [--days D] [--step-ms MS] [--limit-mib N] [--work DIR]"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

MEMORY_GROWTH_MAX = 1.1 # from a half of the job on
ROUNDING = 2e-4 # reports have four decimals


def differences(live, read, path=""):
    """Where two values differ by more than rounding."""
    if isinstance(live, dict) and isinstance(read, dict):
        return [line for key in sorted(set(live) | set(read))
                for line in differences(live.get(key), read.get(key), f"{path}.{key}")]
    if isinstance(live, list) and isinstance(read, list) and len(live) == len(read):
        return [line for i, pair in enumerate(zip(live, read)) for line in differences(*pair, f"{path}[{i}]")]
    number = (int, float)
    if isinstance(live, number) and isinstance(read, number):
        return [] if abs(live - read) <= ROUNDING * max(1, abs(live)) else [f"{path}: {live}, {read}"]
    return [] if live == read else [f"{path}: {live}, {read}"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--days", type=float, default=30)
    parser.add_argument("--step-ms", type=float, default=600000)
    parser.add_argument("--limit-mib", type=int, default=64)
    parser.add_argument("--work", default=tempfile.gettempdir())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        record, report = os.path.join(folder, "long.slr"), os.path.join(folder, "live.json")
        done = subprocess.run([os.path.join(options.build, "bench_month"), record, report, str(options.ranks),
                               str(options.days), str(options.step_ms), str(options.limit_mib)],
                              check=True, capture_output=True, text=True)
        read = subprocess.run([os.path.join(options.build, "slowrank"), "report", record, "--format", "json"],
                              check=True, capture_output=True, text=True)
        with open(report, encoding="utf-8") as file:
            live = json.load(file)
    read, result = json.loads(read.stdout), json.loads(done.stdout)
    sums_alone = read["coverage"].pop("sums_alone", [])
    found = differences(live, read)
    result.update(incidents=len(live["verdicts"]), stretches_of_sums=len(sums_alone),
                  frames_of_sums=sum(stretch["frames"] for stretch in sums_alone), differences=found[:20])
    print(json.dumps(result))
    problems = ["the report differs"] * bool(found)
    problems += ["no incident was told"] * (not live["verdicts"])
    problems += ["nothing was thinned"] * (not sums_alone)
    problems += ["the limit was passed"] * (result["bytes_most"] > result["limit"])
    problems += ["memory grows"] * (result["resident_kib_end"] > MEMORY_GROWTH_MAX * result["resident_kib_half"] + 1024)
    if problems:
        sys.exit("month: " + ", ".join(problems))


if __name__ == "__main__":
    main()
