#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The workload keeps its promises: true steps, step times, faults that slow it, without slowrank.

usage: test_workload.py PROGRAM WORK_DIRECTORY CASE...
"""
import os
import subprocess
import sys

sys.dont_write_bytecode = True  # the sources stay as they are
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
import jobs  # noqa: E402


def check(condition, text):
    if not condition:
        raise SystemExit("FAILED: " + text)


def schedules(program, directory):
    for schedule in ("ddp", "accumulate", "eval", "changing", "nested", "irregular"):
        truth = jobs.run_workload(program, directory, 2, steps=60, step_ms=2, compute_ms=0.1,
                                  schedule=schedule, split=schedule == "nested")
        check(len(truth.steps) == 60, f"{schedule}: {len(truth.steps)} steps in the log")
        check({end["steps"] for end in truth.ends} == {60}, f"{schedule}: steps at the end")
        check(len(truth.ranks) == 2, f"{schedule}: ranks in the log")
        others = {end["other_passes"] for end in truth.ends}
        check((others != {0}) == (schedule in ("eval", "irregular")),
              f"{schedule}: other passes {others}")


def faults(program, directory):
    kinds = ["compute", "major", "minor"]
    if jobs.can_throttle():
        kinds.append("throttle")
    else:
        print("throttle left out: needs root and a cgroup with the cpu controller")
    if jobs.can_limit_memory():
        kinds.append("reclaim")
    else:
        print("reclaim left out: needs root and a cgroup with the memory controller")
    for kind in kinds:
        truth = jobs.run_workload(program, directory, 2, steps=130, step_ms=10, compute_ms=1,
                                  faults=[f"rank=1 kind={kind} first=40 last=99 size=60"])
        check(len(truth.faults) == 1, f"{kind}: not in the log")
        fault = truth.faults[0]
        if kind in ("major", "reclaim") and not fault["applied"]:
            print(f"{kind} left out: /var/tmp is not on a disk")
            continue
        check(fault["applied"], f"{kind}: not applied")
        check((fault["rank"], fault["first_step"], fault["last_step"]) == (1, 40, 99),
              f"{kind}: window {fault}")
        growth = truth.fault_growth(fault)
        print(f"{kind}: step grew to {growth:.2f} of before")
        check(growth > 1.25, f"{kind}: the step grew only to {growth:.2f}")
        left = [name for name in jobs.fault_cgroups() if any(
            name.endswith(f"-{rank['pid']}") for rank in truth.ranks)]
        check(not left, f"{kind}: cgroups left behind: {left}")


def usage(program, directory):
    for arguments in (["--steps", "x"], ["--schedule", "none"], ["--fault", "kind=warp"],
                      ["--plan", "/nonexistent"], ["word"]):
        done = subprocess.run([program] + arguments, capture_output=True, text=True, timeout=30,
                              check=False)
        check(done.returncode == 2, f"{arguments}: exit {done.returncode}")
        check(len(done.stderr.strip().splitlines()) == 1, f"{arguments}: {done.stderr!r}")
    done = subprocess.run(jobs.mpirun(2) + [program, "--steps", "3", "--exit-status", "7"],
                          capture_output=True, timeout=60, check=False)
    check(done.returncode == 7, f"exit status {done.returncode} instead of 7")


def nccl(program, directory):
    """For workload_nccl: its all-reduce is checked by the program itself."""
    truth = jobs.run_workload(program, directory, 3, steps=40, step_ms=4, compute_ms=0.2,
                              schedule="irregular", split=True)
    check(len(truth.steps) == 40 and len(truth.ends) == 3, "steps and ranks in the log")
    # The host only launches: the calls return long before the device is done.
    for end in truth.ends:
        check(end["collective_ms_per_step"] < 0.25 * 4, f"enqueueing a collective took long: {end}")
    truth = jobs.run_workload(program, directory, 2, steps=130, step_ms=10, compute_ms=0.5,
                              faults=["rank=1 kind=compute first=40 last=99 size=60"])
    growth = truth.fault_growth(truth.faults[0])
    check(growth > 1.25, f"longer kernels: the step grew only to {growth:.2f}")


CASES = {"schedules": schedules, "faults": faults, "usage": usage, "nccl": nccl}

if __name__ == "__main__":
    for name in sys.argv[3:]:
        CASES[name](os.path.abspath(sys.argv[1]), sys.argv[2])
