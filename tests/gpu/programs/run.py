#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs by the frameworks' public interfaces and defaults, watched by slowrank, with faults made from outside.

    tests/gpu/programs/run.py --slowrank build/slowrank --out OUT        each program once, three faults
    tests/gpu/programs/run.py --modes user,attach --only 'pipeline-*'
    tests/gpu/programs/run.py --held-out                                 also those that no rule was made on
    tests/gpu/programs/run.py --ranks 4 --share-gpu                      all ranks on the first GPU
    tests/gpu/programs/run.py --faults lines --windows 10            inside of the programs, at known lines
    tests/gpu/programs/run.py --smoke                                    ten steps each, at once, nobody watches
    tests/gpu/programs/run.py --score --out OUT                          scores what is in OUT again

Modes: `root` and `user` are `slowrank run`, by root and with the whole job as a user without capabilities;
`attach` is `slowrank attach --deep` to a running job. Truth: when the author's steps began, by the
frameworks' own callbacks (author.py), and when the faults began and ended, by the same clock.

A third of the programs, by a hash of the name, is held out: these run with --held-out alone, so that no
rule is made on them. What needs more GPUs than a lane has is listed as not run. OUT/NAME-MODE has record,
truth, alerts and log of each job; OUT/results.jsonl and OUT/table.md say how they score. Exit 0: all ran,
all counted faults were named right, no false alarm, steps right; 1: not so; 77: no GPUs here.
"""
import argparse
import bisect
import concurrent.futures
import contextlib
import fnmatch
import glob
import hashlib
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(os.path.dirname(HERE))
ROOT = os.path.dirname(TESTS)
sys.path[:0] = [os.path.dirname(HERE), os.path.join(TESTS, "corpus"), os.path.join(TESTS, "cluster"), HERE]
import line_windows  # noqa: E402
import rules  # noqa: E402
import share_gpu  # noqa: E402
from add import begin_with_the_record  # noqa: E402
from injector import Client  # noqa: E402
from jobs import whole_report  # noqa: E402
import run as gpu_run  # noqa: E402
from run import SKIP, Injector, Lane, count_gpus, launcher, wait_or_end  # noqa: E402

LONG = "--max_steps 20000"
# name -> its file and arguments; the order is that in which they run.
PROGRAMS = {
    "accelerate": "accelerate_loop.py",
    "trainer-log-10": f"hf_trainer.py {LONG} --logging_steps 10",
    "pipeline-1f1b": "pipeline.py 1F1B",
    "lightning-fsdp": "lightning_fit.py fsdp",
    "all-to-all-uneven": "all_to_all_uneven.py",
    "dtensor-sequence-parallel": "sequence_parallel.py tp",
    "dtensor-tensor-parallel": "sequence_parallel.py plain",
    "jax-data-parallel": "jax_parallel.py data",
    "ddp-join": "ddp_join.py",
    "trainer-accumulate": f"hf_trainer.py {LONG} --gradient_accumulation_steps 4",
    "vision": "vision.py",
    "jax-tensor-parallel": "jax_parallel.py tensor",
    "pipeline-interleaved": "pipeline.py Interleaved1F1B",
    "trainer-log-500": f"hf_trainer.py {LONG}",
    "trainer-log-1": f"hf_trainer.py {LONG} --logging_steps 1",
    "ddp": "ddp_loop.py plain",
    "pipeline-gpipe": "pipeline.py GPipe",
    "trainer-eval-save": f"hf_trainer.py {LONG} --eval_strategy steps --eval_steps 150 --save_steps 200",
    "lightning-ddp": "lightning_fit.py ddp",
    "fully-shard-checkpointing": "fully_shard_checkpointing.py",
    "ddp-no-sync": "ddp_loop.py no-sync",
    "compile": "ddp_loop.py compile",
    "cuda-graphs": "ddp_loop.py cuda-graphs",
    "peft": f"peft_lora.py {LONG}",
    "fsdp": "fsdp_wrapped.py",
    "zero-optimizer": "zero_optimizer.py",
    "local-sgd": "local_sgd.py",
    "ring-attention": "ring_attention.py",
    "reinforcement": "reinforcement.py",
    "graph-net": "graph_net.py",
    "recommender": "recommender.py",
    "powersgd": "gradient_hook.py powersgd",
    "gradient-fp16": "gradient_hook.py fp16",
    "async-checkpoint": "async_checkpoint.py",
    "adversarial": "adversarial.py",
    "dp-tp": "sequence_parallel.py dp-tp",
    "dp-pp": "pipeline.py dp-pp",
}
RANKS_LEAST = {"dp-tp": 4, "dp-pp": 4}
MODES = ("root", "user", "attach")
USER = 65534  # nobody: no capabilities, no home

KINDS = ("sleep", "cpu-hog", "gpu-hog", "stop", "cgroup-throttle")  # of rules.EXPECTED
FAULTS = 3
WINDOW_S, STOP_S, GAP_S, LAST_GAP_S = 4.0, 10.0, 4.0, 3.0
STOPPED_S, RUNNING_S = 0.06, 0.02        # sleep: so long stopped, so long not, in turn
GPU_DUTY, HOGS = 0.8, 2
QUOTA_US, PERIOD_US = 25_000, 100_000
START_S, WARM_S, WARM_STEPS, WARM_MAX_S = 120, 6.0, 80, 15.0
END_S, JOB_S = 30, 75  # patience at the end; what must be left for a job to be started
SMOKE_STEPS = 10


def is_held_out(name):
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % 3 == 0


def draw_faults(name, mode, seed, ranks, kinds=KINDS, count=FAULTS):
    """[(kind, rank)]: by the names and the seed alone; two in sequence are on different ranks."""
    dice, before, faults = random.Random(f"{name}/{mode}/{seed}"), None, []
    for kind in dice.sample(kinds, min(count, len(kinds))):
        before = dice.choice([rank for rank in range(ranks) if rank != before])
        faults.append((kind, before))
    return faults


def read_rank(path):
    """{"pid", "steps": when each began, "paces": of each, where taken, "passes": how many, "saves": [(begin, end)]}
    of a rank's file."""
    rank = {"pid": 0, "steps": [], "paces": [], "passes": 0, "saves": []}
    with open(path, encoding="ascii") as file:
        for line in file:
            if not line.endswith("\n"):
                break
            what, value = line.split()
            if what == "pid":
                rank["pid"] = int(value)
            elif what == "step":
                rank["steps"].append(float(value))
            elif what == "pace":
                rank["paces"].append(float(value))
            elif what == "pass":
                rank["passes"] += 1
            elif what == "save":
                rank["saves"].append((float(value), float(value)))
            elif what == "saved" and rank["saves"]:
                rank["saves"][-1] = (rank["saves"][-1][0], float(value))
    return rank


