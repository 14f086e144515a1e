# SPDX-License-Identifier: Apache-2.0
"""Makes the truth of a job, as rules.py has it, of the log that the job wrote."""
import os
import sys

sys.dont_write_bytecode = True
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(TESTS, "cluster"), os.path.join(TESTS, "gpu")]
import fault_plan  # noqa: E402
import jobs  # noqa: E402

DISTURBED_LEAST = 1.10  # growth of a host's time by the job's own clock: Truth.host_growth()
STRETCH = 5             # steps, that are judged together


def of_workload(log, program=""):
    """log: jobs.Truth, of tests/workload."""
    windows = []
    for fault in log.faults:
        culprits = log.culprits(fault)
        windows.append({"kind": fault["kind"], "rank": fault["rank"], "first": fault["first_step"],
                        "last": fault["last_step"] + 1, "applied": fault["applied"],
                        **({"ranks": culprits, "any_of": True} if len(culprits) > 1 else {})})
    return {"program": program or f"tests/workload over {log.job['transport']}, "
                                  f"{log.job['schedule']}",
            "step_begins_s": [round(step["realtime_ns"] / 1e9, 6) for step in log.steps],
            "windows": windows, **({"other_passes": len(log.others)} if log.others else {})}


def disturbed_spans(log):
    """Where a host was slow in truth, though nobody made it so."""
    spans = []
    for rank, steps in sorted(log.steps.items()):
        own = {step for f in log.faults if f["rank"] == rank
               for step in range(f["first_step"] - 1, f["last_step"] + 4)}
        for first in range(0, len(steps) - STRETCH + 1, STRETCH):
            last = first + STRETCH - 1
            if own.isdisjoint(range(first, last + 1)) and (
                    log.host_growth(rank, first, last) or 1) >= DISTURBED_LEAST:
                if spans and spans[-1]["ranks"] == [rank] and spans[-1]["last"] == first:
                    spans[-1]["last"] = last + 1
                else:
                    spans.append({"first": first, "last": last + 1, "ranks": [rank],
                                  "classes": ["host-slow"],
                                  "why": "its host took longer by the job's own clock"})
    return spans


def of_gpu(log, program=""):
    """log: fault_plan.Truth, of tests/gpu."""
    windows = []
    for fault in log.faults:
        windows.append({"kind": fault["kind"], "rank": fault["rank"], "size": fault["size"],
                        "first": fault["first_step"], "last": fault["last_step"] + 1,
                        "since": log.slow_since(fault, DISTURBED_LEAST, STRETCH),
                        "measured_from": fault["first_step"] + 1,  # to set it up may take time
                        "applied": bool(fault["applied"] and fault["end_realtime_ns"]),
                        "why": fault["why"]})
    truth = {"program": program or f"tests/gpu, {log.job.get('mode')}",
             "step_begins_s": [round(step[2] / 1e9, 6) for step in log.steps[min(log.steps)]],
             "windows": windows, "disturbed": disturbed_spans(log),
             "other_passes": log.job.get("warm_up_steps", 0)}
    deaths = [note["realtime_ns"] / 1e9 for note in log.notes if note.get("what") == "death"]
    if deaths or not log.ended:
        truth["ended_s"] = min(deaths, default=max(
            steps[-1][2] for steps in log.steps.values()) / 1e9)
    return truth


def read(path, program=""):
    """Of whichever of the two logs path is."""
    with open(path, encoding="utf-8") as file:
        of_the_workload = any('"transport"' in line for line in file)
    if of_the_workload:
        return of_workload(jobs.Truth(path), program)
    return of_gpu(fault_plan.Truth(path), program)
