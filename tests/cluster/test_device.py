#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs on (stand-in) devices: device times by the NCCL plug-in, deep looks by CUPTI."""
from concurrent import futures
import json
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import jobs  # noqa: E402
from harness import check  # noqa: E402

RANKS, SLOW = 4, 2
# Kernels fill most of a step; the fault lasts long enough for an alert, a look and its answer.
JOB = {"steps": 310, "step_ms": 30, "compute_ms": 0.4, "collectives": 3}
LAUNCHES = 8000  # of a launch-bound job, a step; also steps of a loaded machine are short enough
FAULT = "rank=%d kind=%s first=160 last=309 size=60"


def watch(paths, run_options=(), ranks=RANKS, **options):
    live_path = os.path.join(paths.directory, "live.json")
    if os.path.exists(live_path):
        os.unlink(live_path)
    _, run = jobs.run_workload_watched(paths.slowrank, paths.workload_nccl, paths.directory, ranks,
                                       run_options=["--report", live_path, *run_options],
                                       **{**JOB, **options})
    print(run.tail())
    report = run.report(paths.slowrank)
    with open(live_path, encoding="utf-8") as file:
        check(json.load(file) == report, "the live report and the replayed one differ")
    check(report["job"]["ranks"] == ranks, f"{report['job']['ranks']} ranks")
    check(source(report, "device.time")["state"] != "not measurable", "device times are there")
    return run, report


def source(report, name):
    found = [s for s in report["coverage"]["sources"] if s["name"] == name]
    check(len(found) == 1, f"the coverage speaks of {name}: {found}")
    return found[0]


def check_verdict(report, cause):
    said = [(v["class"], v["cause"], v["ranks"]) for v in report["verdicts"]]
    check(said == [("compute-slow", cause, [SLOW])], f"verdicts: {said}")
    return report["verdicts"][0]


def check_update(run, cause):
    """The cause comes with an update behind the alert, or with the alert."""
    told = [(a["event"], a["verdict"]["cause"]) for a in run.alerts()]
    check(told[0][0] == "alert" and told[0][1] in ("unknown", cause), f"told: {told}")
    check(cause in [c for e, c in told if e in ("alert", "update")], f"told: {told}")


def check_looks(report):
    looked = [r["rank"] for r in report["ranks"] if "look" in r]
    check(SLOW in looked and len(looked) == 2, f"looked at ranks {looked}: a suspect, a control")
    for rank in report["ranks"]:
        if "look" not in rank:
            continue
        look = rank["look"]
        check(look["steps"] >= 8 and look["dropped"] == 0, f"a look: {look}")
        check(sum(look["launch_us"]["histogram"]) > 0, f"launches are known: {look}")


def longer(paths):
    """One rank's kernels take longer."""
    run, report = watch(paths, faults=[FAULT % (SLOW, "compute")])
    verdict = check_verdict(report, "longer-kernels")
    first = verdict["evidence"][0]
    check(first["kind"] == "longer-kernels" and "forward_backward_kernel" in first["detail"],
          f"the kernel is named: {first}")
    check(1.3 < first["overlap_ms_per_step"] / first["control_ms_per_step"] < 2, f"{first}")
    check_looks(report)
    check_update(run, "longer-kernels")


def more(paths):
    """One rank runs a kernel that the others do not."""
    run, report = watch(paths, faults=[FAULT % (SLOW, "kernels")])
    first = check_verdict(report, "more-kernels")["evidence"][0]
    check(first["kind"] == "more-kernels" and "evaluation_kernel" in first["detail"],
          f"the kernel is named: {first}")
    check_looks(report)
    check_update(run, "more-kernels")


def healthy(paths):
    """No verdict, no look."""
    run, report = watch(paths)
    check(not report["verdicts"], f"verdicts: {report['verdicts']}")
    check(not run.alerts(), f"alerts: {run.alerts()}")
    check(not [r for r in report["ranks"] if "look" in r], "nobody was looked at")
    check(source(report, "device.kernels")["state"] == "on", "looks are allowed")


def drift(paths):
    """Devices' clocks that fall behind the hosts' by 150 us a second, 3 ms in this job: all calls keep their times."""
    os.environ["STAND_IN_DRIFT_PPM"] = "-150"
    _, report = watch(paths, ranks=2, steps=600)
    told = source(report, "device.time")
    check(told["state"] == "on", f"device.time: {told}")
    check(not report["verdicts"], f"verdicts: {report['verdicts']}")
    check(report["coverage"]["steps_incomplete"] <= 3, f"{report['coverage']['steps_incomplete']} steps incomplete")


