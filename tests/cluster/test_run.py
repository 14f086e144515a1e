#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What slowrank promises about the job: it runs the same, watched or not, whatever happens."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import jobs  # noqa: E402
from harness import check  # noqa: E402

# A throttled rank, long enough for an alert, in about 5 s.
THROTTLED = {"steps": 200, "step_ms": 20, "compute_ms": 1.5,
             "faults": ["rank=2 kind=throttle first=80 last=179 size=60"]}
HOLD_STEP = 20  # before it a held job waits for whoever attaches


def fresh(directory, *names):
    paths = [os.path.join(directory, name) for name in names]
    for path in paths:
        if os.path.exists(path):
            os.unlink(path)
    return paths


def read_report(paths, record):
    return json.loads(jobs.whole_report(paths.slowrank, record).stdout)


def check_throttled(report, rank_count=4):
    """The verdict that all ways to start slowrank must give for THROTTLED."""
    check(report["job"]["ranks"] == rank_count, f"{report['job']['ranks']} ranks")
    said = [(v["class"], v["cause"], v["ranks"]) for v in report["verdicts"]]
    check(said == [("host-slow", "cgroup-throttle", [2])], f"verdicts: {said}")


def need_throttle():
    if not jobs.can_throttle():
        harness.skip("no cgroup with the cpu controller")


def recorded_ranks(paths, record):
    """How many ranks a record holds that is still being written."""
    done = subprocess.run([paths.slowrank, "report", record, "--format", "json"],
                          capture_output=True, text=True, timeout=60, check=False)
    return json.loads(done.stdout)["job"]["ranks"] if done.stdout else 0


def kill9(paths):
    """kill -9 of slowrank leaves the job running to its end."""
    truth_path = jobs.fresh_directory(paths.directory)
    record, = fresh(paths.directory, "record.slr")
    hold = jobs.Hold(paths.directory)
    command = [*jobs.mpirun(4), *jobs.workload_command(paths.workload, truth_path, steps=250,
                                                       step_ms=20), *hold.options]
    process = subprocess.Popen([paths.slowrank, "run", "--record", record, "--", *command],
                               stdin=subprocess.DEVNULL, start_new_session=True)
    hold.wait(4, process)
    jobs.wait_until(lambda: recorded_ranks(paths, record) == 4, "the ranks are recorded", process)
    process.kill()
    process.wait()
    hold.end()
    # The job is nobody's child now: the truth log says when it is at its end.
    deadline = time.monotonic() + 40
    ends = []
    while len(ends) < 4 and time.monotonic() < deadline:
        time.sleep(0.2)
        ends = jobs.Truth(truth_path).ends if os.path.exists(truth_path) else []
    check(sorted(end["rank"] for end in ends) == [0, 1, 2, 3] and
          {end["steps"] for end in ends} == {250}, f"the job did not run to its end: {ends}")
    # The probe is not that process: it has watched to the end.
    report = read_report(paths, record)
    check(report["job"]["ranks"] == 4 and report["job"]["steps"] > 200, f"recorded: {report['job']}")


