#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training jobs on this machine's GPUs under slowrank, with real faults, scored against the truth.

    tests/gpu/run.py --slowrank build/slowrank --out OUT                everything, 5 seeds
    tests/gpu/run.py --only 'ddp.*,healthy.ddp' --seeds 1 --budget-seconds 500
    tests/gpu/run.py --seeds 1 --rounds 5        five windows of each kind in each job
    tests/gpu/run.py --lanes 2 --ranks 2         on 4 GPUs two jobs side by side, each on its own
    tests/gpu/run.py --summary --out OUT                                only the table again

Each job holds several fault windows with healthy gaps between them; ranks, sizes and the order
are drawn from the seed. Results are appended to OUT/results.jsonl and a later call goes on where
this one stopped; results.json and table.md are made from it. Needs two or more GPUs, PyTorch and,
for most faults, root; what cannot be done is skipped with the reason. Exit 0: all faults that
count were named right and there was no false alarm; 1: not so; 77: this machine has no GPUs.
"""
import argparse
import concurrent.futures
import contextlib
import fnmatch
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "corpus")]
import fault_plan  # noqa: E402
import results_table  # noqa: E402
import rules  # noqa: E402
import truth as truth_of  # noqa: E402
from injector import Throttle  # noqa: E402
from jobs import whole_report  # noqa: E402

START_SECONDS = 45  # imports, NCCL, calibration
HEALTHY_STEPS = 2200
SKIP = 77

# Windows, gaps and warm-up in steps. The host's faults go to the launch-bound step: there the
# host's time is the step's time, as a quota or a hog needs.
DEVICE = {"options": [], "step_ms": 60, "window": 40, "gap": 36, "warm_up": 110,
          "kinds": (*fault_plan.DEVICE_KINDS, "input-sleep", "gc")}
HOST = {"options": ["--launch-bound", "--pin-cores", "1"], "step_ms": 22, "window": 100, "gap": 70,
        "warm_up": 200, "kinds": fault_plan.HOST_KINDS}
# FSDP gathers around every layer: fewer of them make a step of the same length.
FSDP_HOST = dict(HOST, options=[*HOST["options"], "--layers", "10"], window=70, gap=50, warm_up=120)
# Tensor parallelism adds four all-reduces to each. So many need a core for NCCL's progress thread
# beside Python's: where it gets none, device times are wrong, and such steps are not judged.
TP_DP_HOST = dict(FSDP_HOST, options=["--launch-bound", "--pin-cores", "2", "--layers", "14"])
COMM = {"options": ["--dim", "512", "--layers", "4", "--step-ms", "30"], "step_ms": 60,
        "window": 60, "gap": 60, "warm_up": 120, "kinds": ("comm-slow", "comm-slow"), "net": True}

# What a rank does to itself: the injector beside the job knows the GPUs of the machine, not of a node.
NODES_KINDS = ("extra-kernels", "longer-kernels", "input-sleep", "gc")


def table_of_jobs():
    """name -> what it is; in the order in which they are run."""
    jobs = {}
    for mode in ("ddp", "fsdp", "tp_dp"):
        jobs[f"{mode}.device"] = dict(DEVICE, mode=mode)
        jobs[f"{mode}.host"] = dict({"ddp": HOST, "fsdp": FSDP_HOST, "tp_dp": TP_DP_HOST}[mode],
                                    mode=mode)
    jobs["ddp.comm"] = dict(COMM, mode="ddp")
    jobs["nodes.ddp"] = dict(COMM, mode="ddp", nodes=True, window=40, gap=40, kinds=NODES_KINDS)
    jobs["attach.device"] = dict(DEVICE, mode="ddp", attach=True)
    jobs["attach.host"] = dict(HOST, mode="ddp", attach=True)
    for mode in ("ddp", "fsdp", "tp_dp"):
        jobs[f"healthy.{mode}"] = {"options": [], "step_ms": 62, "mode": mode}
    jobs["healthy.ddp-launch-bound"] = {"options": ["--launch-bound"], "step_ms": 25,
                                        "mode": "ddp"}
    harmless = {
        "graph": ["--graph"], "graph-comm": ["--graph", "--graph-comm"], "compile": ["--compile"],
        "profiler": ["--profile-steps", "100:130"], "remake": ["--remake-at", "150"],
        "death": ["--die-at", "150", "--die-rank", "1"],
    }
    for name, options in harmless.items():
        jobs[f"harmless.{name}"] = {"options": options, "step_ms": 62, "mode": "ddp",
                                    "steps": 300, "dies": name == "death"}
    jobs["harmless.all-to-all"] = {"options": ["--layers", "2", "--step-ms", "20"], "step_ms": 25,
                                   "mode": "ep", "steps": 600, "complete": True}
    jobs["harmless.pp"] = {"options": ["--batch", "8"], "step_ms": 62, "mode": "pp", "steps": 300}
    return jobs


def count_gpus(python, needed=2):
    """(how many, "") or (0, why none). In a process of its own: no context stays behind."""
    code = "import torch; print(torch.cuda.device_count(), torch.__version__)"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=120,
                              check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return 0, str(error)
    if done.returncode != 0:
        return 0, (done.stderr.strip().splitlines() or ["PyTorch cannot be loaded"])[-1]
    count = int(done.stdout.split()[0])
    return count, "" if count >= needed else f"PyTorch sees {count} GPUs: {needed} are needed"


def launcher(python):
    found = shutil.which("torchrun")
    return [found] if found else [python, "-m", "torch.distributed.run"]


def make_net_helper(work):
    """(path, "") or (None, why not): network namespaces need root and the kernel's consent."""
    path = os.path.join(work, "net_helper")
    compiler = next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
    if os.geteuid() != 0:
        return None, "network namespaces need root"
    if not compiler:
        return None, "no C compiler for net_helper.c"
    for command in ([compiler, "-O2", "-o", path, os.path.join(HERE, "net_helper.c")],
                    [path, "run", "2", "--", "true"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return None, (done.stderr.strip().splitlines() or [f"{command[0]} failed"])[-1]
    return path, ""


class Lane:
    """A share of the machine's GPUs and cores, for one job at a time."""

    def __init__(self, index, count, gpus, ranks):
        listed = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
        names = listed or [str(gpu) for gpu in range(gpus)]
        cores = sorted(os.sched_getaffinity(0))
        self.cores = set(cores[index * len(cores) // count:(index + 1) * len(cores) // count])
        self.environment = dict(os.environ, OMP_NUM_THREADS="1")
        if count > 1:
            self.environment["CUDA_VISIBLE_DEVICES"] = ",".join(
                names[index * ranks:(index + 1) * ranks])

    def enter(self):
        """The calling thread, and the processes that it starts from now on."""
        os.sched_setaffinity(0, self.cores)


class Injector:
    """injector.py as a process beside the job; a context manager."""

    def __init__(self, python, directory, environment):
        self.environment = environment
        self.socket = os.path.join(directory, "injector.socket")
        self.command = [python, os.path.join(HERE, "injector.py"), "--socket", self.socket]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL,
                                        env=self.environment)
        deadline = time.monotonic() + 20
        while not os.path.exists(self.socket):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the fault injector does not start")
            time.sleep(0.02)
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class TookTooLong(RuntimeError):
    """A process that was ended for that."""


def wait_or_end(process, seconds):
    """The exit status; a process that takes longer is ended with all of its group."""
    try:
        return process.wait(timeout=max(seconds, 0.1))
    except subprocess.TimeoutExpired:
        for number, patience in ((signal.SIGTERM, 15), (signal.SIGKILL, 15)):
            os.killpg(process.pid, number)
            try:
                process.wait(timeout=patience)
                break
            except subprocess.TimeoutExpired:
                continue
        raise TookTooLong(f"took longer than {seconds:.0f} s")


class Case:
    """One job: its files, its command, its end."""

    def __init__(self, arguments, name, job, seed, lane, deadline):
        self.arguments, self.name, self.job, self.seed = arguments, name, job, seed
        self.deadline = deadline
        self.environment = lane.environment
        self.directory = os.path.join(arguments.work, f"{name}-{seed}")
        shutil.rmtree(self.directory, ignore_errors=True)
        os.makedirs(self.directory)
        self.kinds = [k for k in job.get("kinds", ()) if not arguments.kinds
                      or k in arguments.kinds]
        self.ranks = arguments.ranks
        self.windows = []
        self.steps = job.get("steps", arguments.healthy_steps)
        if self.kinds:
            self.windows, self.steps = fault_plan.draw_plan(
                self.kinds, self.ranks, seed, arguments.window or job["window"],
                arguments.gap or job["gap"], job["warm_up"], arguments.rounds)

    def path(self, name):
        return os.path.join(self.directory, name)

    def seconds(self):
        """About how long the job will take."""
        slowed = sum(w["last_step"] - w["first_step"] + 1 for w in self.windows)
        return START_SECONDS + (self.steps + 0.6 * slowed) * self.job["step_ms"] / 1e3

    def why_not(self):
        if self.job["mode"] == "tp_dp" and (self.ranks < 4 or self.ranks % 2):
            return f"tensor parallel x data parallel needs 4 GPUs; there are {self.ranks}"
        if self.job["mode"] == "ep" and self.ranks not in (2, 4, 8):
            return f"the experts' rows are shared by 2, 4 or 8 GPUs; there are {self.ranks}"
        if self.job.get("kinds") and not self.kinds:
            return "none of its faults was asked for"
        if self.job.get("net"):
            self.net_helper, why = make_net_helper(self.directory)
            return why
        return ""

    def train_command(self, injector):
        command = [os.path.join(HERE, "train.py"), "--mode", self.job["mode"], "--steps",
                   str(self.steps), "--seed", str(self.seed), "--truth", self.path("truth.jsonl"),
                   "--work", self.directory, *self.job["options"], *self.arguments.train_options]
        if injector:
            command += ["--injector", injector.socket]
        if self.windows:
            with open(self.path("plan.json"), "w", encoding="utf-8") as file:
                json.dump(self.windows, file, indent=1)
            command += ["--plan", self.path("plan.json")]
        start = [*launcher(self.arguments.python), "--nproc-per-node",
                 "1" if self.job.get("nodes") else str(self.ranks)]
        if self.job.get("nodes"):  # torchrun on each node; namespace 0 has this address
            return [*start, "--nnodes", str(self.ranks), "--node-rank", "{node}", "--master-addr",
                    "10.77.0.2", "--master-port", "29611", *command]
        if not self.job.get("net"):
            return [*start, "--standalone", *command]
        return [self.net_helper, "run", str(self.ranks), "--", *start, "--nnodes", "1",
                "--node-rank", "0", "--master-addr", "10.77.0.1", "--master-port", "29611",
                *command, "--net-helper", self.net_helper]

    def watched(self, command):
        """The command under slowrank: once, or on each node by itself."""
        under = [self.arguments.slowrank, "run", *self.watch_options(), "--", *command]
        if not self.job.get("nodes"):
            return under
        return [self.net_helper, "run", str(self.ranks), "--", self.arguments.python,
                os.path.join(HERE, "nodes.py"), str(self.ranks), *under]

    def watch_options(self):
        return ["--record", self.path("record.slr"), "--alerts", self.path("alerts.jsonl"),
                "--quiet", *self.arguments.run_options]

    def start(self, command, log):
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                stderr=subprocess.STDOUT, env=self.environment,
                                start_new_session=True)

    def wait_for_pids(self, process):
        """The pids of the ranks, when all of them are training."""
        deadline = time.monotonic() + 2 * START_SECONDS + 60
        while time.monotonic() < deadline and process.poll() is None:
            if os.path.exists(self.path("truth.jsonl")):
                with open(self.path("truth.jsonl"), encoding="utf-8") as file:
                    entries = [json.loads(line) for line in file if line.endswith("\n")]
                pids = [e["pid"] for e in entries if e["event"] == "rank"]
                if len(pids) == self.ranks:
                    return pids
            time.sleep(0.1)
        raise RuntimeError("the job does not begin to train")

    def run(self, injector):
        """Runs the job to its end; returns its exit status."""
        patience = min(3 * self.seconds() + 120, self.deadline - time.monotonic())
        command = self.train_command(injector)
        with open(self.path("log.txt"), "w", encoding="utf-8") as log:
            if not self.job.get("attach"):
                return wait_or_end(self.start(self.watched(command), log), patience)
            job = self.start(command, log)
            try:
                pids = self.wait_for_pids(job)
                watcher = self.start([self.arguments.slowrank, "attach", *self.arguments.attach_options,
                                      *self.watch_options(), "--pid", *map(str, pids)], log)
            except BaseException:
                wait_or_end(job, 0.1)
                raise
            try:
                return wait_or_end(job, patience)
            finally:
                try:
                    wait_or_end(watcher, 30)
                except RuntimeError as error:
                    print(f"run.py: attach: {error}", file=log)

    def tail(self):
        with open(self.path("log.txt"), encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-30:])

    def report(self):
        done = whole_report(self.arguments.slowrank, self.path("record.slr"))
        with open(self.path("report.json"), "w", encoding="utf-8") as file:
            file.write(done.stdout)
        return json.loads(done.stdout)

    def alerts(self):
        if not os.path.exists(self.path("alerts.jsonl")):
            return []
        with open(self.path("alerts.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def score(self, status):
        """status: None when the job was cut short."""
        if status is not None and bool(status) != bool(self.job.get("dies")):
            raise RuntimeError(f"the job ended with status {status}:\n{self.tail()}")
        truth, report = fault_plan.Truth(self.path("truth.jsonl")), self.report()
        coverage, healthy = report["coverage"], truth.healthy_ms(0)
        scored = rules.score(truth_of.of_gpu(truth), report, self.alerts())
        scored.update(
            ranks=truth.job["ranks"], ranks_seen=report["job"]["ranks"],
            step_ms_healthy=round(healthy, 3) if healthy else None,
            dropped=coverage.get("dropped"), clock_error_us=coverage.get("clock_error_us"),
            probe_cpu_percent=coverage.get("probe_cpu_percent"),
            sources=[f"{s['name']}: {s['state']}" + (f" ({s['why']})" if s.get("why") else "")
                     for s in coverage.get("sources", [])])
        if self.job.get("complete"):
            scored["missing"] = missing(scored)
        scored["job"] = {key: truth.job[key] for key in (
            "step_ms", "layers", "batch", "parameters", "torch", "nccl", "gpu")}
        scored["notes"] = [{k: n.get(k) for k in ("rank", "step", "what", "why", "count")}
                           for n in truth.notes if n["event"] == "note"]
        return scored


def missing(scored):
    """What the record lacks of a job of which all calls can be seen; one line each."""
    lines = [source for source in scored["sources"] if source.startswith("device.time:")
             and ("were lost" in source or "not measurable" in source)]
    if scored["dropped"]:
        lines.append(f"{scored['dropped']} events were dropped")
    if scored["steps_right"] is False:
        lines.append(f"{scored['report_steps']} steps were found of {scored['true_steps']}")
    return lines


def run_case(arguments, case):
    """One result, whatever happens: a job that fails is counted and ends nothing."""
    result = {"job": case.name, "seed": case.seed, "ranks": case.ranks, "plan": case.windows,
              "attach": bool(case.job.get("attach"))}
    begun = time.monotonic()
    try:
        with Injector(arguments.python, case.directory, case.environment) as injector:
            try:
                result["status"] = case.run(injector)
            except TookTooLong as error:
                result["status"], result["cut_short"] = None, str(error)
        result["score"] = case.score(result["status"])
    except Exception as error:
        result["error"] = f"{error}"[-3000:] or repr(error)
    result["seconds"] = round(time.monotonic() - begun, 1)
    keep_files(arguments, case)
    return result


def keep_files(arguments, case):
    """Copies what explains a result to the output folder; the record as well, when it is small."""
    kept = os.path.join(arguments.out, "jobs", f"{case.name}-{case.seed}")
    os.makedirs(kept, exist_ok=True)
    for name in ("truth.jsonl", "alerts.jsonl", "report.json", "plan.json", "log.txt",
                 "record.slr"):
        if os.path.exists(case.path(name)) and os.path.getsize(case.path(name)) < 64 << 20:
            shutil.copyfile(case.path(name), os.path.join(kept, name))
    shutil.rmtree(case.directory, ignore_errors=True)


def is_right(result):
    """Whether a result is as the issue wants it; skipped ones are."""
    if result.get("skipped"):
        return True
    if "error" in result or "cut_short" in result:
        return False
    counted = [w for w in result["score"]["windows"] if w["counted"]]
    return not result["score"]["false"] and not result["score"].get("missing") and all(
        w["named"] and w["class"] and w["cause"] for w in counted)


def describe(result):
    name = f"{result['job']} seed {result['seed']}"
    if result.get("skipped"):
        return f"{name}: skipped: {result['skipped']}"
    if "error" in result:
        return f"{name}: FAILED: {result['error']}"
    lines = [f"{name}: {len(result['score']['false'])} false alarms, {result['seconds']} s"
             + (f", cut short: {result['cut_short']}" if "cut_short" in result else "")]
    for fault in result["score"]["windows"]:
        found = "".join("-+"[fault[k]] for k in ("named", "class", "cause"))
        lines.append(f"  {fault['kind']} rank {fault['rank']} x{fault['growth']} {found} "
                     f"{fault.get('delay_steps', '')} steps "
                     f"{'' if fault['counted'] else '(not counted) '}{fault['why']} "
                     f"{fault.get('verdict', '')}")
    lines += [f"  missing: {what}" for what in result["score"].get("missing", [])]
    lines += [f"  disturbed: {verdict}" for verdict in result["score"]["disturbed"]]
    lines += [f"  false: {verdict}" for verdict in result["score"]["false"]]
    return "\n".join(lines)


def read_results(path):
    """The results in a file; of several for one job and seed, the last counts."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        results = [json.loads(line) for line in file]
    return list({(r["job"], r["seed"]): r for r in results}.values())


def write_summary(arguments, results):
    table = results_table.table(results)
    with open(os.path.join(arguments.out, "table.md"), "w", encoding="utf-8") as file:
        file.write(table)
    with open(os.path.join(arguments.out, "results.json"), "w", encoding="utf-8") as file:
        json.dump({"test": "gpu", "date": time.strftime("%Y-%m-%d", time.gmtime()),
                   "machine": {"kernel": os.uname().release, "cores": os.cpu_count()},
                   "results": results}, file, indent=1)
    print(table)


def cases(arguments):
    """Seed by seed, so that a part of the series is a fair sample; healthy jobs once."""
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        for name, job in table_of_jobs().items():
            wanted = any(fnmatch.fnmatchcase(name, pattern) for pattern in arguments.only)
            if wanted and ("kinds" in job or seed == arguments.first_seed):
                yield name, job, seed


class Series:
    """The jobs that are still to be run; lanes take them one by one."""

    def __init__(self, arguments, deadline, path, waiting):
        self.arguments, self.deadline, self.path = arguments, deadline, path
        self.waiting, self.new, self.lock = waiting, [], threading.Lock()

    @contextlib.contextmanager
    def room_for_quotas(self):
        """With several lanes: the CPU controller stays on between their quotas."""
        throttle = None
        if self.arguments.lanes > 1 and os.geteuid() == 0:
            with contextlib.suppress(OSError):
                throttle = Throttle()
                if throttle.unified:
                    throttle.enable_controller()
        try:
            yield
        finally:
            if throttle:
                throttle.close()

    def next(self):
        with self.lock:
            return self.waiting.pop(0) if self.waiting else None

    def add(self, result):
        with self.lock:
            self.new.append(result)
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")
            print(describe(result), file=sys.stderr, flush=True)

    def work(self, lane):
        """One lane's thread."""
        lane.enter()
        while (waiting := self.next()) is not None:
            name, job, seed = waiting
            case = Case(self.arguments, name, job, seed, lane, self.deadline)
            why = case.why_not()
            if not why and time.monotonic() + START_SECONDS > self.deadline:
                print(f"tests/gpu: no time left for {name} seed {seed}; call again to go on",
                      file=sys.stderr)
                continue
            self.add({"job": name, "seed": seed, "skipped": why} if why
                     else run_case(self.arguments, case))


def parse_arguments(argv=None):
    def words(text):
        return [word for word in text.split(",") if word]

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slowrank", default=os.path.join(ROOT, "build", "slowrank"))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--out", default=os.environ.get("OUT", "gpu-results"))
    parser.add_argument("--work", default="/var/tmp/slowrank-gpu",
                        help="on a disk, for major page faults")
    parser.add_argument("--only", type=words, default=["*"], help="names of jobs, with * and ?")
    parser.add_argument("--kinds", type=words, default=[], help="only these faults")
    parser.add_argument("--ranks", type=int, default=0,
                        help="default: one for each GPU of a lane, 8 at most")
    parser.add_argument("--lanes", type=int, default=1, help="jobs side by side")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1,
                        help="windows of each kind in a job; cheaper than as many seeds")
    parser.add_argument("--window", type=int, default=0, help="steps")
    parser.add_argument("--gap", type=int, default=0, help="steps")
    parser.add_argument("--healthy-steps", type=int, default=HEALTHY_STEPS)
    parser.add_argument("--budget-seconds", type=float, default=1e9,
                        help="a job that has not ended by then is cut short; what it did is scored")
    parser.add_argument("--run-options", type=shlex.split, default=[], help="for slowrank")
    parser.add_argument("--attach-options", type=shlex.split, default=["--deep"])
    parser.add_argument("--train-options", type=shlex.split, default=[])
    parser.add_argument("--again", action="store_true", help="also what has a result already")
    parser.add_argument("--retry-failed", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--summary", action="store_true", help="run nothing")
    arguments = parser.parse_args(argv)
    unknown = set(arguments.kinds) - set(fault_plan.KINDS)
    if unknown:
        parser.error(f"unknown kinds {', '.join(unknown)}")
    for name in ("slowrank", "out", "work"):
        setattr(arguments, name, os.path.abspath(getattr(arguments, name)))
    return arguments


def main():
    arguments = parse_arguments()
    if arguments.list:
        print("\n".join(table_of_jobs()))
        return 0
    deadline = time.monotonic() + arguments.budget_seconds
    os.makedirs(arguments.out, exist_ok=True)
    path = os.path.join(arguments.out, "results.jsonl")
    results = read_results(path)
    if arguments.summary:
        write_summary(arguments, results)
        return 0
    gpus, why = count_gpus(arguments.python)
    if why:
        print(f"tests/gpu: skipped: {why}", file=sys.stderr)
        return SKIP
    if not os.access(arguments.slowrank, os.X_OK):
        print(f"tests/gpu: there is no {arguments.slowrank}", file=sys.stderr)
        return 2
    lanes = max(1, arguments.lanes)
    arguments.ranks = arguments.ranks or min(gpus // lanes, 8)
    if lanes * arguments.ranks > gpus or arguments.ranks < 2:
        print(f"tests/gpu: {lanes} lanes of {arguments.ranks} ranks do not fit on {gpus} GPUs",
              file=sys.stderr)
        return 2
    os.makedirs(arguments.work, exist_ok=True)
    done = set() if arguments.again else {
        (r["job"], r["seed"]) for r in results if not (arguments.retry_failed and "error" in r)}
    series = Series(arguments, deadline, path,
                    [case for case in cases(arguments) if (case[0], case[2]) not in done])
    with series.room_for_quotas():
        with concurrent.futures.ThreadPoolExecutor(lanes) as threads:
            list(threads.map(series.work, [Lane(index, lanes, gpus, arguments.ranks)
                                           for index in range(lanes)]))
    new = series.new
    write_summary(arguments, read_results(path))
    if new and all(result.get("skipped") for result in new):
        return SKIP
    return 0 if all(is_right(result) for result in new) else 1


if __name__ == "__main__":
    sys.exit(main())
