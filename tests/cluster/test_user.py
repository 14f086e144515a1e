#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs on stand-in devices, started and watched by a user without any capability."""
import json
import os
import shutil
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
SEED = os.environ.get("SEED", "1")  # of the workload
JOB = {"steps": 310, "step_ms": 30, "compute_ms": 4, "collectives": 3}
FAULT = "rank=%d kind=%s first=%d last=%d size=60"


def watch(paths, spin, *kinds, injector=None, first=160, last=309, **changed):
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
    folder = os.path.join(paths.directory, "gpus")
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    environment.update(STAND_IN_GPUS=folder, LD_LIBRARY_PATH=os.path.join(
        os.path.dirname(paths.workload_nccl), "stand_in", "driver"))
    faults = [FAULT % (SLOW, kind, first, last) for kind in kinds]
    done = subprocess.run(
        [*USER, paths.slowrank, "run", "--record", record, "--", *jobs.mpirun(RANKS),
         *jobs.workload_command(paths.workload_nccl, truth, faults=faults, read_loss=spin,
                                injector=injector, seed=SEED, **{**JOB, **changed})],
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
    report = watch(paths, False)
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
    report = watch(paths, True, "input")
    check(source(report, "device.launchers")["state"] == "on", "launchers are seen")
    check(("host-slow", "input-pipeline", [SLOW]) in said(report), f"verdicts: {said(report)}")


def device(paths):
    """The device of one rank is slow, and its host spins for it: no host is called slow."""
    report = watch(paths, True, "compute")
    check(not [v for v in said(report) if v[0] == "host-slow"], f"verdicts: {said(report)}")


def on_shared_core(paths, *kinds, **changed):
    with jobs.Injector(paths.injector, paths.directory) as injector:
        os.chmod(injector.socket, 0o666)
        return watch(paths, True, "contention core=0 hogs=2", *kinds,
                     injector=injector.socket, **changed)


def contention(paths):
    """Other programs on a core whose rank has much to do there: its threads queue, and its device has nothing to do."""
    report = on_shared_core(paths, step_ms=4, compute_ms=26, steps=200, first=120, last=169)
    told = [v for v in report["verdicts"] if v["last_step"] >= 120]
    check(("host-slow", "cpu-contention", [SLOW]) in said({"verdicts": told}), f"verdicts: {said(report)}")


def spinning(paths):
    """They compete with a wait for a slow device alone, which spins: that is not why it is late."""
    report = on_shared_core(paths, "compute", step_ms=200, compute_ms=1, collectives=1, steps=100,
                            first=50, last=89)
    check(not [v for v in said(report) if v[0] == "host-slow"], f"verdicts: {said(report)}")


def faults(kind, cause):
    """Counted, not timed: named where they are many."""
    def case(paths):
        report = watch(paths, True, kind)
        check(("host-slow", cause, [SLOW]) in said(report), f"verdicts: {said(report)}")
    return case


CASES = {"healthy": healthy, "sleep": sleep, "device": device, "contention": contention, "spinning": spinning,
         "major": faults("major", "major-page-fault")}

if __name__ == "__main__":
    harness.main(CASES)