def read_ranks(folder):
    """rank -> what its file says; of those that have begun."""
    return {int(path.rsplit("-", 1)[1]): read_rank(path)
            for path in glob.glob(os.path.join(folder, "rank-*"))}


def truth_of(ranks, faults, program, whole=True):
    """The truth as rules.py has it. faults: [{"kind", "rank", "begin_s", "end_s", "why"}]. whole: the job ended well."""
    begins = ranks[0]["steps"]

    def within(begin_s):
        return max(0, bisect.bisect_right(begins, begin_s) - 1)

    def after(end_s):
        return min(bisect.bisect_left(begins, end_s), len(begins) - 1)

    windows, slow_alike = [], []
    for fault in faults:
        first = within(fault["begin_s"])
        if fault["rank"] == line_windows.EVERY_RANK:
            slow_alike.append({"first": first, "last": after(fault["end_s"])})
            continue
        windows.append({"kind": fault["kind"], "rank": fault["rank"], "first": first,
                        "last": max(after(fault["end_s"]), first + 1), "applied": not fault["why"],
                        "why": fault["why"]})
        if fault["kind"] not in rules.HANGS:
            windows[-1]["measured_from"] = first + 1  # it began within the first one
    truth = {"program": program, "step_begins_s": begins, "windows": windows,
             "disturbed": [{"first": within(begin), "last": after(end), "ranks": [rank],
                            "why": "it alone writes a checkpoint"}
                           for rank, told in sorted(ranks.items()) for begin, end in told["saves"]]}
    if slow_alike:
        truth["slow_alike"] = slow_alike
    if ranks[0]["passes"]:
        truth["other_passes"] = ranks[0]["passes"]
    if not whole:
        truth["ended_s"] = begins[-1]
    return truth


