#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MPI programs that Debian has, watched by slowrank: healthy, with faults made from outside, and attached to.

    bench/debian_programs.py --build build --out OUT                   all that are installed, in all modes
    bench/debian_programs.py --only lammps,gromacs --modes faults
    bench/debian_programs.py --score --out OUT                         scores what is in OUT again
    bench/debian_programs.py --packages                                what to install

debian_programs/programs.json has the programs: packages, launcher (Open MPI's where it has none), ranks (2), what is run
before, the command, and `step`, which the lines match that the program writes as it goes on; its group is the step's
number, in units of `steps_each` steps. Without a group each such line is a step; null: the program has none.

Modes: `healthy`; `faults`: three windows of 6 s (SIGSTOP for 60 of each 80 ms, a quota of a quarter of a core, the rank
on one core with two busy loops); `attach`: the same, by `slowrank attach` to the running job. The truth is what the
program wrote, by when it was read, when faults began and ended, how long each rank waited for a CPU (schedstat), and how
many minor page faults it had: a rank that was kept from running for a fifth of a second was disturbed, and no verdict on it
that begins then is false; nor is one that it had minor faults, where it had more than another rank, which cost 3 % of the
time, each what one costs here that is made for it.

OUT/NAME-MODE has record, alerts, truth and log of each job; OUT/results.jsonl and OUT/table.md say how they score.
Exit 0: no false verdict and no job that failed; 1: not so; 77: cannot run here. Needs root; nice -n -10 helps.
"""
import argparse
import contextlib
import glob
import importlib.util
import json
import mmap
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "bench"), os.path.join(ROOT, "tests", "gpu"),
                *(os.path.join(ROOT, "tests", part) for part in ("cluster", "corpus"))]
import add  # noqa: E402
import harness  # noqa: E402
import jobs  # noqa: E402
import rules  # noqa: E402
from injector import Client  # noqa: E402

SPEC = importlib.util.spec_from_file_location(
    "programs", os.path.join(ROOT, "tests", "gpu", "programs", "run.py"))
programs = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(programs)

DATA = os.path.join(ROOT, "bench", "debian_programs")
MODES = ("healthy", "faults", "attach")
KINDS = ("sleep", "cgroup-throttle", "cpu-hog")  # of rules.EXPECTED
RANK_OF = (b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK=")
START_S, END_S = 90, 20
WARM_S, WARM_STEPS, WARM_MAX_S = 8.0, 60, 20.0
WINDOW_S, GAP_S, HEALTHY_S = 6.0, 5.0, 25.0
SAMPLE_S, STARVED_S, STARVED_SHARE, FAULTS_SHARE = 0.25, 1.0, 0.2, 0.03
COLUMNS = ("named", "class", "slow-down", "in time", "cause")


def read_programs():
    with open(os.path.join(DATA, "programs.json"), encoding="utf-8") as file:
        return json.load(file)


def is_installed(package):
    done = subprocess.run(["dpkg-query", "-W", "-f=${db:Status-Status}", package], capture_output=True,
                          text=True, check=False)
    return done.stdout == "installed"


def rank_of(pid):
    """Of a process that an MPI launcher started; None of any other, and of what such a process starts."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            for word in file.read().split(b"\0"):
                for name in RANK_OF:
                    if word.startswith(name):
                        return int(word[len(name):])
    except (OSError, ValueError):
        pass
    return None


def find_ranks(pid):
    """rank -> pid, of the job below a process."""
    found = {}
    for below in jobs.descendants(pid):
        rank = rank_of(below)
        if rank is not None:
            found.setdefault(rank, below)
    return found


def waited_ns(pid):
    """How long the threads of a process waited for a CPU."""
    waited = 0
    with contextlib.suppress(OSError):
        for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
            with open(path, encoding="ascii") as file:
                waited = max(waited, int(file.read().split()[1]))
    return waited


def minor_faults(pid):
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[7])
    return 0


