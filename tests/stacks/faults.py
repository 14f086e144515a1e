#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Programs with a fault at a known line, watched by slowrank: is the line named, and the cause?

For each seed and kind of fault one job of fault_job.py runs with an interpreter of the list. Results go to a file, one JSON
object a line; a later call skips what is there. Prints a table in Markdown, then one JSON object.

    faults.py --build build --results faults.jsonl [--seeds N] [--first-seed N] [--kind KIND]... [--python NAME]...
    faults.py --results faults.jsonl --summary     or --build build --replay: what is said of the records now

Interpreters: "here" is /usr/bin/python3, a path is that one, and 3.9 and 3.13 those of other Debians (tests/cluster/debian_tree.sh),
with all of the job in there: there, --build and --work are in the repository. Needs root.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, *(os.path.join(HERE, "..", part) for part in ("cluster", "corpus"))]
import fault_job  # noqa: E402
import jobs  # noqa: E402
import marked_lines  # noqa: E402
import rules  # noqa: E402

JOB = os.path.join(HERE, "fault_job.py")
TREE = os.path.join(HERE, "..", "cluster", "debian_tree.sh")
PACKAGES = "openmpi-bin,hostname,python3,python3-torch,python3-numpy"
TREES = {"3.9": ("python-3.9", "bullseye", PACKAGES + ",dbus-x11"), "3.13": ("python-3.13", "trixie", PACKAGES)}
NONE, STORAGE = rules.NONE, rules.STORAGE
# kind -> causes that are right. What waits for nothing that is known has none: its line is all there is to say.
CAUSES = {
    "python": {"host-code"}, "pause": NONE, "native": {"host-code"}, "lock": {"lock"}, "mutex": {"lock"}, "file": STORAGE,
    "checkpoint": {"checkpoint"}, "logging": {"logging"}, "data-loader": {"data-loader"}, "data-loader-queue": {"data-loader"},
    "allocator": {"memory-allocator"}, "copies": {"host-to-device-copy"}, "stopped": {"stopped"},
}
ON_DEVICE = {"allocator", "copies"}
PLACELESS = {"stopped"}  # wherever its program was: no look is asked for
PERIODS = {"checkpoint": 10}
# Healthy: nobody does it, or everybody does.
HEALTHY = ("none", "checkpoint", "logging", "data-loader", "python", "lock")
RANKS = 4
LIMIT_S = 180
DISK_BYTES_A_SECOND = 1000 * fault_job.SLOW_DISK_BYTES_A_MS


LINES = marked_lines.lines_of(JOB)


class SlowDisk:
    """A disk of its own whose bytes a second are limited by the kernel, for all of the job; a context manager."""

    def __init__(self, directory):
        self.image, self.folder = (os.path.join(directory, name) for name in ("disk.img", "disk"))
        self.device = self.group = None

    def __enter__(self):
        os.makedirs(self.folder, exist_ok=True)
        with open(self.image, "wb") as file:
            file.truncate(256 << 20)
        self.device = self.call("losetup", "--find", "--show", self.image).strip()
        self.call("mkfs.ext4", "-q", "-F", self.device)
        self.call("mount", self.device, self.folder)
        with open(f"/sys/block/{os.path.basename(self.device)}/dev", encoding="ascii") as file:
            number = file.read().strip()
        first = jobs.cgroup_root("blkio")
        self.group = os.path.join(first or jobs.cgroup_root("io"), f"slowrank-disk-{os.path.basename(self.device)}-{os.getpid()}")
        os.makedirs(self.group, exist_ok=True)
        for name in ("read", "write"):
            if first:
                self.limit(f"blkio.throttle.{name}_bps_device", f"{number} {DISK_BYTES_A_SECOND}")
            else:
                self.limit("io.max", f"{number} {name[0]}bps={DISK_BYTES_A_SECOND}")
        return self

    @staticmethod
    def call(*command):
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def limit(self, name, value):
        with open(os.path.join(self.group, name), "w", encoding="ascii") as file:
            file.write(value)

    def prefix(self):
        """Before the command that is to have it."""
        return ["sh", "-c", f'echo $$ >{self.group}/cgroup.procs && exec "$@"', "sh"]

    def __exit__(self, *_):
        for command in (("umount", self.folder), ("losetup", "--detach", self.device), ("rmdir", self.group)):
            for _ in range(50):  # the job's last process may just be ending
                if subprocess.run(command, check=False, capture_output=True).returncode == 0:
                    break
                time.sleep(0.1)
        os.unlink(self.image)


