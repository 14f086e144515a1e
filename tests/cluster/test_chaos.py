#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs whose probes and coordinator are cut off, stopped, killed, starved and led astray, each on a node of its own.
The job is as unwatched: the same status and output, its end in time. What was acknowledged is in the record, once, and
what is missing is counted. Nobody is blamed who was not late by the job's own clocks. Prints a table."""
import collections
import json
import os
import random
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import jobs  # noqa: E402
from harness import check  # noqa: E402
from test_strangers import make_key, on  # noqa: E402

PORTS = "24000-31999"  # one of them is the coordinator's
STEP_MS = 100
START_S, HEALED_S = 4, 8  # before the first disturbance, at most; after the last, at least
QUICK_S = 1               # as long as anything lasts in CI
LATE_S = {0: 2, 3: 5}     # by status: mpirun ends a job that failed in steps of a second
LATE_LEAST = 0.05         # of the job's time: who is less late is healthy
SPOOL_MAX = 64 << 10      # some 20 to 40 s of batches
FULL_S = 55
HOUR_NS = 3600 * 10**9
RECORD_DISK, SPOOL_DISK = "64m", "1m"

RANK = """{forks}"$@"
status=$?
echo "rank $OMPI_COMM_WORLD_RANK: $status"
exit $status"""
FORKS = """test "$OMPI_COMM_WORLD_RANK" != {rank} || python3 -c '
import os, time
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    child = os.fork() or os._exit(0)
    os.waitpid(child, 0)
    time.sleep(0.001)
' &
"""


def words_of(pid):
    return jobs.arguments(pid)[:2]