def cost_of_fault_s(pages=16384):
    """Of a page that is touched for the first time, the least of several tries."""
    tries = []
    for _ in range(5):
        with mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            begun = time.monotonic()
            memory[::mmap.PAGESIZE] = bytes(pages)
            tries.append((time.monotonic() - begun) / pages)
    return min(tries)


def open_mpi(ranks):
    """Ranks with a core each poll, as Open MPI's defaults are; the others give way while they wait."""
    command = jobs.mpirun(ranks)
    if ranks <= (os.cpu_count() or 1):
        command[command.index("mpi_yield_when_idle") + 1] = "0"
    return command


class Ticks:
    """The lines that a program writes, and when; a thread."""

    def __init__(self, stream, path, step, steps_each):
        self.stream, self.path = stream, path
        self.step, self.steps_each = step and re.compile(step), steps_each
        self.seen, self.lines = [], 0  # (when, number of the step)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        rest = b""
        with open(self.path, "wb") as log:
            while True:
                chunk = os.read(self.stream.fileno(), 65536)
                now = time.time()
                if not chunk:
                    return
                log.write(chunk)
                log.flush()
                *lines, rest = re.split(rb"[\r\n]+", rest + chunk)
                for line in lines:
                    self.take(now, line.decode(errors="replace"))

    def take(self, now, line):
        self.lines += 1
        found = self.step and self.step.search(line)
        if found:
            number = float(found.group(1)) * self.steps_each if self.step.groups == 1 else len(self.seen)
            if not self.seen or number > self.seen[-1][1]:
                self.seen.append((now, number))

    def count(self):
        return self.seen[-1][1] - self.seen[0][1] if self.seen else 0

    def begins(self):
        """When each step began: between two lines they are taken to be equally long."""
        found = []
        for (at, number), (then, following) in zip(self.seen, self.seen[1:]):
            steps = round(following - number)
            found += [at + (then - at) * i / steps for i in range(steps)]
        return found + [at for at, _ in self.seen[-1:]]


class Accounts:
    """How long each rank waited for a CPU, and what its minor faults cost, ns, sampled; a thread."""

    def __init__(self, pids):
        self.pids, self.waits, self.faults, self.ended = pids, [], [], threading.Event()
        self.fault_ns = 1e9 * cost_of_fault_s()
        self.thread = threading.Thread(target=self.sample, daemon=True)
        self.thread.start()

    def sample(self):
        while not self.ended.wait(SAMPLE_S):
            self.waits.append((time.time(), {rank: waited_ns(pid) for rank, pid in self.pids.items()}))
            self.faults.append((time.time(), {rank: self.fault_ns * minor_faults(pid) for rank, pid in self.pids.items()}))

    def end(self):
        self.ended.set()
        self.thread.join()


def within(begins, begin_s, end_s):
    """The steps of a stretch of time, as rules.py wants them."""
    window = programs.truth_of({0: {"steps": begins, "passes": 0, "saves": []}},
                               [{"kind": "", "rank": 0, "begin_s": begin_s, "end_s": end_s, "why": ""}], "")["windows"][0]
    return {"first": window["first"], "last": window["last"]}


def spans_above(samples, begins, share, beside, **told):
    """The disturbed spans of a truth: stretches in which a rank's account grew by that share of the time; beside: than the
    account of the rank that had the least. samples: of Accounts."""
    spans, width = [], round(STARVED_S / SAMPLE_S)
    for rank in samples[0][1]:
        merged = []
        for i, ((begin, before), (end, after)) in enumerate(zip(samples, samples[width:])):
            grown = {other: after[other] - before[other] for other in after}
            if (grown[rank] - beside * min(grown.values())) / 1e9 < share * (end - begin):
                continue
            if merged and merged[-1][1] >= begin:
                merged[-1][1] = end
            else:
                merged.append([begin if i else begins[0], end])  # what is so at first was so before
        spans += [{**within(begins, *span), "ranks": [int(rank)], **told} for span in merged]
    return spans