class Outside:
    """Makes faults in a running job. injector: a Client of injector.py. pids: of the ranks."""

    def __init__(self, injector, pids, cores):
        self.injector, self.pids, self.cores = injector, pids, sorted(cores)

    def make(self, kind, rank, seconds):
        """Makes one for so long; returns what truth_of() needs."""
        begin_s = time.time()
        try:
            why = getattr(self, kind.replace("-", "_"))(rank, seconds) or ""
        except OSError as error:
            why = str(error)
        return {"kind": kind, "rank": rank, "begin_s": begin_s, "end_s": time.time(), "why": why}

    def stop(self, rank, seconds):
        os.kill(self.pids[rank], signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(self.pids[rank], signal.SIGCONT)

    def sleep(self, rank, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.stop(rank, STOPPED_S)
            time.sleep(RUNNING_S)

    def held(self, seconds, begin, end):
        """What the injector does between two requests."""
        why = self.injector.ask(**begin)
        if not why:
            time.sleep(seconds)
        return self.injector.ask(**end) if not why else why

    def gpu_hog(self, rank, seconds):
        request = {"do": "gpu-shared", "gpu": rank}
        return self.held(seconds, dict(request, duty=GPU_DUTY), dict(request, duty=0))

    def cgroup_throttle(self, rank, seconds):
        request = {"do": "cgroup-throttle", "pid": self.pids[rank], "period_us": PERIOD_US}
        return self.held(seconds, dict(request, quota_us=QUOTA_US), dict(request, quota_us=0))

    def cpu_hog(self, rank, seconds):
        """The rank on one core, with others that spin there."""
        core, before = self.cores[-1 - rank], os.sched_getaffinity(self.pids[rank])
        self.pin(rank, {core})
        try:
            return self.held(seconds, {"do": "cpu-hog", "cores": [core], "count": HOGS},
                             {"do": "cpu-hog", "cores": [], "count": 0})
        finally:
            self.pin(rank, before)

    def pin(self, rank, cores):
        for thread in os.listdir(f"/proc/{self.pids[rank]}/task"):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread), cores)