def parent(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return int(file.read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


class Disk:
    """A file system of its own, which can be full."""

    def __init__(self, path, size):
        self.path = path
        os.makedirs(path, mode=0o700, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", path], check=True)

    def fill(self):
        with open(os.path.join(self.path, "full"), "wb", buffering=0) as file:
            size = 1 << 20
            while size:
                try:
                    file.write(bytes(size))
                except OSError:
                    size //= 2

    def clear(self):
        os.unlink(os.path.join(self.path, "full"))

    def remove(self):
        subprocess.run(["umount", self.path], check=True)


class Job:
    """One job, whose slowrank is disturbed while it runs."""

    def __init__(self, paths, nodes, name, seconds, chance, longest=3600):
        self.paths, self.nodes, self.chance, self.longest = paths, nodes, chance, longest
        self.state = f"/run/{nodes.name}-cluster"
        self.directory = os.path.join(paths.directory, name)
        shutil.rmtree(self.directory, ignore_errors=True)
        self.disks = [Disk(self.directory, RECORD_DISK)]  # and what else is made for the job
        for node in range(nodes.node_count):
            self.disks.append(Disk(f"{self.state}/node{node}/tmp/slowrank-0", SPOOL_DISK))
            self.step_clock(node, 0)
        self.steps = int(seconds * 1000 / STEP_MS)
        self.status = chance.choice((0, 0, 3))
        self.before, self.fork_rank, self.fork_s = None, None, 0
        self.killed = set()  # probes
        self.process = self.truth = None

    def path(self, name):
        return os.path.join(self.directory, name)

    def command(self, watched):
        slowrank = ["env", "LD_PRELOAD=" + jobs.preloadable(os.path.join(os.path.dirname(self.paths.slowrank), "tests", "libstepped_clock.so"), "/run"),
                    "STEPPED_CLOCK=/dev/shm/clock", self.paths.slowrank, "run", "--quiet", "--record", self.path("record.slr"),
                    "--alerts", self.path("alerts"), "--report", self.path("report.json"), "--spool-max", str(SPOOL_MAX),
                    "--key-file", os.path.join(self.paths.directory, "key"), "--", "env", "-u", "LD_PRELOAD"]
        count = self.nodes.node_count
        forks = "" if self.fork_rank is None else FORKS.format(rank=self.fork_rank, seconds=self.fork_s)
        return [*self.nodes.prefix(), *jobs.mpirun(count, *self.nodes.mpirun_options()), *(slowrank if watched else []),
                "sh", "-c", RANK.format(forks=forks), "rank",
                *jobs.workload_command(self.paths.workload, self.path("truth.jsonl"), steps=self.steps, step_ms=STEP_MS,
                                       turn_ms=STEP_MS / 4, collectives=2, bytes=4096, exit_status=self.status)]

    def start(self, watched=True):
        self.process = subprocess.Popen(self.command(watched), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, preexec_fn=self.before)

    def end(self):
        """What it wrote, but for slowrank's lines and those of mpirun that have numbers of processes in them."""
        output, errors = self.process.communicate(timeout=300)
        ended_ns = time.monotonic_ns()
        self.truth = jobs.Truth(self.path("truth.jsonl"))
        own = [line for line in errors.splitlines() if line.startswith("slowrank")]
        foreign = [line for line in errors.splitlines() if line.startswith("workload")]
        late_s = (ended_ns - max((end["monotonic_ns"] for end in self.truth.ends), default=0)) / 1e9
        return (self.process.returncode, sorted(output.splitlines()), foreign), own, late_s

    def slowranks(self):
        """Processes of slowrank for this job, by what they are: coordinators, and probes by node."""
        record, found = self.path("record.slr").encode(), {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            words = jobs.arguments(name)
            if words[:1] == [self.paths.slowrank.encode()] and record in words:
                found[int(name)] = words[1]
        coordinators = [pid for pid, what in found.items() if what == b"coordinator"]
        probes = [pid for pid, what in found.items() if what == b"run" and found.get(parent(pid)) == b"run"]
        return coordinators, probes, list(found)

    def wait(self, least, most):
        time.sleep(min(self.longest, self.chance.uniform(least, most)))

    def signal(self, pids, number):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def some_nodes(self):
        others = range(1, self.nodes.node_count)  # the coordinator is on node0
        return self.chance.sample(others, self.chance.randint(1, len(others)))

    def some_probes(self):
        probes = self.slowranks()[1]
        return self.chance.sample(probes, self.chance.randint(1, max(1, len(probes) // 2))) if probes else []

    def step_clock(self, node, offset_ns):
        file = os.open(f"{self.state}/node{node}/shm/clock", os.O_WRONLY | os.O_CREAT, 0o600)
        os.pwrite(file, struct.pack("=q", offset_ns), 0)  # never shorter: it is mapped
        os.close(file)

    def fini(self):
        for disk in self.disks:
            disk.remove()

    # What went wrong, as numbers and one line each.

    def batches(self):
        """By probe: numbers in the order of the record, how many it counts as lost, whether its last one came."""
        output = subprocess.run([os.path.join(os.path.dirname(self.paths.slowrank), "tests", "feeder"), "batches",
                                 self.path("record.slr")], check=True, capture_output=True, text=True).stdout
        probes = {}
        for line in output.splitlines():
            probe, number, lost, final, _ = line.split()
            entry = probes.setdefault(probe, [[], 0, False])
            entry[0].append(int(number))
            entry[1] = max(entry[1], int(lost))
            entry[2] |= final == "1"
        return probes

    def judge_batches(self):
        """A probe sends one batch at a time: what is missing before another one was acknowledged, or counted as lost."""
        lost = doubled = counted = 0
        unfinished = []
        for probe, (numbers, told, final) in self.batches().items():
            holes = max(numbers) + 1 - len(set(numbers))
            lost += max(0, holes - told)
            counted += told
            doubled += len(numbers) - len(set(numbers))
            if not final:
                unfinished.append(probe)
        lost += max(0, len(unfinished) - len(self.killed))
        return lost, doubled, counted

    @staticmethod
    def uncounted_steps(report):
        """Of the rank that misses most, steps that the coverage does not count as incomplete."""
        missing = max((report["job"]["steps"] - rank["steps"] for rank in report["ranks"]), default=0)
        return max(0, missing - report["coverage"]["steps_incomplete"])

    def late_shares(self, ranks, first_unix_ns, last_unix_ns):
        """By how much later than the median rank each made its calls, step by step, as a share of the time of all steps that
        have some of the time between."""
        steps = collections.defaultdict(dict)
        for entry in self.truth.own:
            steps[entry["step"]][entry["rank"]] = entry
        begin, late_ms, ends = self.truth.job["realtime_ns"], dict.fromkeys(ranks, 0.0), []
        for _, entries in sorted(steps.items()):
            end = max(entry["realtime_ns"] for entry in entries.values())
            if end >= first_unix_ns and begin <= last_unix_ns:
                ends += [begin, end]
                usual = statistics.median(entry["called_ns"] for entry in entries.values())
                for rank in ranks:
                    late_ms[rank] += max(0, entries.get(rank, {}).get("called_ns", usual) - usual) / 1e6
            begin = end
        return {rank: late / max(1, (max(ends) - min(ends)) / 1e6) if ends else 0.0 for rank, late in late_ms.items()}

    def false_alerts(self):
        """Alerts that name a rank which was not late by its own clock. A coordinator's clock may be off by hours."""
        lines = open(self.path("alerts"), encoding="utf-8").read().splitlines() if os.path.exists(self.path("alerts")) else []
        start_ns, wrong = self.truth.job["realtime_ns"], []
        for verdict in (entry["verdict"] for entry in map(json.loads, lines) if entry["event"] == "alert"):
            onset, told = (start_ns + (verdict[name] - start_ns) % HOUR_NS for name in ("onset_unix_ns", "alert_unix_ns"))
            shares = self.late_shares(verdict["ranks"], onset, told)
            if shares and min(shares.values()) < LATE_LEAST:
                shares = {rank: round(share, 3) for rank, share in shares.items()}
                wrong.append(f"{verdict['class']} {verdict['cause']} {shares} {verdict['slowdown']} told after {(told - onset) / 1e9:.1f} s")
        return wrong

    def report(self):
        done = jobs.whole_report(self.paths.slowrank, self.path("record.slr"))
        return json.loads(done.stdout)


# Each disturbs a job, and has it healed when it returns.

def partition(seconds):
    def disturb(job):
        for node in job.some_nodes():
            job.nodes.change("close", "node0", PORTS, f"node{node}")
        time.sleep(seconds)
        job.nodes.change("open", "node0")
    return disturb


def partition_short(job):
    for _ in range(4):
        partition(1)(job)
        job.wait(0.2, 2)


def partition_all(job):
    """Longer than what the probes can keep."""
    job.nodes.change("close", "node0", PORTS)
    time.sleep(FULL_S)
    job.nodes.change("open", "node0")


def stop_probes(job):
    probes = job.some_probes()
    job.signal(probes, signal.SIGSTOP)
    job.wait(1, 12)
    job.signal(probes, signal.SIGCONT)


def stop_coordinator(job):
    coordinators = job.slowranks()[0]
    job.signal(coordinators, signal.SIGSTOP)
    job.wait(1, 15)
    job.signal(coordinators, signal.SIGCONT)


def kill_probes(job):
    probes = job.some_probes()
    job.killed.update(probes)
    job.signal(probes, signal.SIGKILL)


def kill_coordinator(job):
    for _ in range(3):
        job.signal(job.slowranks()[0], signal.SIGKILL)
        job.wait(0.5, 4)


def fill_record(job):
    job.disks[0].fill()
    job.wait(2, 10)
    job.disks[0].clear()


def fill_spools(job):
    """While they are needed."""
    for disk in job.disks[1:job.nodes.node_count + 1]:
        disk.fill()
    partition_all(job)
    for disk in job.disks[1:job.nodes.node_count + 1]:
        disk.clear()


def step_clocks(job):
    for _ in range(2):
        for node in {0, *job.some_nodes()}:
            job.step_clock(node, job.chance.choice((-1, 1)) * HOUR_NS)
        job.wait(2, 5)
        for node in range(job.nodes.node_count):
            job.step_clock(node, 0)
        job.wait(2, 2)


def flap(job):
    """Connections are reset, some five times a second."""
    end = time.monotonic() + min(12, job.longest)
    first, last = PORTS.split("-")
    while time.monotonic() < end:
        subprocess.run(on("node0", "ss", "--kill", "--tcp", f"sport >= :{first} and sport <= :{last}"),
                       check=True, stdout=subprocess.DEVNULL)
        time.sleep(job.chance.uniform(0.05, 0.3))


def wait_for_forks(job):
    time.sleep(job.fork_s)


def several(job):
    """Three of the others at once."""
    what = job.chance.sample([partition_short, stop_probes, stop_coordinator, kill_coordinator, fill_record, step_clocks,
                              flap], 3)
    threads = [threading.Thread(target=disturb, args=(job,)) for disturb in what]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def in_turn(job):
    """A little of each, and at last some probes are killed."""
    for disturb in (partition(QUICK_S), stop_probes, stop_coordinator, fill_record, step_clocks, flap, kill_coordinator,
                    kill_probes):
        disturb(job)


class Memory:
    """A cgroup for the job, with a limit that slowrank gets out of the way of."""

    def __init__(self):
        self.path = os.path.join(jobs.cgroup_root("memory"), f"slowrank-chaos-{os.getpid()}")
        os.mkdir(self.path)
        self.limit("64G")

    def file(self, *names):
        return next(path for path in (os.path.join(self.path, name) for name in names) if os.path.exists(path))

    def limit(self, size):
        with open(self.file("memory.max", "memory.limit_in_bytes"), "w", encoding="ascii") as file:
            file.write(str(size))

    def usage(self):
        with open(self.file("memory.current", "memory.usage_in_bytes"), encoding="ascii") as file:
            return int(file.read())

    def enter(self):
        with open(self.file("cgroup.procs"), "w", encoding="ascii") as file:
            file.write("0")

    def remove(self):
        jobs.wait_until(self.is_removed, "the group is empty")

    def is_removed(self):
        try:
            os.rmdir(self.path)
        except OSError:
            return False
        return True


HOG = """open("/proc/self/oom_score_adj", "w").write("1000")
while True:
    taken = bytearray(24 << 20)
    for i in range(0, len(taken), 4096):
        taken[i] = 1
"""


def press_memory(job):
    """The group has hardly more than the job needs, and somebody else in it takes that again and again."""
    memory = job.disks[-1]
    memory.limit(memory.usage() + (32 << 20))
    hog = subprocess.Popen([sys.executable, "-c", HOG], preexec_fn=memory.enter)
    time.sleep(10)
    hog.kill()
    hog.wait()
    memory.limit("64G")


KINDS = {  # seconds that it takes at most, and what is done
    "nothing": (3, lambda job: time.sleep(3)),
    "cut off for 1 s, 4 times": (14, partition_short),
    "cut off for 60 s": (60, partition(60)),
    "cut off till the spool is full": (FULL_S, partition_all),
    "probes stopped": (12, stop_probes),
    "coordinator stopped": (15, stop_coordinator),
    "probes killed": (3, kill_probes),
    "coordinator killed": (12, kill_coordinator),
    "record's disk full": (10, fill_record),
    "spools' disks full": (FULL_S, fill_spools),
    "clocks step by an hour": (14, step_clocks),
    "500 forks a second": (12, wait_for_forks),
    "memory short": (11, press_memory),
    "connections flap": (13, flap),
    "three of these at once": (15, several),
}
QUICK = {"a little of each": (16, in_turn)}


def run_job(paths, nodes, kind, number, chance, longest=3600):
    """One job; returns lost, doubled, harmed, false and batches counted as lost, and what is to be printed."""
    seconds, disturb = {**KINDS, **QUICK}[kind]
    job = Job(paths, nodes, str(number), START_S + seconds + min(longest, HEALED_S), chance, longest)
    trouble = []
    try:
        if disturb is press_memory:
            job.disks.append(Memory())
            job.before = job.disks[-1].enter
        if disturb is wait_for_forks:
            job.fork_rank, job.fork_s = chance.randrange(nodes.node_count), seconds
        job.start()
        jobs.wait_until(lambda: os.path.exists(job.path("record.slr")) and
                        os.path.getsize(job.path("record.slr")) > 4096, "batches are recorded", job.process)
        job.wait(0.3 * START_S, START_S)
        disturb(job)
        (status, output, foreign), own, late_s = job.end()
        jobs.wait_until(lambda: not job.slowranks()[2], "slowrank ends, too", seconds=60)
        wanted = sorted(f"rank {rank}: {job.status}" for rank in range(nodes.node_count))
        if status != job.status or foreign or (output != wanted and not status):
            trouble.append(f"exit {status} instead of {job.status}, {output}, {foreign}")
        if late_s > LATE_S[job.status]:
            trouble.append(f"its end is {late_s:.1f} s late")
        harmed = len(trouble)
        report = job.report()
        lost, doubled, counted = job.judge_batches()
        lost += job.uncounted_steps(report)
        false = job.false_alerts()
        trouble += [f"false: {text}" for text in false]
        coverage = report["coverage"]
        summary = (f"{report['job']['ranks']} ranks, {report['job']['steps']} of {job.steps} steps, "
                   f"{coverage['steps_incomplete']} incomplete, {coverage['batches_lost']} batches counted as lost, "
                   f"{late_s:.1f} s late, {len(own)} lines")
        if harmed or lost or doubled or false:
            kept = job.directory + ".kept"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(job.directory, kept)
            trouble.append(f"see {kept}; {sorted(set(own))}")
    finally:
        if job.process:
            job.process.kill()
        job.fini()
    return (lost, doubled, harmed, len(false), counted), summary, trouble


def chaos(node_count, kinds, minutes, longest=3600):
    """All kinds in turn, until the time is up."""
    def case(paths):
        seed = int(os.environ.get("CHAOS_SEED", time.time()))
        print(f"seed {seed}", flush=True)
        make_key(paths, "key")
        rows, number, end = {}, 0, time.monotonic() + 60 * minutes
        with jobs.Cluster(paths.directory, node_count, 1) as nodes:
            while number < len(kinds) or time.monotonic() < end:
                kind = kinds[number % len(kinds)]
                found, summary, trouble = run_job(paths, nodes, kind, number, random.Random(seed + number), longest)
                print(f"{number} {kind}: {summary}", *trouble, sep="\n    ", flush=True)
                row = rows.setdefault(kind, [0] * 6)
                for i, value in enumerate((1, *found)):
                    row[i] += value
                number += 1
        print(f"{'what':<32} {'tries':>6} {'lost':>5} {'doubled':>8} {'harmed':>7} {'false':>6} {'counted':>8}")
        for what, row in rows.items():
            print(f"{what:<32} {row[0]:>6} {row[1]:>5} {row[2]:>8} {row[3]:>7} {row[4]:>6} {row[5]:>8}")
        check(not any(sum(row[1:5]) for row in rows.values()), "something was lost, doubled, harmed or blamed")
        full = [rows[kind][5] for kind in kinds if {**KINDS, **QUICK}[kind][1] in (partition_all, fill_spools)]
        check(all(full), "no spool was full")
    return case


CASES = {"quick": chaos(4, list(QUICK), 0, QUICK_S), "half_hour": chaos(16, list(KINDS), 30)}

if __name__ == "__main__":
    harness.main(CASES)