def draw(kind, seed, healthy, brief):
    """The parameters of one job, from its seed alone."""
    dice = random.Random(f"{seed}/{kind}/{healthy}")
    first = 60 if brief else dice.randrange(100, 160)
    window = 160 if brief else dice.randrange(220, 300)
    return {"kind": kind, "rank": -1 if healthy else dice.randrange(RANKS), "first": first, "last": first + window - 1,
            "steps": first + window + 10, "size-ms": dice.randrange(15, 31) * (4 if PERIODS.get(kind, 1) > 1 else 1),
            "period": PERIODS.get(kind, 1), "seed": seed}


def in_tree(paths, python):
    """Before slowrank's words where all is in a tree: what enters it, and a slowrank with a C library of its own."""
    bundle = os.path.join(paths["work"], "bundle")
    made = subprocess.run([TREE, "make", *TREES[python]], check=True, capture_output=True, text=True)
    subprocess.run([os.path.join(HERE, "..", "..", "scripts", "bundle.sh"), bundle], check=True, stdout=subprocess.DEVNULL,
                   env=dict(os.environ, BUILD=paths["build"]))
    return [TREE, "run", made.stdout.strip(), os.path.join(bundle, "slowrank-own-libc")]


def job_command(paths, directory, python, chosen, slow_folder):
    """The whole command line of a job, and what its environment is to have."""
    native, mpirun = os.path.join(paths["build"], "tests", "stacks", "libfault_native.so"), jobs.mpirun(RANKS)
    program = "python3" if python in TREES else "/usr/bin/python3" if python == "here" else python
    if python == "3.13":  # Open MPI 5
        mpirun = [jobs.OPEN_MPI, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "-n", str(RANKS)]
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    preload = ["sh", "-c", f'LD_PRELOAD={native}${{LD_PRELOAD:+:$LD_PRELOAD}} exec "$@"', "sh"]
    command = [*preload, program, JOB, "--native", native, "--folder", directory, "--truth", os.path.join(directory, "truth.json")]
    for name, value in chosen.items():
        command += ["--" + name, str(value)]
    if slow_folder:
        command += ["--slow-folder", slow_folder]
    if chosen["kind"] in ON_DEVICE:
        command.append("--device")
        stand_in = os.path.join(paths["build"], "stand_in")
        environment.update({"LD_LIBRARY_PATH": f"{stand_in}:{stand_in}/driver", "STAND_IN_GPUS": directory})
    return [*mpirun, *command], environment


def names_line(kind, where):
    lines = {int(line) for line in re.findall(r"fault_job\.py:(\d+)", where)}
    right = LINES["AT", kind] | LINES.get(("HOLDS", kind), set())  # who has a lock is as good
    return bool(lines & right) or (kind in ("native", "mutex") and bool(re.search(r"native_(churn|enter|hold)", where)))


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def lacked_cpu(truth, waits, verdict):
    """Its rank could run and had no CPU, for as long as the verdict says: other programs of this machine, and no fault of the job's."""
    begins, first, last = truth["step_begins_s"], verdict["first_step"], verdict["last_step"]
    span = range(max(first, 0), min(last + 1, len(begins) - 1))
    if verdict["cause"] != "cpu-contention" or not span:
        return False
    length_ms = 1e3 * (begins[span[-1] + 1] - begins[span[0]]) / len(span)
    waited_ms = max(sum(waits[rank][step] for step in span) / len(span) for rank in verdict["ranks"])
    return waited_ms > (1 - 1 / verdict["slowdown"]) * length_ms / 4


