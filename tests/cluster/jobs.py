# SPDX-License-Identifier: Apache-2.0
"""Starting jobs of the workload, alone or under slowrank, and reading what they leave behind.

Python's standard library only. Everything here is for one machine; tests/cluster/cluster.sh
makes several nodes of it.
"""
import atexit
import contextlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import time


OPEN_MPI = "mpirun.openmpi" if shutil.which("mpirun.openmpi") else "mpirun"  # Debian's, where mpirun is another MPI's
AUTOGROUP = "/proc/sys/kernel/sched_autogroup_enabled"


def mpirun(rank_count, *options):
    """The mpirun of Open MPI, fit for more ranks than cores and for root in a container."""
    return [OPEN_MPI, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca",
            "mpi_yield_when_idle", "1", "--mca", "btl_vader_single_copy_mechanism", "none",
            "-n", str(rank_count), *options]


def mpich(rank_count):
    """The mpirun of MPICH, under the name that it has beside Open MPI's."""
    return ["mpirun.mpich", "-n", str(rank_count)]


def preloadable(library, folder=None):
    """A name of the library for LD_PRELOAD, where blanks and colons end names; folder: where a link to it may be."""
    if not re.search("[ :]", library):
        return library
    folder = tempfile.mkdtemp(dir=folder)
    atexit.register(shutil.rmtree, folder)
    os.symlink(library, os.path.join(folder, "library.so"))
    return os.path.join(folder, "library.so")


class Truth:
    """The truth log of one job."""

    def __init__(self, path):
        self.job = None
        self.steps, self.others, self.ranks, self.faults, self.ends, self.own = [], [], [], [], [], []
        with open(path, encoding="utf-8") as file:
            for line in file:
                entry = json.loads(line)
                event = entry["event"]
                if event == "job":
                    self.job = entry
                elif event == "step":
                    self.steps.append(entry)
                elif event == "rank":
                    self.ranks.append(entry)
                elif event == "fault":
                    self.faults.append(entry)
                elif event == "end":
                    self.ends.append(entry)
                elif event == "own":
                    self.own.append(entry)
                else:
                    self.others.append(entry)
        self.steps.sort(key=lambda entry: entry["step"])
        self.ranks.sort(key=lambda entry: entry["rank"])

    def lengths_ms(self, first, last):
        """Lengths of the steps first..last; a step lasts until the next pass begins."""
        starts = sorted(entry["monotonic_ns"] for entry in self.steps + self.others)
        after = dict(zip(starts, starts[1:]))
        return [(after[entry["monotonic_ns"]] - entry["monotonic_ns"]) / 1e6
                for entry in self.steps
                if first <= entry["step"] <= last and entry["monotonic_ns"] in after]

    def fault_growth(self, fault):
        """Mean step length in the fault's window, over the median of the steps outside of all."""
        healthy = [length for step, length in zip(self.steps, self.lengths_ms(0, 1 << 62))
                   if not any(f["first_step"] <= step["step"] <= f["last_step"] + 1
                              for f in self.faults) and step["step"] > 2]
        during = self.lengths_ms(fault["first_step"], fault["last_step"])
        return statistics.mean(during) / statistics.median(healthy)

    def culprits(self, fault):
        """The ranks that a perfect detector names."""
        if fault["kind"] != "comm":
            return [fault["rank"]]
        host = {entry["rank"]: entry["host"] for entry in self.ranks}
        return [rank for rank in sorted(host) if host[rank] == host[fault["rank"]]]


def workload_command(program, truth_path, injector=None, faults=(), split=False, profiler=False,
                     read_loss=False, all_to_all=False, pipeline=False, by_pointer=False, helper=False,
                     duplicate=False, **options):
    """The command line of one rank; options are those of the workload, with underscores."""
    command = [program, "--truth", truth_path]
    for name, value in options.items():
        command += ["--" + name.replace("_", "-"), str(value)]
    if split:
        command.append("--split")
    if profiler:
        command.append("--profiler")
    if read_loss:
        command.append("--read-loss")
    if all_to_all:
        command.append("--all-to-all")
    if pipeline:
        command.append("--pipeline")
    if helper:
        command.append("--helper")
    if duplicate:
        command.append("--duplicate")
    if by_pointer:
        command.append("--by-pointer")
    if injector:
        command += ["--injector", injector]
    for fault in faults:
        command += ["--fault", fault]
    return command


def fresh_directory(directory):
    """Makes the directory; removes the truth log of an earlier job."""
    os.makedirs(directory, exist_ok=True)
    truth_path = os.path.join(directory, "truth.jsonl")
    if os.path.exists(truth_path):
        os.unlink(truth_path)
    return truth_path