class Job:
    """One program in one mode: its files, its command, its end."""

    def __init__(self, arguments, lane, name, mode):
        self.arguments, self.name, self.mode = arguments, name, mode
        self.folder = os.path.join(arguments.work, f"{name}-{mode}")
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(os.path.join(self.folder, "truth"))
        self.truth_folder = os.path.join(self.folder, "truth")
        self.environment = dict(lane.environment, TRUTH=self.truth_folder, HOME=self.folder,
                                HF_HUB_OFFLINE="1", PYTHONUNBUFFERED="1", PYTHONDONTWRITEBYTECODE="1")
        if arguments.faults == "lines":
            self.environment["LINE_FAULTS"] = arguments.native
        self.log = open(self.path("log.txt"), "w", encoding="utf-8")
        self.user = {}
        if mode == "user":
            self.user = {"user": USER, "group": USER, "extra_groups": []}
            for path in (self.folder, self.truth_folder):
                os.chown(path, USER, USER)
        self.process = self.watcher = None

    def path(self, name):
        return os.path.join(self.folder, name)

    def command(self):
        files, options = shlex.split(PROGRAMS[self.name])[:1], shlex.split(PROGRAMS[self.name])[1:]
        if self.arguments.share_gpu:
            files.insert(0, "share_gpu.py")
        return [*launcher(self.arguments.python), "--standalone", "--nproc-per-node",
                str(self.arguments.ranks), *(os.path.join(HERE, file) for file in files), *options]

    def popen(self, command, **options):
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log,
                                stderr=subprocess.STDOUT, env=self.environment, cwd=self.folder,
                                start_new_session=True, **options)

    def slowrank(self, *words):
        return [self.arguments.slowrank, words[0], "--record", self.path("record.slr"), "--alerts",
                self.path("alerts.jsonl"), "--quiet", *words[1:]]

    def start(self):
        watched = self.mode in ("root", "user")
        self.process = self.popen([*(self.slowrank("run", "--") if watched else ()),
                                   *self.command()], **self.user)

    def begin(self):
        """From now on it may use the GPUs."""
        with open(os.path.join(self.truth_folder, "begin"), "w", encoding="ascii"):
            pass

    def attach(self, pids):
        self.watcher = self.popen(self.slowrank("attach", "--deep", "--yes", "--pid",
                                                *map(str, pids)))

    def wait(self, done, seconds, what):
        """Until done(ranks); returns them."""
        deadline = time.monotonic() + seconds
        while True:
            ranks = read_ranks(self.truth_folder)
            if len(ranks) == self.arguments.ranks and done(ranks):
                return ranks
            if self.process.poll() is not None:
                raise RuntimeError(f"the job ended with {self.process.returncode}:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what}:\n{self.tail()}")
            time.sleep(0.1)

    def warm(self):
        """Until it has run for a while; returns the ranks."""
        ranks = self.wait(lambda ranks: all(len(r["steps"]) > 4 for r in ranks.values()), START_S,
                          "the job does not begin to train")
        if self.mode == "attach":
            self.attach([ranks[rank]["pid"] for rank in sorted(ranks)])
        begun, steps = time.monotonic(), len(ranks[0]["steps"])

        def is_warm(ranks):
            passed = time.monotonic() - begun
            return passed > WARM_MAX_S or (passed > WARM_S
                                           and len(ranks[0]["steps"]) > steps + WARM_STEPS)
        return self.wait(is_warm, 2 * WARM_MAX_S, "the job trains no more")

    def end_at(self, step):
        """Tells the ranks before which step to end."""
        with open(self.path("stop"), "w", encoding="ascii") as file:
            file.write(str(step))
        os.rename(file.name, os.path.join(self.truth_folder, "stop"))

    def end(self):
        """All ranks end before the same step, which none of them has reached."""
        steps = max((rank["steps"] for rank in read_ranks(self.truth_folder).values()), key=len)
        last_second = sum(at > steps[-1] - 1 for at in steps)
        self.end_at(len(steps) + max(20, last_second))

    def leave_gpus(self):
        """Waits until the ranks' processes are gone."""
        ranks, deadline = read_ranks(self.truth_folder).values(), time.monotonic() + END_S
        while any(os.path.exists(f"/proc/{rank['pid']}") for rank in ranks):
            if time.monotonic() > deadline:
                raise RuntimeError(f"the ranks do not end:\n{self.tail()}")
            time.sleep(0.05)

    def finish(self):
        """Waits for the end; what is still there then is ended. Returns the job's status."""
        try:
            return wait_or_end(self.process, END_S)
        finally:
            if self.watcher:
                with contextlib.suppress(RuntimeError):
                    wait_or_end(self.watcher, END_S)
            self.kill()

    def kill(self):
        """The ranks, which torchrun puts into sessions of their own, and then what started them."""
        for process in (self.process, self.watcher):
            if process and process.poll() is None:
                with contextlib.suppress(ProcessLookupError, RuntimeError):
                    wait_or_end(process, 0.1)
        for rank in read_ranks(self.truth_folder).values():
            with contextlib.suppress(ProcessLookupError, OSError):
                with open(f"/proc/{rank['pid']}/environ", "rb") as file:
                    if self.truth_folder.encode() in file.read():
                        os.kill(rank["pid"], signal.SIGKILL)
        self.log.close()

    def tail(self):
        with open(self.path("log.txt"), encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-40:])[-4000:]

    def program(self):
        how = {"root": "run as root", "user": "run as an ordinary user", "attach": "attach --deep"}
        where = "ranks on one GPU" if self.arguments.share_gpu else "GPUs"
        return f"tests/gpu/programs/{PROGRAMS[self.name]}, {self.arguments.ranks} {where}, {how[self.mode]}"

    def keep(self, faults, error):
        """Writes the truth, and copies what is needed of the folder to OUT."""
        kept = os.path.join(self.arguments.out, f"{self.name}-{self.mode}")
        shutil.rmtree(kept, ignore_errors=True)
        os.makedirs(kept)
        ranks = read_ranks(self.truth_folder)
        if ranks.get(0, {}).get("steps"):
            with open(os.path.join(kept, "truth.json"), "w", encoding="utf-8") as file:
                json.dump(truth_of(ranks, faults, self.program(), not error), file)
        for name in ("record.slr", "alerts.jsonl", "log.txt"):
            if os.path.exists(self.path(name)):
                shutil.copyfile(self.path(name), os.path.join(kept, name))
        with open(os.path.join(kept, "job.json"), "w", encoding="utf-8") as file:
            json.dump({"name": self.name, "mode": self.mode, "error": error, "faults": faults,
                       "ranks": {rank: len(told["steps"]) for rank, told in ranks.items()}}, file)
        shutil.rmtree(self.folder, ignore_errors=True)