def score(truth, waits, report, kind):
    """Of a job: was its fault's rank named, and how; what else was said."""
    ranks = [window["rank"] for window in truth["windows"]]
    verdicts = report["verdicts"]
    mine = [v for v in verdicts if v["ranks"] == ranks and ranks]
    others = [v for v in verdicts if v not in mine]
    disturbed = [v for v in others if lacked_cpu(truth, waits, v)]
    result = {"named": bool(mine), "false": len(others) - len(disturbed), "disturbed": len(disturbed), "verdicts": [rules.shown(v) for v in verdicts]}
    if mine:
        last = max(mine, key=lambda v: v["last_step"] - v["first_step"])  # another may tell of what the fault left behind
        right = CAUSES[kind] | ({"cpu-contention"} if lacked_cpu(truth, waits, last) else set())
        told = marked_lines.where_of(last)
        where = json.dumps(told, ensure_ascii=False) if told else ""
        result.update({
            "class": last["class"], "cause": last["cause"], "where": where, "looked": bool(where),
            "frame right": names_line(kind, where), "cause right": last["cause"] in right, "cause wrong": last["cause"] not in right | NONE})
    return result


def score_again(paths, result):
    """What the slowrank of now says of the record."""
    directory = directory_of(paths, result)
    truth, *waits = [read_json(os.path.join(directory, "truth.json" + end)) for end in ("", *(f".{rank}" for rank in range(RANKS)))]
    report = jobs.Run(directory).report(paths["slowrank"])
    result.update(score(truth, waits, report, result["kind"]))


def directory_of(paths, result):
    name = f"{'healthy-' if result['healthy'] else ''}{result['kind']}-{os.path.basename(result['python'])}-{result['seed']}"
    return os.path.join(paths["work"], name)


