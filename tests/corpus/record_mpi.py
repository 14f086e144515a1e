#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the records of MPI and stand-in device jobs in this folder anew: live jobs, one after the other.

    tests/corpus/record_mpi.py --build build [NAME...]

Needs root and a machine that does little else. Those of GPU jobs come from tests/gpu/run.py, by add.py.
Afterwards: tests/corpus/replay.py --update
"""
import argparse
import json
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [HERE, os.path.join(os.path.dirname(TESTS), "bench")]
import add  # noqa: E402
import detection  # noqa: E402

# name -> (kind of fault, ranks, seed) of bench/detection.py
DETECTION = {
    "mpi-compute": ("compute", 8, 3), "mpi-throttle": ("throttle", 4, 2),
    "mpi-contention": ("contention", 4, 5), "mpi-major": ("major", 4, 3),
    "mpi-minor": ("minor", 4, 4), "mpi-comm": ("comm", 8, 2), "mpi-healthy": ("none", 16, 2),
    "mpi-healthy-nodes": ("none", 8, 4),
}
# name -> (test of tests/cluster, its case, what is changed in its truth)
TESTED = {
    "device-longer": ("device", "longer", {"says": ["forward_backward_kernel", "longer-kernels"]}),
    "device-more": ("device", "more", {"says": ["evaluation_kernel", "more-kernels"]}),
    "device-healthy": ("device", "healthy", {}),
    "device-baseline": ("device", "baseline", {}),
    "device-refused": ("device", "refused", {"says": ["another profiler"]}),
    "device-launch-bound": ("device", "launch_bound", {"says": ["launches a second: CUPTI would"]}),
    "attach-late-host": ("run", "attach_late_host", {"attached": True, "says": ["launch-gaps"]}),
    "attach-slow-device": ("run", "attach_slow_device", {"attached": True}),
    "garbage": ("run", "garbage", {"truth": "truth.json"}),
    "hang-busy": ("hang", "busy", {"kind": "pause", "says": ["in its own work"]}),
    "hpcc-healthy": ("programs", "hpcc_healthy", {"no_steps": True}),
    "examl-healthy": ("programs", "examl_healthy", {"no_steps": True}),
    **{f"steps-{schedule}": ("run", f"irregular_{schedule}", {})
       for schedule in ("accumulate", "eval", "changing", "nested", "irregular")},
}


def run_detection(build, work, kind, ranks, seed):
    programs = {"slowrank": os.path.join(build, "slowrank"), "work": work,
                "workload": os.path.join(build, "workload_mpi"),
                "injector": os.path.join(build, "fault_injector")}
    result = detection.run_case(programs, kind, ranks, seed)
    if "error" in result:
        raise RuntimeError(result["error"])
    return os.path.join(work, f"{kind}-{ranks}-{seed}")


def run_test(build, work, file, case):
    done = subprocess.run([sys.executable, os.path.join(TESTS, "cluster", f"test_{file}.py"),
                           "--build", build, "--directory", work, case], check=False,
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError((done.stdout + done.stderr)[-500:])
    return os.path.join(work, case)


def program_truth(report, name):
    """Of a program that writes no log: its begin and its end, as the record has them."""
    job = report["job"]
    return {"program": f"{name.split('-')[0]}, a program from Debian", "windows": [],
            "step_begins_s": [job["start_unix_ns"] / 1e9, job["end_unix_ns"] / 1e9],
            "no_steps": True}


def make(name, build, work, slowrank):
    """Runs the job and adds it."""
    changes = {}
    if name in DETECTION:
        directory = run_detection(build, work, *DETECTION[name])
    else:
        file, case, changes = TESTED[name]
        directory = run_test(build, work, file, case)
    record = os.path.join(directory, "record.slr")
    if changes.get("no_steps"):
        made = program_truth(add.report_of(slowrank, record), name)
    else:
        made = add.read_truth(os.path.join(directory, changes.get("truth", "truth.jsonl")))
    for window in made["windows"]:
        window["kind"] = changes.get("kind", window["kind"])
    if "says" in changes:
        made["says"] = changes["says"]
    if changes.get("attached"):
        add.begin_with_the_record(made, add.report_of(slowrank, record))
    made["note"] = f"made on {time.strftime('%Y-%m-%d', time.gmtime())} by record_mpi.py"
    add.add(name, add.unpack(build, record), made)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(os.path.dirname(TESTS), "build"))
    parser.add_argument("--work", default="/var/tmp/slowrank-corpus",
                        help="on a disk, for major page faults")
    parser.add_argument("names", nargs="*", default=[*DETECTION, *TESTED])
    arguments = parser.parse_args()
    build, failed = os.path.abspath(arguments.build), 0
    for name in arguments.names:
        try:
            make(name, build, arguments.work, os.path.join(build, "slowrank"))
        except (RuntimeError, OSError, KeyError) as error:
            failed += 1
            print(f"{name}: FAILED: {error!r}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
