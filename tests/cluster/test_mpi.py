#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MPICH beside Open MPI, and communicators made in every way that MPI has."""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import communicators  # noqa: E402
import harness  # noqa: E402
import jobs  # noqa: E402
from harness import check  # noqa: E402
from launchers import need_mpich  # noqa: E402
from test_run import attach_and_end, check_throttled, fresh, need_throttle, read_report  # noqa: E402

# A throttled rank, long enough for a verdict, in about 3 s.
THROTTLED = {"steps": 100, "step_ms": 20, "compute_ms": 1.5,
             "faults": ["rank=2 kind=throttle first=40 last=89 size=60"]}


def throttled(paths):
    """The workload's command, for MPICH."""
    need_mpich(paths.workload_mpich)
    need_throttle()
    return jobs.workload_command(paths.workload_mpich, jobs.fresh_directory(paths.directory),
                                 **THROTTLED)


def mpich(paths):
    """One slowrank for all ranks."""
    run = jobs.run_watched(paths.slowrank, paths.directory, [*jobs.mpich(4), *throttled(paths)],
                           timeout=60)
    check(run.status == 0, f"exit {run.status}: {run.tail()}")
    check_throttled(run.report(paths.slowrank))


def mpich_per_rank(paths):
    """One slowrank per rank: they find each other, though Hydra names no job."""
    command = throttled(paths)
    record, = fresh(paths.directory, "record.slr")
    done = subprocess.run([*jobs.mpich(4), paths.slowrank, "run", "--record", record, "--",
                           *command], stdin=subprocess.DEVNULL, timeout=60, check=False)
    check(done.returncode == 0, f"exit {done.returncode}")
    check_throttled(read_report(paths, record))


def mpich_attach(paths):
    """A job that runs already."""
    command = throttled(paths)
    record, = fresh(paths.directory, "record.slr")
    attach_and_end(paths, jobs.mpich(4), command, "--record", record)
    check_throttled(read_report(paths, record))


def check_communicators(paths, launcher, program):
    """A healthy job: its communicators are joined as they were made, or said not to be."""
    record, *members = fresh(paths.directory, "record.slr", *(f"members.{r}" for r in range(4)))
    done = subprocess.run([paths.slowrank, "run", "--record", record, "--", *launcher, program,
                           os.path.join(paths.directory, "members"), "40", "10"],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=100,
                          check=False)
    check(done.returncode == 0, f"exit {done.returncode}: {done.stderr}")
    wrong = communicators.differences(members, paths.record_calls, record)
    check(not wrong, "; ".join(wrong[:10]))
    report = read_report(paths, record)
    check(not report["verdicts"], f"verdicts on a healthy job: {report['verdicts']}")
    calls, = [source for source in report["coverage"]["sources"]
              if source["name"] == "bpf.collectives"]
    check(calls["state"] == "degraded" and "MPI_Intercomm_create" in calls["why"],
          f"the coverage says what is not joined: {calls}")


def made_open_mpi(paths):
    check_communicators(paths, jobs.mpirun(4), paths.communicators)


def attached_open_mpi(paths):
    """A job that runs already: its communicators, all made before, are joined as they were made, in whatever way."""
    record, *members = fresh(paths.directory, "record.slr", *(f"members.{r}" for r in range(4)))
    job = subprocess.Popen([*jobs.mpirun(4), paths.communicators, os.path.join(paths.directory, "members"),
                            "400", "10"], stdin=subprocess.DEVNULL)
    jobs.wait_until(lambda: all(os.path.exists(path) for path in members), "ranks made theirs", job)
    attach = subprocess.run([paths.slowrank, "attach", "--record", record, "--pid", str(job.pid)],
                            stdin=subprocess.DEVNULL, timeout=100, check=False)
    check((job.wait(timeout=60), attach.returncode) == (0, 0), f"exit {job.returncode}, {attach.returncode}")
    wrong = communicators.differences(members, paths.record_calls, record, all_joined=True)
    check(not wrong, "; ".join(wrong[:10]))
    check(not read_report(paths, record)["verdicts"], "no verdicts on a healthy job")


def made_mpich(paths):
    need_mpich(paths.communicators_mpich)
    check_communicators(paths, jobs.mpich(4), paths.communicators_mpich)


CASES = {case.__name__: case for case in (mpich, mpich_per_rank, mpich_attach, made_open_mpi,
                                          attached_open_mpi, made_mpich)}

if __name__ == "__main__":
    harness.main(CASES)