def run_workload(program, directory, rank_count, prefix=(), timeout=120, **options):
    """Runs one job to its end and returns its truth; raises when the job fails."""
    truth_path = fresh_directory(directory)
    command = [*prefix, *mpirun(rank_count), *workload_command(program, truth_path, **options)]
    subprocess.run(command, check=True, timeout=timeout, stdin=subprocess.DEVNULL)
    return Truth(truth_path)


def wait_until(true, what, process=None, seconds=60):
    """Waits for the thing itself; raises when it does not come, or when the process ends."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline or (process and process.poll() is not None):
            raise RuntimeError("not in time: " + what)
        time.sleep(0.01)


def children(pid):
    """What ended meanwhile has none."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def descendants(pid):
    return [below for child in children(pid) for below in (child, *descendants(child))]


def arguments(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def coordinators(run):
    """The coordinator that slowrank run, started by hand, has below it."""
    return [pid for pid in descendants(run) if b"coordinator" in arguments(pid)[:2]]


def probes(run):
    """Of slowrank run, started by hand: the probe is a child of its relay, with the same words."""
    words = arguments(run)
    return [probe for relay in children(run) if arguments(relay) == words
            for probe in children(relay) if arguments(probe) == words]


def whole_report(slowrank, record, seconds=30):
    """The JSON report of a record that a coordinator may still be at work on."""
    deadline = time.monotonic() + seconds
    while True:
        done = subprocess.run([slowrank, "report", record, "--format", "json"],
                              capture_output=True, text=True, timeout=120, check=False)
        if done.returncode == 0:
            return done
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"slowrank report: exit {done.returncode}: {done.stderr.strip()}")
        time.sleep(0.2)


class Hold:
    """A job of the workload whose ranks stop before step 20: what a test prepares meanwhile is in
    time, however long that takes. Its options go behind the workload's command."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "hold")
        self.options = ["--hold", self.path]
        for path in (self.path, self.path + ".go"):
            if os.path.exists(path):
                os.unlink(path)

    def wait(self, rank_count, job):
        wait_until(lambda: os.path.exists(self.path) and
                   os.path.getsize(self.path) == rank_count, "all ranks reach step 20", job)

    def end(self):
        with open(self.path + ".go", "w", encoding="utf-8"):
            pass


def attach_to_running(slowrank, directory, launcher, command, rank_count, options=()):
    """Attaches to a job that runs already, and waits for the end of both. command is the
    workload's. Returns the exit statuses of the job and of slowrank."""
    hold, log = Hold(directory), os.path.join(directory, "attach.log")
    with open(log, "w+", encoding="utf-8") as said:
        job = subprocess.Popen([*launcher, *command, *hold.options], stdin=subprocess.DEVNULL)
        hold.wait(rank_count, job)
        watcher = subprocess.Popen([slowrank, "attach", *options, "--pid", str(job.pid)],
                                   stdin=subprocess.DEVNULL, stderr=said)
        wait_until(lambda: "slowrank: watching" in os.pread(said.fileno(), 65536, 0).decode(),
                   "attach watches", watcher)
        hold.end()
        return job.wait(timeout=150), watcher.wait(timeout=60)


def cgroup_root(controller):
    """Where a controller is mounted: v1 before v2. None without one."""
    unified = None
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        for line in mounts:
            _, directory, kind, options, *_ = line.split()
            if kind == "cgroup" and controller in options.split(","):
                return directory
            if kind == "cgroup2":
                unified = unified or directory
    if unified:
        with open(os.path.join(unified, "cgroup.controllers"), encoding="utf-8") as file:
            if controller in file.read().split():
                return unified
    return None


def can_throttle():
    return os.geteuid() == 0 and cgroup_root("cpu") is not None


def can_limit_memory():
    return os.geteuid() == 0 and cgroup_root("memory") is not None


def fault_cgroups():
    """Paths of the cgroups that faults of the workload are in, or were."""
    roots = {cgroup_root(controller) for controller in ("cpu", "memory")} - {None}
    return [os.path.join(root, name) for root in sorted(roots) for name in os.listdir(root)
            if name.startswith("slowrank-fault-")]


def remove_stale_cgroups():
    """Removes cgroups of ranks that were killed."""
    for path in fault_cgroups():
        if not os.path.exists("/proc/" + path.rsplit("-", 1)[1]):
            try:
                os.rmdir(path)
            except OSError:
                pass


HERE = os.path.dirname(os.path.abspath(__file__))


class Injector:
    """The fault injector as a process beside the job; a context manager."""

    def __init__(self, program, directory, shape_command=None):
        self.socket = os.path.join(directory, f"injector-{os.getpid()}.socket")
        self.command = [program, "--socket", self.socket]
        if shape_command:
            self.command += ["--shape-command", shape_command]
        self.process = None

    def __enter__(self):
        os.makedirs(os.path.dirname(self.socket), exist_ok=True)
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while not os.path.exists(self.socket):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the fault injector does not start")
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=20)


