#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job that does not go on: who is missing, where it is, and who only waits."""
import json
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import jobs  # noqa: E402
from harness import check  # noqa: E402

LIMIT_S = 5.0  # docs/analysis.md: max(10 x usual, 5 s); the usual here is milliseconds
LOOK_S = 1.0   # the coordinator looks once a second
BATCH_S = 0.6  # a batch, and its way


def descends(pid, leader):
    """Whether leader is among the parents of pid; other jobs may run beside this one."""
    while pid > 1:
        if pid == leader:
            return True
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                pid = int(file.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            return False
    return False


def find_rank(leader, rank):
    """The pid of a rank below leader."""
    wanted = f"OMPI_COMM_WORLD_RANK={rank}".encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                environment = file.read().split(b"\0")
            with open(f"/proc/{name}/comm", "rb") as file:
                is_workload = file.read().startswith(b"workload")
        except OSError:
            continue
        if wanted in environment and is_workload and descends(int(name), leader):
            return int(name)
    return None


def hangs(paths, record):
    done = subprocess.run([paths.slowrank, "report", record, "--format", "json"],
                          capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        return []
    return [v for v in json.loads(done.stdout)["verdicts"] if v["class"] == "hang"]


def start(paths, *options, **workload):
    truth = jobs.fresh_directory(paths.directory)
    record = os.path.join(paths.directory, "record.slr")
    if os.path.exists(record):
        os.unlink(record)
    return record, subprocess.Popen(
        [paths.slowrank, "run", "--record", record, "--", *jobs.mpirun(4),
         *jobs.workload_command(paths.workload, truth, **workload), *options],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for_hang(paths, record, deadline_s):
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        time.sleep(0.5)
        found = hangs(paths, record)
        if found:
            return found
    return []


def stopped(paths):
    """One rank is stopped before a collective; afterwards it goes on, and the job ends well."""
    record, process = start(paths, steps=300, step_ms=20)
    time.sleep(5)
    pid = find_rank(process.pid, 2)
    check(pid is not None, "no rank 2 below mpirun")
    stopped_at = time.time()
    os.kill(pid, signal.SIGSTOP)
    try:
        found = wait_for_hang(paths, record, LIMIT_S + 8)
    finally:
        os.kill(pid, signal.SIGCONT)
    check(len(found) == 1, f"{len(found)} verdicts of class hang")
    verdict = found[0]
    delay_s = verdict["alert_unix_ns"] / 1e9 - stopped_at
    text = " ".join(one["detail"] for one in verdict["evidence"])
    print(f"told after {delay_s:.2f} s: {text}")
    check(verdict["ranks"] == [2], f"missing: {verdict['ranks']}")
    check(verdict["victims"] == [0, 1, 3], f"waiting: {verdict['victims']}")
    check(LIMIT_S - 0.2 <= delay_s <= LIMIT_S + LOOK_S + BATCH_S,
          f"told {delay_s:.2f} s after the stop")
    check("stopped by a signal" in text, f"where rank 2 is: {text}")
    check(process.wait(timeout=120) == 0, "the job did not end well")
    verdict, = hangs(paths, record)
    check(verdict["ended"], "the job went on, the verdict did not end")


def busy(paths):
    """One rank's own work takes long: missing, but alive."""
    record, process = start(paths, "--fault", "rank=1 kind=compute first=30 last=30 size=10000",
                            steps=45, step_ms=100)
    found = wait_for_hang(paths, record, 60)
    check(len(found) == 1, f"{len(found)} verdicts of class hang")
    text = " ".join(one["detail"] for one in found[0]["evidence"])
    print(text)
    check(found[0]["ranks"] == [1], f"missing: {found[0]['ranks']}")
    check("rank 1 last left" in text and "in its own work" in text, f"where rank 1 is: {text}")
    check(process.wait(timeout=120) == 0, "the job did not end well")


def none(paths):
    """A healthy job with pauses below the limit says nothing."""
    record, process = start(paths, steps=200, step_ms=20)
    time.sleep(4)
    pid = find_rank(process.pid, 3)
    check(pid is not None, "no rank 3 below mpirun")
    os.kill(pid, signal.SIGSTOP)
    time.sleep(3)
    os.kill(pid, signal.SIGCONT)
    check(process.wait(timeout=120) == 0, "the job did not end well")
    check(not hangs(paths, record), "a pause of three seconds is no hang")


CASES = {"stopped": stopped, "busy": busy, "none": none}

if __name__ == "__main__":
    harness.main(CASES)