class Job:
    """One program in one mode."""

    def __init__(self, arguments, name, told, mode):
        self.name, self.mode, self.told = name, mode, told
        self.ranks = told.get("ranks", 2)
        self.slowrank = os.path.join(os.path.abspath(arguments.build), "slowrank")
        self.kept = os.path.join(os.path.abspath(arguments.out), f"{name}-{mode}")
        self.work = os.path.join(self.kept, "work")
        shutil.rmtree(self.kept, ignore_errors=True)
        os.makedirs(self.work)
        for file in os.listdir(DATA):
            shutil.copy(os.path.join(DATA, file), self.work)
        self.environment = dict(os.environ, DATA=DATA, OMP_NUM_THREADS="1", GFORTRAN_UNBUFFERED_PRECONNECTED="y",
                                CP2K_DATA_DIR="/usr/share/cp2k")
        self.process = self.watcher = self.ticks = self.accounts = None
        self.pids, self.faults = {}, []

    def path(self, name):
        return os.path.join(self.kept, name)

    def prepare(self):
        for command in self.told.get("prepare", ()):
            done = subprocess.run(command, shell=True, cwd=self.work, env=self.environment, text=True, check=False,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if done.returncode:
                raise RuntimeError(f"{command}: exit {done.returncode}: {done.stdout[-1000:]}")

    def watch(self, verb):
        return [self.slowrank, verb, "--record", self.path("record.slr"), "--alerts", self.path("alerts.jsonl"),
                *(["--"] if verb == "run" else [])]

    def start(self):
        launcher = jobs.mpich if self.told.get("launcher") == "mpich" else open_mpi
        self.process = subprocess.Popen(
            [*(() if self.mode == "attach" else self.watch("run")), *launcher(self.ranks), *self.told["command"].split()],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.work,
            env=self.environment, start_new_session=True)
        self.ticks = Ticks(self.process.stdout, self.path("log.txt"), self.told["step"], self.told.get("steps_each", 1))

    def wait(self, done, seconds, what):
        try:
            jobs.wait_until(done, what, self.process, seconds)
        except RuntimeError as error:
            raise RuntimeError(f"{error}: exit {self.process.poll()}: {self.tail()}") from error

    def warm(self):
        """Until it has run for a while, watched."""
        self.wait(lambda: len(find_ranks(self.process.pid)) == self.ranks, START_S, "the ranks start")
        self.wait(lambda: len(self.ticks.seen) > 2 if self.told["step"] else self.ticks.lines > 2, START_S, "it begins to work")
        self.pids = find_ranks(self.process.pid)
        self.accounts = Accounts(self.pids)
        if self.mode == "attach":
            with open(self.path("attach.txt"), "w", encoding="utf-8") as log:
                self.watcher = subprocess.Popen([*self.watch("attach"), "--pid", str(self.process.pid)],
                                                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        begun, steps = time.monotonic(), self.ticks.count()

        def is_warm():
            passed = time.monotonic() - begun
            return passed > WARM_MAX_S or passed > WARM_S and self.ticks.count() > steps + WARM_STEPS
        self.wait(is_warm, 2 * WARM_MAX_S, "it works on")

    def make_faults(self, client):
        if self.mode == "healthy" or not self.told["step"]:
            end = time.monotonic() + HEALTHY_S
            while time.monotonic() < end and self.process.poll() is None:
                time.sleep(0.1)
            return
        outside = programs.Outside(client, self.pids, sorted(os.sched_getaffinity(0)) * self.ranks)
        for kind, rank in programs.draw_faults(self.name, self.mode, 1, self.ranks, KINDS):
            self.faults.append(outside.make(kind, rank, WINDOW_S))
            time.sleep(GAP_S)

    def end(self):
        """By the signal that an operator sends. Returns when; a job may have ended before, by itself."""
        at = time.time()
        for process in (self.process, self.watcher):
            if process and process.poll() is None:
                if process is self.process:
                    process.send_signal(signal.SIGTERM)
                try:
                    process.wait(timeout=END_S)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        if self.ticks:
            self.ticks.thread.join(timeout=5)
        if self.accounts:
            self.accounts.end()
        return at

    def tail(self):
        with contextlib.suppress(OSError):
            with open(self.path("log.txt"), encoding="utf-8", errors="replace") as file:
                return file.read()[-1500:]
        return ""

    def truth(self, ended_s):
        begins = self.ticks.begins()
        how = "attach" if self.mode == "attach" else "run"
        if not self.told["step"]:
            begins = [self.accounts.waits[0][0], ended_s]
        ranks = {0: {"steps": begins, "passes": 0, "saves": []}}
        made = programs.truth_of(ranks, self.faults, f"{self.told['command'].split()[0]} of Debian, {self.ranks} ranks, {how}")
        made["disturbed"] = [
            *spans_above(self.accounts.waits, begins, STARVED_SHARE, False, why="waited for a CPU"),
            *spans_above(self.accounts.faults, begins, FAULTS_SHARE, True, why="had minor faults", causes=["minor-page-fault"])]
        made["ended_s"] = ended_s
        if not self.told["step"]:
            made["no_steps"] = True
        return made

    def run(self, client):
        error = ""
        try:
            self.prepare()
            self.start()
            self.warm()
            self.make_faults(client)
        except (RuntimeError, OSError) as problem:
            error = str(problem)
        ended_s = self.end()
        if self.accounts and self.accounts.waits:
            with open(self.path("truth.json"), "w", encoding="utf-8") as file:
                json.dump(self.truth(ended_s), file)
        with open(self.path("job.json"), "w", encoding="utf-8") as file:
            json.dump({"name": self.name, "mode": self.mode, "ranks": self.ranks, "error": error, "faults": self.faults}, file)
        shutil.rmtree(self.work, ignore_errors=True)
        return error


def score(slowrank, folder):
    """One line of results.jsonl."""
    with open(os.path.join(folder, "job.json"), encoding="utf-8") as file:
        result = json.load(file)
    record, truth_path, alerts_path = (os.path.join(folder, name) for name in ("record.slr", "truth.json", "alerts.jsonl"))
    if not os.path.exists(record) or not os.path.exists(truth_path):
        return dict(result, error=result["error"] or "there is no record, or no truth")
    with open(truth_path, encoding="utf-8") as file:
        truth = json.load(file)
    alerts = []
    with contextlib.suppress(FileNotFoundError), open(alerts_path, encoding="utf-8") as file:
        alerts = [json.loads(line) for line in file]
    report = json.loads(jobs.whole_report(slowrank, record).stdout)
    if result["mode"] == "attach":
        add.begin_with_the_record(truth, report)
    coverage, job = report["coverage"], report["job"]
    seconds = truth["ended_s"] - truth["step_begins_s"][0]
    result.update(score=rules.score(truth, report, alerts), joined=job["steps"] - coverage["steps_incomplete"],
                  lost=coverage["dropped"] + coverage["batches_lost"], ranks_seen=job["ranks"],
                  events_a_second=round(coverage["events"] / max(seconds, 1)), probe_cpu_percent=coverage["probe_cpu_percent"],
                  step_ms=report["summary"]["step_ms_median"])
    return result


def table(results):
    lines = ["| program | mode | steps, of true | joined | lost | events a second | probe, % of a core | windows | "
             + " | ".join(COLUMNS) + " | false | disturbed |", "| --- | --- |" + " ---: |" * 13]
    counts = dict.fromkeys(("windows", *COLUMNS, "false", "disturbed"), 0)
    for result in results:
        start = f"| {result['name']} | {result['mode']} |"
        if "score" not in result:
            lines.append(f"{start} failed: {(result['error'].splitlines() or ['?'])[0][:80]} |" + " |" * 12)
            continue
        scored = result["score"]
        counted = [w for w in scored["windows"] if w["counted"]]
        row = {"windows": len(counted), **{key: sum(w[key] for w in counted) for key in COLUMNS},
               "false": len(scored["false"]), "disturbed": len(scored["disturbed"])}
        for key, value in row.items():
            counts[key] += value
        steps = "none" if scored["steps_right"] is None and scored["true_steps"] == 2 else \
            f"{scored['report_steps']} of {scored['true_steps']}"
        lines.append(f"{start} {steps} | {result['joined']} | {result['lost']} | {result['events_a_second']} | "
                     f"{result['probe_cpu_percent']:.1f} | " + " | ".join(map(str, row.values())) + " |")
    lines.append("| **sum** | |" + " |" * 5 + " " + " | ".join(f"**{value}**" for value in counts.values()) + " |")
    return "\n".join(lines) + "\n"


def score_all(arguments):
    order, slowrank = list(read_programs()), os.path.join(os.path.abspath(arguments.build), "slowrank")
    folders = [os.path.dirname(path) for path in glob.glob(os.path.join(arguments.out, "*", "job.json"))]
    results = sorted((score(slowrank, folder) for folder in folders),
                     key=lambda result: (order.index(result["name"]), MODES.index(result["mode"])))
    with open(os.path.join(arguments.out, "results.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(result) + "\n" for result in results)
    with open(os.path.join(arguments.out, "table.md"), "w", encoding="utf-8") as file:
        file.write(table(results))
    for result in results:
        name = f"{result['name']}-{result['mode']}"
        if result["error"]:
            print(f"{name:28s} FAILED: {result['error'][-600:]}")
        for line in rules.describe(name, result["score"]) if "score" in result else ():
            print(line)
    print(table(results))
    return results


def run_all(arguments, chosen):
    with contextlib.ExitStack() as stack:
        stack.enter_context(jobs.one_by_one())
        injector = stack.enter_context(programs.Injector(sys.executable, arguments.out, dict(os.environ)))
        client = Client(injector.socket)
        deadline = time.monotonic() + 60 * arguments.budget_minutes
        for name, told in chosen.items():
            for mode in arguments.modes:
                if mode == "attach" and not told["step"] or time.monotonic() > deadline:
                    continue
                begun = time.monotonic()
                error = Job(arguments, name, told, mode).run(client)
                print(f"{name} {mode}: {time.monotonic() - begun:.0f} s, load {os.getloadavg()[0]:.1f} {error[-600:]}", flush=True)


def main():
    def words(text):
        return text.split(",")

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--out", default="debian-programs")
    parser.add_argument("--only", type=words, default=list(read_programs()))
    parser.add_argument("--modes", type=words, default=list(MODES))
    parser.add_argument("--budget-minutes", type=float, default=1e9)
    parser.add_argument("--score", action="store_true", help="run nothing")
    parser.add_argument("--packages", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    told = {name: told for name, told in read_programs().items() if name in arguments.only}
    if arguments.packages:
        print(" ".join(sorted({package for one in told.values() for package in one["packages"]})))
        return 0
    os.makedirs(arguments.out, exist_ok=True)
    if not arguments.score:
        if not jobs.can_throttle():
            print("needs root and cgroups, for faults", file=sys.stderr)
            return harness.SKIPPED
        chosen = {name: one for name, one in told.items() if all(map(is_installed, one["packages"]))}
        print("not installed: " + (", ".join(sorted(told.keys() - chosen)) or "none"))
        if not chosen:
            return harness.SKIPPED
        run_all(arguments, chosen)
    results = score_all(arguments)
    return int(any(result["error"] or result["score"]["false"] for result in results))


if __name__ == "__main__":
    sys.exit(main())