def remove_stale_clusters():
    """Removes nodes left by a test that was killed: their name holds its process id."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False)
    names = {line.split("-")[0] for line in listed.stdout.splitlines() if "-switch" in line}
    for name in names:
        owner = name.removeprefix("slowrank")
        if owner.isdigit() and not os.path.exists("/proc/" + owner):
            subprocess.run([Cluster.SCRIPT, "down"], check=False,
                           env=dict(os.environ, CLUSTER_NAME=name))


@contextlib.contextmanager
def one_by_one():
    """While it lasts, hogs and ranks share a core one by one, not by session: some launchers make one for each rank."""
    before = None
    if os.access(AUTOGROUP, os.W_OK):
        with open(AUTOGROUP, encoding="utf-8") as file:
            before = file.read()
        with open(AUTOGROUP, "w", encoding="utf-8") as file:
            file.write("0")
    try:
        yield
    finally:
        if before is not None:
            with open(AUTOGROUP, "w", encoding="utf-8") as file:
                file.write(before)


class Cluster:
    """Nodes made of network namespaces; a context manager. Needs root."""

    SCRIPT = os.path.join(HERE, "cluster.sh")

    def __init__(self, directory, node_count, ranks_per_node):
        self.node_count, self.ranks_per_node = node_count, ranks_per_node
        self.hostfile = os.path.join(directory, "hostfile")
        self.name = f"slowrank{os.getpid()}"

    def __enter__(self):
        remove_stale_clusters()
        os.environ["CLUSTER_NAME"] = self.name
        os.makedirs(os.path.dirname(self.hostfile), exist_ok=True)
        with open(self.hostfile, "w", encoding="utf-8") as file:
            for node in range(self.node_count):
                file.write(f"node{node} slots={self.ranks_per_node}\n")
        subprocess.run([self.SCRIPT, "up", str(self.node_count)], check=True)
        return self

    def __exit__(self, *_):
        subprocess.run([self.SCRIPT, "down"], check=True)
        del os.environ["CLUSTER_NAME"]

    def prefix(self):
        """What comes before a command that is to run on the first node."""
        return [self.SCRIPT, "exec", "node0"]

    def mpirun_options(self, agent=None):
        return ["--hostfile", self.hostfile, "--mca", "plm_rsh_agent",
                agent or f"/run/{self.name}-cluster/agent",
                "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "btl", "tcp,self",
                "--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0"]

    def mpich_options(self):
        hosts = ",".join(f"node{node}:{self.ranks_per_node}" for node in range(self.node_count))
        return ["-hosts", hosts, "-launcher", "rsh", "-launcher-exec",
                f"/run/{self.name}-cluster/agent"]

    def change(self, *words):
        """As cluster.sh says."""
        subprocess.run([self.SCRIPT, *words], check=True)

    def start_slurm(self, *how):
        """As cluster.sh says. Returns None, or why Slurm does not run here."""
        done = subprocess.run([self.SCRIPT, *(how or ["slurm"])], capture_output=True, text=True, check=False)
        return None if done.returncode == 0 else done.stderr


class Run:
    """What a job under slowrank left behind."""

    def __init__(self, directory):
        self.record = os.path.join(directory, "record.slr")
        self.alerts_path = os.path.join(directory, "alerts.jsonl")
        self.log = os.path.join(directory, "log.txt")
        self.status = None

    def clean(self):
        for path in (self.record, self.alerts_path, self.log):
            if os.path.exists(path):
                os.unlink(path)

    def alerts(self):
        if not os.path.exists(self.alerts_path):
            return []
        with open(self.alerts_path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def report(self, slowrank):
        return json.loads(whole_report(slowrank, self.record).stdout)

    def tail(self):
        if not os.path.exists(self.log):
            return ""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-25:])


def run_watched(slowrank, directory, command, prefix=(), timeout=300, options=()):
    """Runs a command under slowrank run, to its end; its output goes to log.txt."""
    os.makedirs(directory, exist_ok=True)
    run = Run(directory)
    run.clean()
    with open(run.log, "w", encoding="utf-8") as log:
        done = subprocess.run([*prefix, slowrank, "run", "--record", run.record, "--alerts",
                               run.alerts_path, *options, "--", *command], stdout=log,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              timeout=timeout, check=False)
    run.status = done.returncode
    return run


def run_workload_watched(slowrank, program, directory, rank_count, cluster=None, timeout=300,
                         run_options=(), **options):
    """Runs one job of the workload under slowrank; returns its truth and what slowrank left."""
    truth_path = fresh_directory(directory)
    launcher = mpirun(rank_count, *(cluster.mpirun_options() if cluster else ()))
    run = run_watched(slowrank, directory,
                      launcher + workload_command(program, truth_path, **options),
                      prefix=cluster.prefix() if cluster else (), timeout=timeout,
                      options=run_options)
    if run.status != 0:
        raise RuntimeError(f"the job failed with status {run.status}:\n{run.tail()}")
    return Truth(truth_path), run
