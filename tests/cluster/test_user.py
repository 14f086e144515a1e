#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs on stand-in devices, started and watched by a user without any capability."""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import jobs  # noqa: E402
from harness import check  # noqa: E402

USER = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all",
        "--bounding-set=-all"]
RANKS, SLOW = 2, 1
JOB = {"steps": 310, "step_ms": 30, "compute_ms": 4, "collectives": 3}
FAULT = "rank=%d kind=%s first=160 last=309 size=60"


def watch(paths, spin, kind=None):
    """The report of a job whose threads spin or sleep while they wait for the device."""
    jobs.fresh_directory(paths.directory)
    os.chmod(paths.directory, 0o777)
    record, truth = (os.path.join(paths.directory, name) for name in ("record.slr", "truth.jsonl"))
    if os.path.exists(record):
        os.unlink(record)
    for path in (paths.slowrank, paths.workload_nccl):
        if subprocess.run([*USER, "test", "-x", path], check=False).returncode != 0:
            harness.skip(f"user 65534 cannot reach {path}")
    environment = dict(os.environ, HOME=paths.directory, TMPDIR=paths.directory)
    if spin:
        environment["STAND_IN_WAITS_SPIN"] = "1"
    faults = [FAULT % (SLOW, kind)] if kind else []
    done = subprocess.run(
        [*USER, paths.slowrank, "run", "--record", record, "--", *jobs.mpirun(RANKS),
         *jobs.workload_command(paths.workload_nccl, truth, faults=faults, read_loss=spin, **JOB)],
        cwd=paths.directory, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=150, check=False)
    print(done.stderr)
    check(done.returncode == 0, f"the job: {done.returncode}")
    report = json.loads(jobs.whole_report(paths.slowrank, record).stdout)
    check(report["job"]["ranks"] == RANKS, f"{report['job']['ranks']} ranks")
    check(source(report, "device.time")["state"] != "not measurable", "device times are there")
    return report


def source(report, name):
    found = [s for s in report["coverage"]["sources"] if s["name"] == name]
    check(len(found) == 1, f"the coverage speaks of {name}: {found}")
    return found[0]


def said(report):
    return [(v["class"], v["cause"], v["ranks"]) for v in report["verdicts"]]


def healthy(paths):
    """No verdict; what is missing has a reason, each the one that doctor tells this user before."""
    report = watch(paths, spin=False)
    check(not report["verdicts"], f"verdicts: {said(report)}")
    doctor = json.loads(subprocess.run([*USER, paths.slowrank, "doctor", "--json"],
                                       capture_output=True, text=True, check=False).stdout)
    told = {line["name"]: line for line in doctor["checks"]}
    for name, line in (("bpf.sched", "bpf"), ("cycles", "cycles")):
        missing = source(report, name)
        check(missing["state"] == "not measurable" and missing["why"] == told[line]["found"],
              f"{missing} and {told[line]}")
    launchers = source(report, "device.launchers")
    check(launchers["state"] == "not measurable" and "sleep" in launchers["why"],
          f"the coverage: {launchers}")
    check(told["launchers"]["state"] == "fine" and told["mpi jobs"]["state"] == "missing",
          f"doctor: {told['launchers']}, {told['mpi jobs']}")


def sleep(paths):
    """The host of one rank sleeps: told by the CPU time of the threads that launch."""
    report = watch(paths, spin=True, kind="input")
    check(source(report, "device.launchers")["state"] == "on", "launchers are seen")
    check(("host-slow", "input-pipeline", [SLOW]) in said(report), f"verdicts: {said(report)}")


def device(paths):
    """The device of one rank is slow, and its host spins for it: no host is called slow."""
    report = watch(paths, spin=True, kind="compute")
    check(not [v for v in said(report) if v[0] == "host-slow"], f"verdicts: {said(report)}")


def faults(kind, cause):
    """Counted, not timed: named where they are many."""
    def case(paths):
        report = watch(paths, spin=True, kind=kind)
        check(("host-slow", cause, [SLOW]) in said(report), f"verdicts: {said(report)}")
    return case


CASES = {"healthy": healthy, "sleep": sleep, "device": device,
         "major": faults("major", "major-page-fault")}

if __name__ == "__main__":
    harness.main(CASES)
