#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The short form of bench/detection: one job per kind of fault, scored against its truth log."""
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "bench")]
import detection  # noqa: E402
import harness  # noqa: E402
import jobs  # noqa: E402
from harness import check  # noqa: E402

SEED = 1


def detect(kind):
    def case(paths):
        if kind == "throttle" and not jobs.can_throttle():
            harness.skip("no cgroup with the cpu controller")
        programs = {"slowrank": paths.slowrank, "workload": paths.workload,
                    "injector": paths.injector, "work": paths.directory}
        result = detection.run_case(programs, kind, 4, SEED, brief=True)
        print(result)
        check("error" not in result, result.get("error", ""))
        score = result["score"]
        check(score["ranks_seen"] == 4, f"{score['ranks_seen']} ranks seen")
        check(score["false_alarms"] == 0, f"false alarms: {score['false_verdicts']}")
        check(score["step_error_percent"] <= 1, f"steps: {score['report_steps']} of "
                                                f"{score['true_steps']}")
        for fault in score["faults"]:
            if not fault["applied"]:
                harness.skip("the fault could not be applied here: see the log")
            check(fault["counted"], f"the fault slowed nothing: {fault}")
            for what in ("rank", "class", "cause"):
                check(fault[what + "_right"], f"{what} wrong: {fault}")
    return case


CASES = {kind: detect(kind) for kind in detection.KINDS}

if __name__ == "__main__":
    harness.main(CASES)
