#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The short form of bench/detection: one job per kind of fault, scored against its truth log."""
import os
import resource
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "bench")]
import detection  # noqa: E402
import harness  # noqa: E402
import jobs  # noqa: E402
from harness import check  # noqa: E402

SEED = 1
OTHERS_LEAST = 0.05  # so much of the machine's CPUs, taken by other programs, holds ranks up
OTHERS_MOST = 0.25   # and from so much on a fault may be hidden by what they do


def cpu_seconds():
    """Of all programs (without steal and what is idle), and of those that ended below this one."""
    with open("/proc/stat", encoding="ascii") as file:
        times = [int(field) for field in file.readline().split()[1:]]
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return ((sum(times[:3]) + sum(times[5:7])) / os.sysconf("SC_CLK_TCK"),
            sum(usage.ru_utime + usage.ru_stime for usage in own))


def share_of_others(before, seconds):
    """Of the CPUs, since cpu_seconds() gave before."""
    after = cpu_seconds()
    others = (after[0] - before[0]) - (after[1] - before[1])
    return others / (seconds * os.cpu_count())



def detect(kind):
    def case(paths):
        if kind == "throttle" and not jobs.can_throttle():
            harness.skip("no cgroup with the cpu controller")
        if kind == "reclaim" and not jobs.can_limit_memory():
            harness.skip("no cgroup with the memory controller")
        programs = {"slowrank": paths.slowrank, "workload": paths.workload,
                    "injector": paths.injector, "work": paths.directory}
        before, started = cpu_seconds(), time.monotonic()
        result = detection.run_case(programs, kind, 4, SEED, brief=True)
        others = share_of_others(before, time.monotonic() - started)
        print(result, f"other programs took {100 * others:.0f} % of the CPUs")
        check("error" not in result, result.get("error", ""))
        score = result["score"]
        check(score["ranks_seen"] == 4, f"{score['ranks_seen']} ranks seen")
        # Where other programs do run, a rank that they take the CPU from is told rightly.
        false = [verdict for verdict in score["false"]
                 if others < OTHERS_LEAST or verdict["cause"] != "cpu-contention"]
        check(not false, f"false alarms: {false}")
        check(score["steps_right"], f"steps: {score['report_steps']} of {score['true_steps']}")
        for fault in score["windows"]:
            if not fault["applied"]:
                harness.skip("the fault could not be applied here: see the log")
            check(fault["counted"], f"the fault slowed nothing: {fault}")
            for what in ("named", "class", "cause"):
                if others >= OTHERS_MOST and not fault[what]:
                    harness.skip(f"other programs took {100 * others:.0f} % of the CPUs, and hid "
                                 f"the fault's {what}: {fault}")
                check(fault[what], f"{what} wrong: {fault}")
    return case


CASES = {kind: detect(kind) for kind in detection.KINDS}

if __name__ == "__main__":
    harness.main(CASES)