def soak(paths):
    """A quarter of an hour without a word, on clocks that part by 40 ms; then two slow devices are named, with their cause."""
    os.environ["STAND_IN_DRIFT_PPM"] = "-41"
    faults = ["rank=1 kind=compute first=20500 last=20800 size=60", "rank=2 kind=compute first=21400 last=21700 size=40"]
    _, report = watch(paths, ranks=3, steps=22000, step_ms=50, faults=faults, timeout=1800)
    said = [(v["class"], v["cause"], v["ranks"], v["first_step"] // 100) for v in
            sorted(report["verdicts"], key=lambda verdict: verdict["first_step"])]
    check(said == [("compute-slow", "longer-kernels", [1], 205), ("compute-slow", "longer-kernels", [2], 214)], f"verdicts: {said}")
    coverage = report["coverage"]
    print(f"{coverage['probe_resident_bytes'] / 2 ** 20:.1f} MiB, {coverage['steps_incomplete']} steps incomplete")
    check(source(report, "device.time")["state"] == "on", "all calls have their times")
    check(coverage["steps_incomplete"] <= 10, f"{coverage['steps_incomplete']} steps incomplete")


def asked(paths):
    """Somebody asks for the kernels of a healthy rank: they are told, and in the report; nobody is named for it."""
    name, told = f"device-{os.getpid()}", []

    def ask():
        for _ in range(60):  # the job starts
            told.append(subprocess.run([paths.slowrank, "kernels", "--rank", "1", "--steps", "20", "--job", name],
                                       capture_output=True, text=True, check=False, timeout=90))
            if told[-1].returncode == 0:
                return
            time.sleep(0.5)

    with futures.ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        run, report = watch(paths, ["--job", name])
        asking.result()
    print(told[-1].stdout)
    lines = told[-1].stdout.splitlines()
    check(told[-1].returncode == 0 and lines[0].startswith("rank 1: process "), f"{told[-1]}")
    check(any(line.endswith("forward_backward_kernel") for line in lines), f"the kernel is named: {lines}")
    check(not report["verdicts"] and not run.alerts(), f"verdicts: {report['verdicts']}, {run.alerts()}")
    check([r["rank"] for r in report["ranks"] if "look" in r] == [1], "the report has the look")


def all_to_all(paths):
    """NCCL does not tell of the ends of what ranks exchange with themselves: no call is lost."""
    run, report = watch(paths, all_to_all=True)
    check(not report["verdicts"], f"verdicts: {report['verdicts']}")
    check(not run.alerts(), f"alerts: {run.alerts()}")
    check(report["coverage"]["dropped"] == 0, f"{report['coverage']['dropped']} events were lost")
    check(source(report, "device.time")["state"] == "on", "all calls have device times")
    check(abs(report["job"]["steps"] - JOB["steps"]) <= 0.02 * JOB["steps"],
          f"{report['job']['steps']} steps")


def all_to_all_apart(paths):
    """Between nodes NCCL tells other calls' times behind such exchanges: those calls are timed by events."""
    os.environ["STAND_IN_NCCL_BETWEEN_NODES"] = "1"
    _, report = watch(paths, all_to_all=True)
    check(not report["verdicts"], f"verdicts: {report['verdicts']}")
    check(report["coverage"]["dropped"] == 0, f"{report['coverage']['dropped']} events were lost")
    check(abs(report["job"]["steps"] - JOB["steps"]) <= 0.02 * JOB["steps"],
          f"{report['job']['steps']} steps")
    for rank in report["ranks"]: # by the plug-in alone, after the first step there is none
        check(rank["step_ms"]["comm_transfer"] > 1, f"rank {rank['rank']}: {rank['step_ms']}")


def pipeline(paths):
    """A stage is alone in its role and calls no collective: its sends and receives tell what held its host up."""
    _, report = watch(paths, ranks=2, pipeline=True, collectives=6,
                      faults=["rank=0 kind=minor first=160 last=309 size=200"])
    said = [(v["class"], v["ranks"]) for v in report["verdicts"]]
    check(said == [("host-slow", [0])], f"verdicts: {said}")


def pipeline_asleep(paths):
    """The stages of a healthy pipeline sleep in turn while they wait: sleep alone names none of them."""
    _, report = watch(paths, ranks=2, pipeline=True, collectives=6)
    check(not report["verdicts"], f"verdicts: {report['verdicts']}")


def with_user_plugin(paths):
    """A profiler plug-in of the user's own: found by its name as NCCL does, and device times stay."""
    counts = os.path.join(paths.directory, "user_plugin")
    configuration = os.path.join(paths.directory, "nccl.conf")
    with open(configuration, "w", encoding="utf-8") as file:
        file.write("# a comment\nNCCL_DEBUG=WARN\nNCCL_PROFILER_PLUGIN=user6\n")
    os.environ.update({"USER_PLUGIN_COUNTS": counts,
                       "LD_LIBRARY_PATH": os.path.dirname(paths.record_calls) + ":" +
                       os.environ.get("LD_LIBRARY_PATH", "")})
    for variable, value in (("NCCL_PROFILER_PLUGIN", "user6"), ("NCCL_CONF_FILE", configuration)):
        for name in os.listdir(paths.directory):
            if name.startswith("user_plugin."):
                os.unlink(os.path.join(paths.directory, name))
        os.environ[variable] = value
        _, report = watch(paths, steps=60)
        del os.environ[variable]
        check(source(report, "device.time")["state"] == "on", "all calls have device times")
        check_user_plugin(paths.directory)


def check_user_plugin(directory):
    """What the plug-in wrote: each rank loaded it, and was told everything, in order."""
    told = []
    for name in os.listdir(directory):
        if name.startswith("user_plugin."):
            with open(os.path.join(directory, name), encoding="utf-8") as file:
                told.append(json.load(file))
    check(len(told) == RANKS, f"{len(told)} ranks loaded it")
    for one in told:
        check(one["wrong"] == 0 and one["begun"] == one["ended"] > 0, f"the user's plug-in: {one}")
        check(one["tasks"] >= 60 * JOB["collectives"] and one["channels"] >= one["tasks"],
              f"the user's plug-in: {one}")


def baseline(paths):
    """--deep on: each rank is looked at once, early."""
    _, report = watch(paths, run_options=["--deep", "on"], steps=280)
    check(not report["verdicts"], f"verdicts: {report['verdicts']}")
    check(len([r for r in report["ranks"] if "look" in r]) == RANKS, "each rank was looked at")


def refused(paths):
    """The program profiles itself: we give way, and say so."""
    _, report = watch(paths, faults=[FAULT % (SLOW, "compute")], profiler=True)
    verdict = check_verdict(report, "unknown")
    why = [r["why"] for r in verdict["rejected"] if r["kind"] == "longer-kernels"]
    check(len(why) == 1 and "another profiler" in why[0], f"rejected: {verdict['rejected']}")
    kernels = source(report, "device.kernels")
    check(kernels["state"] in ("degraded", "not measurable") and
          "another profiler" in kernels["why"], f"the coverage: {kernels}")


def launch_bound(paths):
    """The host launches so much that CUPTI would slow it down for good: no look, and why not."""
    _, report = watch(paths, faults=[FAULT % (SLOW, "compute")], launches=LAUNCHES)
    verdict = check_verdict(report, "unknown")
    why = [r["why"] for r in verdict["rejected"] if r["kind"] == "longer-kernels"]
    check(len(why) == 1 and "launches a second: CUPTI would" in why[0],
          f"rejected: {verdict['rejected']}")
    kernels = source(report, "device.kernels")
    check(kernels["state"] == "degraded" and "launches a second" in kernels["why"],
          f"the coverage: {kernels}")
    check(not [r for r in report["ranks"] if "look" in r], "nobody was looked at")
    rate = int(why[0].split(" launches a second")[0].split()[-1])
    check(25000 < rate < 1.1 * LAUNCHES / (JOB["step_ms"] / 1e3), f"{rate} launches a second")


def switched_off(paths):
    """--deep off: no look, and the coverage says why."""
    _, report = watch(paths, run_options=["--deep", "off"], faults=[FAULT % (SLOW, "compute")],
                      steps=240)
    check_verdict(report, "unknown")
    check(source(report, "device.kernels")["state"] == "off", "said in the coverage")


def memory(paths):
    """The probe of four ranks with 64 calls a step stays small; steps do not add to it."""
    _, report = watch(paths, steps=300, step_ms=5, collectives=64)
    coverage = report["coverage"]
    mib = coverage["probe_resident_bytes"] / 2 ** 20
    print(f"{mib:.1f} MiB")
    check(mib < 30, f"{mib:.1f} MiB at its peak")
    check(coverage["dropped"] == 0, f"{coverage['dropped']} dropped")


CASES = {"longer": longer, "more": more, "healthy": healthy, "drift": drift, "soak": soak, "asked": asked, "all_to_all": all_to_all,
         "all_to_all_apart": all_to_all_apart,
         "pipeline": pipeline, "pipeline_asleep": pipeline_asleep, "with_user_plugin": with_user_plugin, "baseline": baseline,
         "refused": refused, "launch_bound": launch_bound,
         "switched_off": switched_off, "memory": memory}

if __name__ == "__main__":
    harness.main(CASES)
