#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks, or all of slowrank, in namespaces of their own, as containers make them, and what is said of what is missing there."""
import json
import os
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import jobs  # noqa: E402
from harness import check  # noqa: E402

RANKS, SLOW = 2, 1
JOB = {"steps": 200, "step_ms": 30, "compute_ms": 0.4, "collectives": 3}
FAULT = "rank=%d kind=input first=100 last=199 size=60" % SLOW
OTHER_TIME = ["unshare", "--time", "--monotonic", "86400", "--boottime", "7200", "--fork"]
OTHER_PIDS = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
# apptainer and enroot without setuid: root in a namespace of users of its own.
OTHER_USERS = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]


def watch(paths, around_slowrank=(), around_mpirun=(), around_ranks=(), slowrank=None):
    """A job's report, and what it wrote on stderr; namespaces as the command lines around it make them."""
    for around in (around_slowrank, around_mpirun, around_ranks):
        if around and subprocess.run([*around, "true"], check=False, capture_output=True).returncode != 0:
            harness.skip(f"cannot run {' '.join(around)}")
    truth = jobs.fresh_directory(paths.directory)
    record, gpus = (os.path.join(paths.directory, name) for name in ("record.slr", "gpus"))
    if os.path.exists(record):
        os.unlink(record)
    os.makedirs(gpus, exist_ok=True)
    environment = dict(os.environ, STAND_IN_GPUS=gpus, LD_LIBRARY_PATH=os.path.join(
        os.path.dirname(paths.workload_nccl), "stand_in", "driver"))
    began = time.time()
    done = subprocess.run(
        [*around_slowrank, slowrank or paths.slowrank, "run", "--record", record, "--", *around_mpirun,
         *jobs.mpirun(RANKS), *around_ranks,
         *jobs.workload_command(paths.workload_nccl, truth, faults=[FAULT], **JOB)],
        cwd=paths.directory, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=150, check=False)
    print(done.stderr)
    check(done.returncode == 0, f"the job: {done.returncode}")
    check("ld.so" not in done.stderr, "the loader says nothing")
    report = json.loads(jobs.whole_report(paths.slowrank, record).stdout)
    check(report["job"]["ranks"] == RANKS and abs(report["job"]["steps"] - JOB["steps"]) <= 4, f"the job: {report['job']}")
    check(began - 5 < report["job"]["start_unix_ns"] / 1e9 < time.time() + 5, f"when it began: {report['job']}, {began}")
    said = {(v["class"], v["cause"], *v["ranks"]) for v in report["verdicts"]}
    check(said == {("host-slow", "input-pipeline", SLOW)}, f"verdicts: {said}")
    return report


def device_time(report):
    found = [s for s in report["coverage"]["sources"] if s["name"] == "device.time"]
    check(len(found) == 1, f"the coverage speaks of device times: {found}")
    return found[0]


def check_device_time(report):
    check(device_time(report)["state"] != "not measurable", f"{device_time(report)}")


def times(paths):
    """Ranks whose clocks are a day off."""
    report = watch(paths, around_ranks=OTHER_TIME)
    check_device_time(report)


def within(paths):
    """slowrank and the job in one container: the kernel's clock and numbers are none of theirs."""
    report = watch(paths, around_slowrank=[*OTHER_PIDS, *OTHER_TIME[1:-1]])
    check_device_time(report)
    check(all(rank["pid"] < 1000 for rank in report["ranks"]), f"numbers of that namespace: {report['ranks']}")


def users(paths):
    """A job in a container without setuid, slowrank outside."""
    report = watch(paths, around_mpirun=OTHER_USERS)
    check_device_time(report)


def install(paths):
    """A folder with slowrank and its library."""
    folder = os.path.join(paths.directory, "installed")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for name in ("slowrank", "libslowrank_inject.so"):
        shutil.copy(os.path.join(os.path.dirname(paths.slowrank), name), folder)
    return folder


def older(paths):
    """The C library is older than the library needs: the job runs without it, and the report says so."""
    folder = install(paths)
    library = os.path.join(folder, "libslowrank_inject.so")
    with open(library, "rb") as file:
        text = file.read()
    check(b"GLIBC_2.17\0" in text, "a version to change")
    with open(library, "wb") as file:
        file.write(text.replace(b"GLIBC_2.17\0", b"GLIBC_9.99\0"))
    source = device_time(watch(paths, slowrank=os.path.join(folder, "slowrank")))
    check(source["state"] == "not measurable" and "did not load" in source["why"], f"{source}")


def missing(paths):
    """Ranks that do not have the library's folder: the job runs, and the report says why it lacks device times."""
    folder = install(paths)
    hide = ["unshare", "--mount", "sh", "-c", f"mount -t tmpfs none '{folder}' && exec \"$@\"", "sh"]
    report = watch(paths, around_ranks=hide, slowrank=os.path.join(folder, "slowrank"))
    source = device_time(report)
    check(source["state"] == "not measurable" and "another root" in source["why"], f"{source}")


CASES = {"times": times, "within": within, "users": users, "missing": missing, "older": older}

if __name__ == "__main__":
    harness.main(CASES)
