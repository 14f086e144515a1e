#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""slowrank takes nothing from the job, and nobody harms a host through slowrank."""
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import jobs  # noqa: E402
from harness import check  # noqa: E402

NOBODY = 65534
LIMIT = 64 << 20

# Takes so much that slowrank does not fit beside it.
GREEDY = "echo started; read line; dd if=/dev/zero of=/dev/null bs=61M count=10 2>/dev/null && echo ended"


class MemoryGroup:
    """A memory cgroup with a limit; a context manager."""

    def __init__(self):
        root = jobs.cgroup_root("memory")
        self.directory = os.path.join(root, f"slowrank-test-{os.getpid()}") if root else None

    def __enter__(self):
        if not self.directory:
            harness.skip("no cgroup with the memory controller")
        os.mkdir(self.directory)
        for name in ("memory.max", "memory.limit_in_bytes"):
            path = os.path.join(self.directory, name)
            if os.path.exists(path):
                with open(path, "w", encoding="ascii") as file:
                    file.write(str(LIMIT))
        return self

    def __exit__(self, *_):
        jobs.wait_until(self.remove, "the group is empty", seconds=20)

    def remove(self):
        try:
            os.rmdir(self.directory)
        except OSError:
            return False
        return True

    def enter(self):
        with open(os.path.join(self.directory, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write("0")

    def holds(self, pid):
        with open(os.path.join(self.directory, "cgroup.procs"), encoding="ascii") as file:
            return str(pid) in file.read().split()


def processes_of(session_leader):
    """What a run started, but for itself: its command, and slowrank's own processes by name."""
    own, command = {}, None
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if f"HARM_TEST={session_leader}".encode() not in file.read().split(b"\0"):
                    continue
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if b"-c" in words and b"run" not in words:
            command = int(name)
        else:
            own[int(name)] = words[1].decode()
    return own, command


def adjustment(pid):
    with open(f"/proc/{pid}/oom_score_adj", encoding="ascii") as file:
        return int(file.read())


def capabilities(pid):
    """Effective and permitted, as numbers."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        words = dict(line.split(":", 1) for line in file)
    return [int(words[name], 16) for name in ("CapEff", "CapPrm", "CapInh")]


# dac_read_search, sys_ptrace, perfmon, bpf: linux/capability.h
KEPT = sum(1 << number for number in (2, 19, 38, 39))


def probes_of(command, started):
    """Those of slowrank's own processes that have threads, which the relay has not."""
    own, _ = processes_of(os.getpid())
    return [pid for pid, name in own.items() if name == command and pid != started and len(os.listdir(f"/proc/{pid}/task")) > 1]


def keeps_few(probe):
    """Whether each of a probe's threads, of which it has some, keeps no other rights than these."""
    try:
        threads = os.listdir(f"/proc/{probe}/task")
        kept = [number for thread in threads for number in capabilities(f"{probe}/task/{thread}")]
    except FileNotFoundError:
        return False
    return len(threads) > 1 and all(number & ~KEPT == 0 for number in kept)


def rights(paths):
    """The probe that root started has few of root's rights once it watches, in each of its threads. The program is an
    ordinary user's own, built under a strict umask: it starts itself as the coordinator all the same."""
    environment = dict(os.environ, HARM_TEST=str(os.getpid()))
    program, record = (os.path.join(paths.directory, name) for name in ("slowrank", "record.slr"))
    shutil.copy(paths.slowrank, program)
    os.chown(program, NOBODY, NOBODY)
    os.chmod(program, 0o700)
    options = ["--quiet", "--record", record]
    bare = subprocess.Popen(["unshare", "--net", "sh", "-c", "read line"], stdin=subprocess.PIPE, text=True)
    for words in (["run", *options, "--", "sh", "-c", "echo started; read line"], ["attach", *options, "--pid", str(bare.pid)]):
        if os.path.exists(record):
            os.unlink(record)
        process = subprocess.Popen([program, *words], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True)
        if words[0] == "run":
            check(process.stdout.readline() == "started\n", "the job starts")
        # A thread that enters the rank's network for its sockets has ended by then.
        jobs.wait_until(lambda: any(keeps_few(probe) for probe in probes_of(words[0], process.pid)),
                        f"{words[0]}: the probe has its threads, and each of them few rights", process)
        (process if words[0] == "run" else bare).communicate("go on\n", timeout=60)
        check(process.wait(timeout=60) == 0, f"{words[0]}: exit {process.returncode}")
        check(os.path.exists(record), f"{words[0]}: its coordinator was not started")
    os.unlink(program)


def watch_greedy(paths, user):
    """A job of 64 MiB takes 61 for itself: it is slowrank that has to go, where it is in the way at all."""
    directory = os.path.join(paths.directory, str(user))
    shutil.rmtree(directory, ignore_errors=True)
    os.mkdir(directory)
    os.chown(directory, user, user)
    with MemoryGroup() as group:
        def prepare():
            group.enter()
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        process = subprocess.Popen(
            [paths.slowrank, "run", "--record", os.path.join(directory, "record.slr"), "--",
             "sh", "-c", GREEDY],
            env=dict(os.environ, HARM_TEST=str(os.getpid()), HOME=directory), cwd="/",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=prepare)
        if process.stdout.readline() != "started\n":
            raise SystemExit(f"FAILED: the job does not start: {process.communicate()}")
        jobs.wait_until(lambda: "coordinator" in processes_of(os.getpid())[0].values(),
                        "the coordinator runs", process)
        own, command = processes_of(os.getpid())
        own.pop(process.pid)
        check(len(own) == 3, f"relay, probe and coordinator: {own}")
        check(group.holds(process.pid) and group.holds(command), "the job stays where it was")
        check(adjustment(command) == 0 and adjustment(process.pid) == 0, "the job is as it was")
        for pid, what in own.items():
            check(adjustment(pid) == 1000, f"{what}: oom_score_adj {adjustment(pid)}")
            check(group.holds(pid) == (user != 0), f"{what} is in the job's group")
        said = process.communicate("go on\n", timeout=60)
        check(process.returncode == 0 and said[0] == "ended\n",
              f"the job: exit {process.returncode}: {said}")


def memory(paths):
    watch_greedy(paths, 0)


def memory_user(paths):
    reach = subprocess.run(["setpriv", "--reuid", str(NOBODY), "--clear-groups", "test", "-x",
                            paths.slowrank], check=False)
    if reach.returncode != 0:
        harness.skip(f"user {NOBODY} cannot reach {paths.slowrank}")
    watch_greedy(paths, NOBODY)


if __name__ == "__main__":
    harness.main({"memory": memory, "rights": rights, "memory_user": memory_user})
