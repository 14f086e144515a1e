#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scores a report against the truth log of the same job.

usage: score.py TRUTH REPORT       prints one JSON object

A fault is found when a verdict begins in its window and names no rank but its culprits. For a
network fault the culprits are the ranks of the shaped node, and naming some of them will do;
for all others there is one culprit. Class and cause count only where the rank is right. Every
verdict that belongs to no fault, or that names another rank, is a false alarm.
"""
import json
import os
import statistics
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import jobs  # noqa: E402

# kind of fault -> class, causes that are right
EXPECTED = {
    "compute": ("compute-slow", {"unknown", "longer-kernels", "more-kernels"}),
    "throttle": ("host-slow", {"cgroup-throttle"}),
    "contention": ("host-slow", {"cpu-contention"}),
    "major": ("host-slow", {"major-page-fault"}),
    "minor": ("host-slow", {"minor-page-fault"}),
    "comm": ("comm-slow", {"nic-link", "nic-retransmit", "path-congestion"}),
}

GROWTH_LEAST = 1.1  # a fault that slows the step by less is not counted
GRACE_STEPS = 4     # a verdict's onset may lie that many steps outside of the fault's window


def window_ns(truth, fault):
    """From when to when a verdict's onset belongs to the fault."""
    grace_ns = GRACE_STEPS * 1e6 * max(fault["step_ms_before"], fault["step_ms_during"])
    begin = fault["begin_realtime_ns"]
    end = begin + fault["end_monotonic_ns"] - fault["begin_monotonic_ns"]
    return begin - grace_ns, end + grace_ns


def score_fault(truth, fault, verdicts):
    """One fault against the verdicts that begin in its window; marks those that fit."""
    begin, end = window_ns(truth, fault)
    culprits = set(truth.culprits(fault))
    inside = [v for v in verdicts if begin <= v["onset_unix_ns"] <= end]
    right = [v for v in inside if v["ranks"] and set(v["ranks"]) <= culprits]
    expected_class, expected_causes = EXPECTED[fault["kind"]]
    growth = truth.fault_growth(fault)
    result = {"kind": fault["kind"], "culprits": sorted(culprits),
              "applied": fault["applied"], "growth": round(growth, 3),
              "counted": bool(fault["applied"] and growth >= GROWTH_LEAST),
              "rank_right": False, "class_right": False, "cause_right": False}
    if inside:
        main = min(right or inside, key=lambda v: v["alert_unix_ns"])
        result["verdict"] = {key: main.get(key) for key in
                             ("class", "ranks", "cause", "slowdown", "confidence")}
    if not right:
        return result
    for verdict in right:
        verdict["fits"] = True
    result["rank_right"] = True
    result["class_right"] = main["class"] == expected_class
    result["cause_right"] = result["class_right"] and main["cause"] in expected_causes
    delay_ns = main["alert_unix_ns"] - fault["begin_realtime_ns"]
    result["delay_seconds"] = round(delay_ns / 1e9, 3)
    result["delay_steps"] = sum(fault["begin_realtime_ns"] <= step["realtime_ns"] and
                                step["realtime_ns"] <= main["alert_unix_ns"]
                                for step in truth.steps)
    result["slowdown_error_percent"] = round(100 * abs(main["slowdown"] / growth - 1), 2)
    return result


def phase_error_percent(truth, report):
    """How far the phases of a rank are from the mean step of the truth, at worst.

    Only where the report's steps are the truth's: with evaluation passes they are not.
    """
    if truth.others or len(truth.steps) < 3:
        return None
    span = truth.steps[-1]["monotonic_ns"] - truth.steps[0]["monotonic_ns"]
    mean_ms = span / 1e6 / (len(truth.steps) - 1)
    errors = [abs(sum(rank["step_ms"].values()) / mean_ms - 1) for rank in report["ranks"]]
    return round(100 * max(errors), 2) if errors else None


def score(truth, report):
    verdicts = [dict(v) for v in report["verdicts"]]
    faults = [score_fault(truth, fault, verdicts) for fault in truth.faults]
    false = [v for v in verdicts if "fits" not in v]
    true_steps = len(truth.steps)
    other = len(truth.others)
    seen_steps = report["job"]["steps"]
    # An evaluation pass may be counted as a step of its own or not: it is neither wrong nor right.
    nearest = min(max(seen_steps, true_steps), true_steps + other)
    return {
        "ranks": truth.job["ranks"], "ranks_seen": report["job"]["ranks"],
        "true_steps": true_steps, "other_passes": other, "report_steps": seen_steps,
        "step_error_percent": round(100 * abs(seen_steps - nearest) / true_steps, 2),
        "phase_error_percent": phase_error_percent(truth, report),
        "step_ms_median": round(statistics.median(truth.lengths_ms(0, 1 << 62)), 3),
        "faults": faults,
        "false_alarms": len(false),
        "false_verdicts": [{key: v.get(key) for key in (
            "class", "ranks", "cause", "slowdown", "confidence", "first_step", "last_step")}
            for v in false],
        "dropped": report["coverage"].get("dropped"),
        "probe_cpu_percent": report["coverage"].get("probe_cpu_percent"),
    }


def main():
    if len(sys.argv) != 3:
        print("usage: score.py TRUTH REPORT", file=sys.stderr)
        return 2
    with open(sys.argv[2], encoding="utf-8") as file:
        report = json.load(file)
    print(json.dumps(score(jobs.Truth(sys.argv[1]), report), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