def status(paths):
    """Exit status and signals pass through."""
    record = os.path.join(paths.directory, "record.slr")

    def run(*command, **options):
        return subprocess.run([paths.slowrank, "run", "--record", record, "--", *command],
                              stdin=subprocess.DEVNULL, timeout=60, check=False, **options)

    check(run("sh", "-c", "exit 7").returncode == 7, "exit 7")
    check(run("true").returncode == 0, "exit 0")
    by_signal = run("sh", "-c", "kill -TERM $$").returncode
    check(by_signal in (-signal.SIGTERM, 128 + signal.SIGTERM), f"ended by SIGTERM: {by_signal}")
    missing = run("/nonexistent/program", capture_output=True, text=True)
    check(missing.returncode == 127, f"a missing program: {missing.returncode}")
    check("/nonexistent/program" in missing.stderr, f"it is named: {missing.stderr!r}")
    deaf = subprocess.run(["sh", "-c", "trap '' CHLD; exec \"$@\"", "sh", paths.slowrank, "run",
                           "--record", record, "--", "sh", "-c", "exit 7"], check=False,
                          stdin=subprocess.DEVNULL, timeout=60)
    check(deaf.returncode == 7, f"exit 7 where SIGCHLD is ignored: {deaf.returncode}")
    job = run(*jobs.mpirun(2), paths.workload, "--steps", "20", "--exit-status", "9",
              capture_output=True)
    check(job.returncode == 9, f"mpirun's status: {job.returncode}")
    output = run("sh", "-c", "echo out; echo err >&2", capture_output=True, text=True)
    check(output.stdout == "out\n", f"stdout is the command's alone: {output.stdout!r}")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        name = number.name[3:]
        process = subprocess.Popen(
            [paths.slowrank, "run", "--record", record, "--", "sh", "-c",
             f"trap 'exit 33' {name}; echo ready; while :; do sleep 0.05; done"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        process.stdout.readline()
        process.send_signal(number)
        check(process.wait(timeout=20) == 33, f"SIG{name} reaches the command")


def run_throttled(paths):
    need_throttle()
    live_path, = fresh(paths.directory, "live.json")
    _, run = jobs.run_workload_watched(paths.slowrank, paths.workload, paths.directory, 4,
                                       run_options=["--report", live_path], **THROTTLED)
    replayed = run.report(paths.slowrank)
    check_throttled(replayed)
    with open(live_path, encoding="utf-8") as file:
        check(json.load(file) == replayed, "the live report and the replayed one differ")
    live = [alert for alert in run.alerts() if alert["event"] == "alert"]
    check([a["verdict"]["ranks"] for a in live] == [[2]], f"live alerts: {live}")
    for key in ("id", "class", "cause", "ranks", "first_step", "onset_unix_ns", "alert_unix_ns"):
        check(live[0]["verdict"][key] == replayed["verdicts"][0][key], f"{key} differs live")


def attach_and_end(paths, launcher, command, *options, ranks=4):
    """Attaches to ranks that run; both end well."""
    ends = jobs.attach_to_running(paths.slowrank, paths.directory, launcher, command, ranks, options)
    check(ends[0] == 0, f"the job ends well: {ends[0]}")
    check(ends[1] == 0, f"attach ends with the job: {ends[1]}")


def attach(paths):
    """A job that runs already, on a duplicate of the world that it made before: the same verdict."""
    need_throttle()
    truth_path = jobs.fresh_directory(paths.directory)
    record, alerts = fresh(paths.directory, "record.slr", "alerts.jsonl")
    attach_and_end(paths, jobs.mpirun(4),
                   jobs.workload_command(paths.workload, truth_path, duplicate=True, **THROTTLED),
                   "--record", record, "--alerts", alerts)
    check_throttled(read_report(paths, record))


def with_device_libraries(paths):
    """A launcher that has a GPU's libraries itself, as torchrun's agent has."""
    code = ("import ctypes, subprocess, sys; ctypes.CDLL(sys.argv[1]); "
            "sys.exit(subprocess.call(sys.argv[2:]))")
    stand_ins = os.path.join(os.path.dirname(paths.slowrank), "stand_in")
    return [sys.executable, "-c", code, os.path.join(stand_ins, "libcuda.so.1")]


def attach_deep(paths):
    """A GPU job that runs already, the library loaded into its ranks, not into launcher and helpers: rank
    and class by device times, though it launches so much that CUPTI would slow it down."""
    truth_path = jobs.fresh_directory(paths.directory)
    (record,) = fresh(paths.directory, "record.slr")
    fault = "rank=2 kind=compute first=90 last=160 size=80"
    attach_and_end(paths, [*with_device_libraries(paths), *jobs.mpirun(4)],
                   jobs.workload_command(paths.workload_nccl, truth_path, steps=190, step_ms=100,
                                         faults=[fault], launches=3500, helper=True),
                   "--deep", "--yes", "--record", record)
    check(len(jobs.Truth(truth_path).ends) == 4, "every rank ran to its end")
    report = read_report(paths, record)
    sources = {source["name"]: source for source in report["coverage"]["sources"]}
    print(sources.get("device.attach"), sources.get("device.time"))
    check(sources["device.attach"]["state"] == "on", "the library was loaded into all ranks")
    check("attach --deep: 4 ranks" in sources["device.attach"]["why"],
          "the record says what was touched")
    check(report["job"]["ranks"] == 4, f"{report['job']['ranks']} ranks")
    check(sources["device.time"]["state"] == "on", "collectives have device times")
    named = {(verdict["class"], *verdict["ranks"]) for verdict in report["verdicts"]}
    check(named == {("compute-slow", 2)}, f"verdicts: {report['verdicts']}")


def attach_pipeline(paths, ranks, *options, **job):
    """Attaches to a pipeline that runs already, which sends and receives and nothing else."""
    truth_path = jobs.fresh_directory(paths.directory)
    (record,) = fresh(paths.directory, "record.slr")
    attach_and_end(paths, jobs.mpirun(ranks), jobs.workload_command(
        paths.workload_nccl, truth_path, step_ms=30, collectives=8, pipeline=True, **job),
                   *options, "--record", record, ranks=ranks)
    steps = len(jobs.Truth(truth_path).steps) - HOLD_STEP
    report = read_report(paths, record)
    sources = {source["name"]: source for source in report["coverage"]["sources"]}
    print(sources.get("device.attach"), sources["device.time"], report["verdicts"])
    check(report["job"]["ranks"] == ranks, f"{report['job']['ranks']} ranks")
    check(abs(report["job"]["steps"] - steps) <= 0.02 * steps, f"{report['job']['steps']} steps")
    return report, sources


def attach_pipeline_deep(paths):
    """Its messages have device times and are joined, though each rank counts them from the attach: a stage whose
    host is slow is named."""
    report, sources = attach_pipeline(paths, 2, "--deep", "--yes", steps=210,
                                      faults=["rank=0 kind=minor first=120 last=209 size=200"])
    check("attach --deep: 2 ranks" in sources["device.attach"]["why"], "it was loaded")
    check(sources["device.time"]["state"] == "on", "messages have device times")
    apart = report["coverage"]["steps_incomplete"]
    check(apart <= 60, f"{apart} steps are not joined")
    named = [(verdict["class"], verdict["ranks"]) for verdict in report["verdicts"]]
    check(named == [("host-slow", [0])], f"verdicts: {named}")


def attach_pipeline_host(paths):
    """From outside alone: its ranks and steps are seen, and the coverage says what is missing."""
    report, sources = attach_pipeline(paths, 4, steps=120)
    check(sources["device.time"]["state"] == "not measurable", "no message has device times")
    check(not report["verdicts"], f"verdicts: {report['verdicts']}")


def attach_by_host_times(paths, **options):
    """Attaches to a running GPU job, from the outside only; returns the report."""
    truth_path = jobs.fresh_directory(paths.directory)
    (record,) = fresh(paths.directory, "record.slr")
    attach_and_end(paths, jobs.mpirun(4), jobs.workload_command(
        paths.workload_nccl, truth_path,
        **{"steps": 420, "step_ms": 40, "compute_ms": 1, "collectives": 3, **options}),
                   "--record", record)
    report = read_report(paths, record)
    sources = {source["name"]: source for source in report["coverage"]["sources"]}
    print(sources.get("bpf.launches"), sources.get("device.time"), report["verdicts"])
    if "expensive" in sources["bpf.launches"]["why"]:
        harness.skip("this compiler's functions begin with what is expensive to probe")
    check(sources["bpf.launches"]["state"] == "on", "launches were counted")
    check(sources["device.time"]["state"] == "not measurable", "device times were not")
    check(report["job"]["ranks"] == 4, f"{report['job']['ranks']} ranks")
    return report


def attach_late_host(paths):
    """Its device idles while it waits for input: host-slow, by launch silence."""
    report = attach_by_host_times(paths, faults=["rank=2 kind=input first=150 last=419 size=60"])
    named = [(verdict["class"], verdict["ranks"]) for verdict in report["verdicts"]]
    check(named == [("host-slow", [2])], f"verdicts: {report['verdicts']}")
    kinds = [evidence["kind"] for evidence in report["verdicts"][0]["evidence"]]
    check("launch-gaps" in kinds, f"the silence is evidence: {kinds}")


def attach_slow_device(paths):
    """Its host waits for its device before it can call: compute-slow."""
    report = attach_by_host_times(paths, read_loss=True,
                                  faults=["rank=2 kind=compute first=150 last=419 size=80"])
    named = [(verdict["class"], verdict["ranks"]) for verdict in report["verdicts"]]
    check(named == [("compute-slow", [2])], f"verdicts: {report['verdicts']}")


def attach_unseen_device(paths):
    """Healthy at first, then a slow device without a wait before the collectives: all hosts wait
    alike, and nobody is named at any time."""
    report = attach_by_host_times(
        paths, steps=320, faults=["rank=2 kind=compute first=150 last=319 size=80"])
    check(not report["verdicts"], f"verdicts: {report['verdicts']}")


def attach_dear(paths):
    """A job whose collectives events cannot time, and that being shown its kernels slows down by half:
    that ends soon, and is said."""
    truth_path = jobs.fresh_directory(paths.directory)
    (record,) = fresh(paths.directory, "record.slr")
    job = subprocess.Popen(
        [*jobs.mpirun(4), *jobs.workload_command(paths.workload_nccl, truth_path, steps=400,
                                                 step_ms=50, by_pointer=True)],
        stdin=subprocess.DEVNULL, env=dict(os.environ, SLOWRANK_STAND_IN_CUPTI_COST_US="5000"))
    time.sleep(2)
    watcher = subprocess.Popen(
        [paths.slowrank, "attach", "--deep", "--yes", "--record", record, "--pid", str(job.pid)],
        stdin=subprocess.DEVNULL)
    check(job.wait(timeout=150) == 0, "the job ends well")
    check(watcher.wait(timeout=30) == 0, "attach ends with the job")
    report = read_report(paths, record)
    sources = {source["name"]: source for source in report["coverage"]["sources"]}
    print(sources["device.time"])
    check(sources["device.time"]["state"] != "on" and
          "switched off" in sources["device.time"]["why"], "it was switched off")
    check(not report["verdicts"], f"verdicts: {report['verdicts']}")


def per_rank(paths):
    """One slowrank per rank: the same verdict."""
    need_throttle()
    truth_path = jobs.fresh_directory(paths.directory)
    record, alerts = fresh(paths.directory, "record.slr", "alerts.jsonl")
    done = subprocess.run(
        [*jobs.mpirun(4), paths.slowrank, "run", "--record", record, "--alerts", alerts, "--",
         *jobs.workload_command(paths.workload, truth_path, **THROTTLED)],
        stdin=subprocess.DEVNULL, timeout=120, check=False)
    check(done.returncode == 0, f"exit {done.returncode}")
    check_throttled(read_report(paths, record))


def nccl(paths):
    """The NCCL build: enqueue times only, which the coverage says, and no verdict from them."""
    truth, run = jobs.run_workload_watched(paths.slowrank, paths.workload_nccl, paths.directory, 4,
                                           steps=400, step_ms=10)
    report = run.report(paths.slowrank)
    check(report["job"]["ranks"] == 4, f"{report['job']['ranks']} ranks")
    check(not report["verdicts"], f"verdicts: {report['verdicts']}")
    steps = report["job"]["steps"]
    check(abs(steps - len(truth.steps)) <= 0.01 * len(truth.steps), f"{steps} steps")
    said = json.dumps(report["coverage"])
    check("enqueue" in said, f"the coverage says that only enqueue times are seen: {said}")


def unprivileged(paths):
    """Without rights: one line that says what is missing and how to grant it; the job runs."""
    record, truth_path = fresh(paths.directory, "record.slr", "truth.jsonl")
    os.chmod(paths.directory, 0o777)
    as_nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    for path in (paths.slowrank, paths.workload):
        reach = subprocess.run([*as_nobody, "test", "-x", path], check=False)
        if reach.returncode != 0:
            harness.skip(f"user 65534 cannot reach {path}")
    done = subprocess.run(
        [*as_nobody, paths.slowrank, "run", "--record", record, "--", *jobs.mpirun(2),
         *jobs.workload_command(paths.workload, truth_path, steps=60, exit_status=5)],
        cwd=paths.directory, env=dict(os.environ, HOME=paths.directory, TMPDIR=paths.directory),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    print(done.stderr)
    check(done.returncode == 5, f"the job's status: {done.returncode}")
    check(len(jobs.Truth(truth_path).ends) == 2, "the job ran to its end")
    lines = [line for line in done.stderr.splitlines()
             if re.search(r"CAP_BPF|setcap|sudo|root", line) and "mpirun" not in line]
    check(len(lines) == 1, f"one line that says how to grant it: {lines}")


def irregular(schedule):
    """True steps on schedules with warm-up, evaluation, accumulation, changes: within 1 %."""
    def case(paths):
        truth, run = jobs.run_workload_watched(
            paths.slowrank, paths.workload, paths.directory, 2, steps=300, step_ms=8,
            compute_ms=0.3, schedule=schedule)
        report = run.report(paths.slowrank)
        steps, true = report["job"]["steps"], len(truth.steps)
        print(f"{schedule}: {steps} steps, true {true}, other passes {len(truth.others)}")
        nearest = min(max(steps, true), true + len(truth.others))
        check(abs(steps - nearest) <= 0.01 * true, f"{schedule}: {steps} steps instead of {true}")
    return case


def garbage(paths):
    """A rank in Python whose collector holds the others up; one call a step."""
    python, job = "/usr/bin/python3", os.path.join(os.path.dirname(__file__), "garbage_job.py")
    if not os.path.exists(python):
        harness.skip("no Python of the distribution")
    with open(os.path.realpath(python), "rb") as file:
        if b"gc__start" not in file.read():
            harness.skip("this Python was built without static probes")
    run = jobs.run_watched(paths.slowrank, paths.directory,
                           [*jobs.mpirun(4), python, job, "450", "2", "150", "330",
                            os.path.join(paths.directory, "truth.json")])
    check(run.status == 0, f"the job: {run.status}\n{run.tail()}")
    report = run.report(paths.slowrank)
    check(abs(report["job"]["steps"] - 450) <= 4, f"{report['job']['steps']} steps")
    said = [(v["class"], v["cause"], v["ranks"]) for v in report["verdicts"]]
    check(said == [("host-slow", "garbage-collection", [2])], f"verdicts: {said}")


def bundles(paths):
    """Two carried programs in two folders, each with its own C library, started all the time at once."""
    if not shutil.which("patchelf"):
        harness.skip("no patchelf")
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    folders = [os.path.join(paths.directory, name) for name in ("one", "two")]
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(["sh", "-c", 'umask 077; exec "$0" "$1"', os.path.join(root, "scripts", "bundle.sh"), folders[0]],
                   check=True, env=dict(os.environ, BUILD=os.path.dirname(paths.slowrank)))
    shutil.copytree(folders[0], folders[1])
    loops = [subprocess.Popen(
        ["sh", "-c", 'for i in $(seq 40); do "$0/slowrank-own-libc" --version || exit 9; done; '
         '"$0/slowrank-own-libc" run --record "$0/record.slr" -- sh -c "exit 7"', folder],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) for folder in folders]
    check([loop.wait(timeout=100) for loop in loops] == [7, 7], "both run")
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    for folder in folders:
        jobs.whole_report(paths.slowrank, os.path.join(folder, "record.slr"))
        program = os.path.join(folder, "slowrank-own-libc")
        if subprocess.run([*nobody, "test", "-d", paths.directory], check=False).returncode:
            harness.skip(f"user 65534 cannot reach {paths.directory}; the rest is good")
        done = subprocess.run([*nobody, program, "--version"], check=False)
        check(done.returncode == 0, f"{folder}, by an ordinary user: exit {done.returncode}")
    for folder in folders:
        shutil.rmtree(folder)


def thinned(paths):
    """A record that reaches its limit keeps to it, and tells the same as the coordinator did live."""
    need_throttle()
    record, live = fresh(paths.directory, "thinned.slr", "thinned.json")
    jobs.run_workload(paths.workload, paths.directory, 4,
                      prefix=[paths.slowrank, "run", "--record", record, "--record-max", "1M", "--report", live, "--"],
                      steps=800, step_ms=15, compute_ms=1.5, collectives=60,
                      faults=["rank=2 kind=throttle first=150 last=300 size=60"])
    report = read_report(paths, record)
    with open(live, encoding="utf-8") as file:
        told = json.load(file)
    check(os.path.getsize(record) <= 1 << 20, f"{os.path.getsize(record)} bytes")
    check(not os.path.exists(record + ".thinned"), "the file beside it is left")
    stretches = report["coverage"].pop("sums_alone", [])
    check(stretches and sum(stretch["frames"] for stretch in stretches) < report["coverage"]["frames"],
          f"sums of {stretches}")
    check([2] in [verdict["ranks"] for verdict in told["verdicts"]], f"told: {told['verdicts']}")
    for part in ("verdicts", "summary", "job", "without"):
        check(report[part] == told[part], f"{part}: {report[part]}, live {told[part]}")
    for one, other in zip(report["ranks"], told["ranks"]):
        check(one["steps"] == other["steps"] and one["step_ms"] == other["step_ms"], f"{one}, live {other}")


def thinned_killed(paths):
    """The coordinator of a thinned record is killed: the next one goes on with what is told in it."""
    need_throttle()
    truth_path = jobs.fresh_directory(paths.directory)
    record, = fresh(paths.directory, "killed.slr")
    command = [*jobs.mpirun(4), *jobs.workload_command(
        paths.workload, truth_path, steps=900, step_ms=15, compute_ms=1.5, collectives=60,
        faults=["rank=2 kind=throttle first=60 last=160 size=60"])]
    run = subprocess.Popen([paths.slowrank, "run", "--record", record, "--record-max", "1M", "--quiet", "--", *command],
                           stdin=subprocess.DEVNULL)

    def is_thinned():
        time.sleep(0.5)
        done = subprocess.run([paths.slowrank, "report", record, "--format", "json"], capture_output=True, text=True, check=False)
        return done.stdout and "sums_alone" in json.loads(done.stdout)["coverage"]

    jobs.wait_until(is_thinned, "the record is thinned", run, seconds=120)
    os.kill(jobs.coordinators(run.pid)[0], signal.SIGKILL)
    check(run.wait(timeout=120) == 0, f"exit {run.returncode}")
    report = read_report(paths, record)
    steps = len(jobs.Truth(truth_path).steps)
    check(abs(report["job"]["steps"] - steps) <= steps * 0.05, f"{report['job']['steps']} steps of {steps}")
    check(report["job"]["ranks"] == 4, f"{report['job']}")
    check([verdict["id"] for verdict in report["verdicts"]] == list(range(1, len(report["verdicts"]) + 1)), "ids")
    check(("cgroup-throttle", [2]) in [(verdict["cause"], verdict["ranks"]) for verdict in report["verdicts"]],
          f"verdicts: {report['verdicts']}")
    check(os.path.getsize(record) <= 1 << 20, f"{os.path.getsize(record)} bytes")


CASES = {"bundles": bundles, "thinned": thinned, "thinned_killed": thinned_killed, "garbage": garbage, "kill9": kill9, "status": status, "throttled": run_throttled, "attach": attach,
         "attach_deep": attach_deep, "attach_pipeline_deep": attach_pipeline_deep,
         "attach_pipeline_host": attach_pipeline_host, "attach_dear": attach_dear, "attach_late_host": attach_late_host,
         "attach_slow_device": attach_slow_device, "attach_unseen_device": attach_unseen_device,
         "per_rank": per_rank, "nccl": nccl, "unprivileged": unprivileged,
         **{f"irregular_{schedule}": irregular(schedule)
            for schedule in ("accumulate", "eval", "changing", "nested", "irregular")}}

if __name__ == "__main__":
    harness.main(CASES)