def keep_niceness(pid):
    """A session has a share of the CPUs of its own (autogroup), within which alone its processes' niceness counts."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/autogroup", "w", encoding="ascii") as file:
        file.write(str(os.getpriority(os.PRIO_PROCESS, 0)))


def status_of(command, **options):
    """Of a job, which is ended with all that it started when it takes too long."""
    with subprocess.Popen(command, start_new_session=True, **options) as job:
        keep_niceness(job.pid)
        try:
            return job.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(job.pid, number)
                time.sleep(1)
            return job.wait()


def run_case(paths, kind, python, seed, healthy=False, brief=False):
    chosen = draw(kind, seed, healthy, brief)
    result = {"kind": kind, "python": python, "seed": seed, "healthy": healthy, "options": chosen, "load": os.getloadavg()[0]}
    directory = directory_of(paths, result)
    os.makedirs(directory, exist_ok=True)
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        disk = stack.enter_context(SlowDisk(directory)) if kind in ("file", "checkpoint") and not healthy else None
        command, environment = job_command(paths, directory, python, chosen, disk and disk.folder)
        run = jobs.Run(directory)
        run.clean()
        with open(run.log, "w", encoding="utf-8") as log:
            status = status_of(
                [*(disk.prefix() if disk else []), *paths["before"].get(python, [paths["slowrank"]]), "run", "--record", run.record,
                 "--alerts", run.alerts_path, "--", *command],
                cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    result["seconds"] = round(time.monotonic() - started, 1)
    if status:
        result["failed"] = run.tail()
    else:
        score_again(paths, result)
    return result


def summarize(results):
    columns = ("named", "looked", "frame right", "cause right", "cause wrong")
    print("| kind | jobs | " + " | ".join(columns) + " | other verdicts: false, of a CPU that was busy |\n| --- |" + " --- |" * (len(columns) + 2))
    faulty = [r for r in results if not r["healthy"] and "failed" not in r]
    total = {"jobs": len(faulty), "failed": len([r for r in results if "failed" in r])}
    for kind in [*CAUSES, "all"]:
        of_kind = [r for r in faulty if kind in ("all", r["kind"])]
        if of_kind:
            counts = [sum(bool(r.get(column)) for r in of_kind) for column in columns]
            print(f"| {kind} | {len(of_kind)} | " + " | ".join(map(str, counts)) + f" | {sum(r['false'] for r in of_kind)}, {sum(r['disturbed'] for r in of_kind)} |")
            if kind == "all":
                total.update(zip(columns, counts))
    healthy = [r for r in results if r["healthy"] and "failed" not in r]
    total.update({"healthy": len(healthy), "healthy with a verdict": len([r for r in healthy if r["false"]]),
                  "pythons": {p: len([r for r in results if r["python"] == p]) for p in sorted({r["python"] for r in results})}})
    print(json.dumps(total))
    return total


def has_torch(python):
    path = {"here": "/usr/bin/python3"}.get(python, python)
    return python in TREES or subprocess.run([path, "-c", "import torch"], check=False, capture_output=True).returncode == 0


def read_results(path):
    if not path or not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--work", default="faults")
    parser.add_argument("--results")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=[*CAUSES, "healthy"])
    parser.add_argument("--python", action="append")
    parser.add_argument("--brief", action="store_true", help="short jobs")
    parser.add_argument("--at-once", type=int, default=1, metavar="JOBS")
    parser.add_argument("--least", type=float, help="percent of the frames and causes that are to be right; no more of the others wrong")
    parser.add_argument("--replay", action="store_true", help="what is there, with the slowrank of now")
    parser.add_argument("--summary", action="store_true", help="only the table of what is there")
    arguments = parser.parse_args()
    results, build = read_results(arguments.results), os.path.abspath(arguments.build)
    paths = {"build": build, "slowrank": os.path.join(build, "slowrank"), "work": os.path.abspath(arguments.work)}
    if arguments.replay:
        for result in results:
            if "failed" not in result:
                score_again(paths, result)
    elif not arguments.summary:
        if os.geteuid():
            sys.exit("faults: needs root, for BPF and a slow disk")
        kinds = [(kind, False) for kind in CAUSES] + [(kind, True) for kind in HEALTHY]
        kinds = [(k, h) for k, h in kinds if not arguments.kind or (not h and k in arguments.kind) or (h and "healthy" in arguments.kind)]
        paths["before"] = {python: in_tree(paths, python) for python in TREES if python in (arguments.python or TREES)}
        done = {(r["kind"], r["python"], r["seed"], r["healthy"]) for r in results}
        cases = [(kind, python, seed, healthy, arguments.brief)
                 for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds)
                 for python in arguments.python or ["here", *TREES] for kind, healthy in kinds
                 if (kind, python, seed, healthy) not in done and not (kind == "data-loader" and not has_torch(python))
                 and not (kind in ON_DEVICE and python in TREES)]  # the stand-ins are built for this machine's Open MPI
        with concurrent.futures.ThreadPoolExecutor(arguments.at_once) as pool:
            for made in concurrent.futures.as_completed([pool.submit(run_case, paths, *case) for case in cases]):
                results.append(made.result())
                print({k: v for k, v in results[-1].items() if k not in ("options", "verdicts", "stacks")}, flush=True)
                if arguments.results:
                    with open(arguments.results, "a", encoding="utf-8") as file:
                        file.write(json.dumps(results[-1]) + "\n")
    total = summarize(results)
    if arguments.least is None:
        return 1 if total["failed"] else 0
    least = total["jobs"] * arguments.least / 100
    placeless = len([r for r in results if r["kind"] in PLACELESS and not r["healthy"] and "failed" not in r])
    missed = [name for name in ("named", "cause right") if total.get(name, 0) < least]
    missed += [name for name in ("frame right",) if total.get(name, 0) < (total["jobs"] - placeless) * arguments.least / 100]
    missed += [name for name in ("cause wrong",) if total.get(name, 0) > total["jobs"] - least]
    missed += [name for name in ("failed", "healthy with a verdict") if total[name]]
    print(f"{total['jobs']} jobs, {total.get('frame right', 0)} lines and {total.get('cause right', 0)} causes right, "
          f"{total.get('cause wrong', 0)} causes wrong; {total['healthy']} healthy ones" + (f": MISSED: {', '.join(missed)}" if missed else ""))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