def score(arguments, folder):
    """One line of results.jsonl, of what keep() left."""
    with open(os.path.join(folder, "job.json"), encoding="utf-8") as file:
        result = json.load(file)
    truth_path, record = (os.path.join(folder, name) for name in ("truth.json", "record.slr"))
    if not os.path.exists(truth_path) or not os.path.exists(record):
        return dict(result, error=result["error"] or "there is no record, or no truth")
    with open(truth_path, encoding="utf-8") as file:
        truth = json.load(file)
    alerts = []
    with contextlib.suppress(FileNotFoundError), \
            open(os.path.join(folder, "alerts.jsonl"), encoding="utf-8") as file:
        alerts = [json.loads(line) for line in file]
    try:
        report = json.loads(whole_report(arguments.slowrank, record).stdout)
    except (RuntimeError, ValueError) as error:
        return dict(result, error=result["error"] or str(error))
    if result["mode"] == "attach":
        begin_with_the_record(truth, report)
    coverage = report["coverage"]
    result["score"] = rules.score(truth, report, alerts)
    if any(fault["kind"].startswith("line-") for fault in result["faults"]):
        result["lines"] = line_windows.score(result["score"], report)
        result["host_slow"] = [verdict["cause"] for verdict in report["verdicts"] if verdict["class"] == "host-slow"]
    result.update(
        joined=report["job"]["steps"] - coverage["steps_incomplete"],
        lost=coverage["dropped"] + coverage["batches_lost"], ranks_seen=report["job"]["ranks"],
        not_seen={source["name"]: f"{source['state']}: {source['why']}"
                  for source in coverage["sources"] if source["state"] not in ("on", "off")})
    return result


def is_right(result):
    if result["error"]:
        return False
    scored = result["score"]
    return not scored["false"] and scored["steps_right"] is not False and all(
        window["named"] and window["class"] for window in scored["windows"] if window["counted"])


def table(results, not_run):
    """For people, in Markdown."""
    lines = ["| program | watched by | steps, of true | joined | lost | windows | named | class | slow-down "
             "| in time | cause | false | not seen |", "| --- | --- |" + " ---: |" * 10 + " --- |"]
    unseen = [set(result["not_seen"]) for result in results if "score" in result]
    everywhere = set.intersection(*unseen) if unseen else set()
    for result in results:
        start = f"| {result['name']} | {result['mode']} |"
        if "score" not in result:
            lines.append(f"{start} failed: {result['error'].splitlines()[0]} |" + " |" * 10)
            continue
        counted = [w for w in result["score"]["windows"] if w["counted"]]
        lines.append(" ".join([
            start, f"{result['score']['report_steps']} of {result['score']['true_steps']} |",
            f"{result['joined']} | {result['lost']} | {len(counted)} |",
            *(f"{sum(w[key] for w in counted)} |"
              for key in ("named", "class", "slow-down", "in time", "cause")),
            f"{len(result['score']['false'])} |",
            f"{', '.join(sorted(set(result['not_seen']) - everywhere))} |"]))
    lines += [f"| {name} | {why} |" + " |" * 11 for name, why in not_run]
    if everywhere:
        lines += ["", f"Not seen in any of them: {', '.join(sorted(everywhere))}."]
    return "\n".join(lines) + "\n"


def describe(result):
    name = f"{result['name']}-{result['mode']}"
    lines = rules.describe(name, result["score"]) if "score" in result else []
    if result["error"]:
        lines.append(f"{name:28s} FAILED: {result['error']}")
    return "\n".join(lines or [f"{name:28s} nothing to tell"])


def score_all(arguments, not_run=()):
    folders = sorted(os.path.dirname(path)
                     for path in glob.glob(os.path.join(arguments.out, "*", "job.json")))
    order = list(PROGRAMS)
    results = sorted((score(arguments, folder) for folder in folders),
                     key=lambda result: (order.index(result["name"]), MODES.index(result["mode"])))
    with open(os.path.join(arguments.out, "results.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(result) + "\n" for result in results)
    with open(os.path.join(arguments.out, "table.md"), "w", encoding="utf-8") as file:
        file.write(table(results, not_run))
    for result in results:
        print(describe(result))
    print(table(results, not_run))
    if any("lines" in result for result in results):
        with open(os.path.join(arguments.out, "lines.md"), "w", encoding="utf-8") as file:
            file.write(line_windows.table(results))
        print(line_windows.table(results))
    return results


def make_faults(job, ranks, injector, arguments, deadline):
    """Until the job is told to end; returns the faults that were made."""
    if arguments.faults == "lines":
        kinds = line_windows.kinds_of(PROGRAMS[job.name], bool(arguments.native))
        drawn = line_windows.draw(job.name, job.mode, arguments.seed, arguments.ranks, kinds, arguments.windows)
        faults = line_windows.make_all(job, ranks, drawn, deadline)
        job.end()
        return faults
    faults = []
    outside = Outside(Client(injector.socket), {rank: told["pid"] for rank, told in ranks.items()},
                      os.sched_getaffinity(0))
    # Whoever shares a GPU is slowed down by what else computes there, as all others are.
    kinds = [kind for kind in KINDS if not arguments.share_gpu or kind != "gpu-hog"]
    for kind, rank in draw_faults(job.name, job.mode, arguments.seed, arguments.ranks, kinds, arguments.windows):
        if faults:
            time.sleep(GAP_S)
        faults.append(outside.make(kind, rank, STOP_S if kind in rules.HANGS else WINDOW_S))
    time.sleep(LAST_GAP_S)
    job.end()
    return faults


class Series:
    """The jobs that are still to be run; lanes take them one by one."""

    def __init__(self, arguments, waiting):
        self.arguments, self.waiting, self.lock = arguments, waiting, threading.Lock()
        self.deadline = time.monotonic() + arguments.budget_seconds
        self.job_s = JOB_S if arguments.faults == "outside" else line_windows.job_s(arguments.windows)
        self.not_run = []

    def next(self):
        with self.lock:
            while self.waiting:
                name, mode = self.waiting.pop(0)
                if time.monotonic() + self.job_s < self.deadline:
                    return name, mode
                self.not_run.append((name, f"{mode}: no time left"))
        return None

    def start(self, lane):
        """The next job, which imports and waits; None when there is none."""
        found = self.next()
        if not found:
            return None
        job = Job(self.arguments, lane, *found)
        job.start()
        return job

    def work(self, lane):
        """One lane's thread. A job imports while faults are made in the one before, whose report is
        written while it trains: the GPUs are one job's at a time, and never wait for a processor."""
        lane.enter()
        folder = os.path.join(self.arguments.work, f"lane-{min(lane.cores)}")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        with Injector(self.arguments.python, folder, lane.environment) as injector, \
                concurrent.futures.ThreadPoolExecutor(1) as ending:
            job = self.start(lane)
            for gpu in range(0 if self.arguments.share_gpu else self.arguments.ranks):
                Client(injector.socket).ask(do="prepare", gpu=gpu)
            while job:
                following, faults, error = None, [], ""
                begun = time.monotonic()
                try:
                    job.begin()
                    ranks = job.warm()
                    following = self.start(lane)
                    faults = make_faults(job, ranks, injector, self.arguments, self.deadline)
                    job.leave_gpus()
                except Exception as problem:  # a job that fails is told and ends nothing
                    error = f"{problem}" or repr(problem)
                    job.kill()
                print(f"{job.name} {job.mode}: {time.monotonic() - begun:.0f} s {error[-1500:]}",
                      flush=True)
                ending.submit(self.close, job, faults, error)
                job = following or self.start(lane)

    @staticmethod
    def close(job, faults, error):
        if not error:
            try:
                status = job.finish()
                error = f"the job ended with {status}:\n{job.tail()}" if status else ""
            except RuntimeError as problem:
                error = str(problem)
        if error:
            print(f"{job.name} {job.mode}: {error[-1500:]}", flush=True)
        job.keep(faults, error)


def smoke(arguments, lane, names):
    """Ten steps of each, all at once; returns those that ended well."""
    lane.environment["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # they share the GPUs
    jobs = [Job(arguments, lane, name, "alone") for name in names]
    for job in jobs:
        job.end_at(SMOKE_STEPS)
        job.begin()
        job.start()
    deadline, good = time.monotonic() + START_S, []
    for job in jobs:
        try:
            status = wait_or_end(job.process, deadline - time.monotonic())
        except RuntimeError as problem:
            status = problem
        steps = {rank: len(told["steps"]) for rank, told in read_ranks(job.truth_folder).items()}
        print(f"smoke {job.name}: {status} {steps}", flush=True)
        if status:
            print(job.tail(), flush=True)
        else:
            good.append(job.name)
        job.kill()
        shutil.copyfile(job.path("log.txt"), os.path.join(arguments.out, f"smoke-{job.name}.txt"))
        shutil.rmtree(job.folder, ignore_errors=True)
    with open(os.path.join(arguments.out, "smoke.txt"), "w", encoding="utf-8") as file:
        file.write(",".join(good))
    return good


def parse_arguments(argv=None):
    def words(text):
        return [word for word in text.split(",") if word]

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slowrank", default=os.path.join(ROOT, "build", "slowrank"))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--out", default=os.environ.get("OUT", "program-results"))
    parser.add_argument("--work", default="/var/tmp/slowrank-programs", help="where the jobs run")
    parser.add_argument("--only", type=words, default=["*"],
                        help="programs, or programs and modes (NAME-MODE), with * and ?")
    parser.add_argument("--modes", type=words, default=["root"])
    parser.add_argument("--held-out", action="store_true", help="those too, before all others")
    parser.add_argument("--ranks", type=int, default=2, help="of each job")
    parser.add_argument("--share-gpu", action="store_true",
                        help="all ranks of a job on the first GPU, each a host of its own to NCCL")
    parser.add_argument("--faults", choices=("outside", "lines"), default="outside")
    parser.add_argument("--windows", type=int, default=FAULTS, help="of faults in each job")
    parser.add_argument("--native", help="libfault_native.so of tests/stacks (default: that of slowrank's build, if it is there)")
    parser.add_argument("--lanes", type=int, default=0, help="default: as many as fit on the GPUs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget-seconds", type=float, default=1e9)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--score", action="store_true", help="run nothing")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args(argv)
    if not set(arguments.modes) <= set(MODES):
        parser.error(f"modes are {', '.join(MODES)}")
    if arguments.windows < 3:
        parser.error("a job has three windows at least")
    if arguments.native is None:
        arguments.native = os.path.join(os.path.dirname(arguments.slowrank), "tests", "stacks", "libfault_native.so")
        arguments.native = arguments.native if os.path.exists(arguments.native) else ""
    arguments.native = arguments.native and os.path.abspath(arguments.native)
    for name in ("slowrank", "out", "work"):
        setattr(arguments, name, os.path.abspath(getattr(arguments, name)))
    return arguments


def chosen(arguments):
    """([(name, mode) that run], [(name, why not)])."""
    def wanted(name):
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in arguments.only)

    run, not_run = [], []
    for name in PROGRAMS:
        modes = [mode for mode in arguments.modes if wanted(name) or wanted(f"{name}-{mode}")]
        if not modes:
            continue
        if RANKS_LEAST.get(name, 2) > arguments.ranks:
            not_run.append((name, f"not run: needs {RANKS_LEAST[name]} GPUs"))
        elif is_held_out(name) and not arguments.held_out:
            not_run.append((name, "not run: held out"))
        else:
            run += [(name, mode) for mode in modes]
    run.sort(key=lambda found: (arguments.modes.index(found[1]), not is_held_out(found[0])))
    return run, not_run


def main():
    arguments = parse_arguments()
    found, not_run = chosen(arguments)
    if arguments.list:
        print("\n".join([*(f"{name}-{mode}" for name, mode in found),
                         *(f"{name} ({why})" for name, why in not_run)]))
        return 0
    os.makedirs(arguments.out, exist_ok=True)
    if arguments.score:
        return 0 if all(map(is_right, score_all(arguments, not_run))) else 1
    needed = 1 if arguments.share_gpu else arguments.ranks
    gpus, why = count_gpus(arguments.python, needed)
    if why:
        print(f"tests/gpu/programs: skipped: {why}", file=sys.stderr)
        return SKIP
    os.makedirs(arguments.work, exist_ok=True)
    os.chmod(arguments.work, 0o755)
    lanes = arguments.lanes = 1 if arguments.share_gpu else arguments.lanes or gpus // needed
    with share_gpu.by_kernels(arguments.work, arguments.share_gpu):
        places = [Lane(index, lanes, gpus, needed) for index in range(lanes)]
        if arguments.smoke:
            names = [name for name, _ in found]
            return 0 if smoke(arguments, places[0], names) == names else 1
        series = Series(arguments, found)
        quotas = gpu_run.Series(arguments, series.deadline, "", []).room_for_quotas()
        with quotas, concurrent.futures.ThreadPoolExecutor(lanes) as threads:
            list(threads.map(series.work, places))
    results = score_all(arguments, not_run + series.not_run)
    return 0 if all(map(is_right, results)) else 1


if __name__ == "__main__":
    sys.exit(main())
