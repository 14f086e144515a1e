#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""slowrank run is out of the job's way: the command starts, runs, ends and tells its status in time,
whatever happens to the probe, to the coordinator, and to who reads what they say."""
import json
import os
import pty
import random
import signal
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

START_S, END_S = 2.0, 1.0  # what is promised
FIRST_PROCESS = ["unshare", "--pid", "--fork", "--mount-proc"]
COUNTING = "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.05; done; exit 23"


def fresh_record(paths):
    """A record that no other job has: a coordinator may stay at its own for some seconds."""
    return os.path.join(paths.directory, f"{time.time():.6f}.slr")


def run_command(paths, record, *options):
    return [paths.slowrank, "run", "--record", record, *options, "--"]


def remove_records(paths):
    for name in os.listdir(paths.directory):
        if name.endswith(".slr"):
            os.unlink(os.path.join(paths.directory, name))


def find(what, of, seconds=20):
    """The first process that a function of jobs finds below slowrank run, as soon as it is there."""
    found, deadline = [], time.monotonic() + seconds
    while not found and time.monotonic() < deadline:
        found = what(of)
    return found[0] if found else None


def run_under(process, slowrank):
    """The process of slowrank run: the one that was started, or a child of it."""
    return find(lambda pid: [run for run in (pid, *jobs.children(pid))
                             if jobs.arguments(run)[:1] == [slowrank.encode()]], process.pid)


def kill_probe(paths, prefix, after):
    """One job whose probe is killed; True when that was before its end."""
    job = subprocess.Popen([*prefix, *run_command(paths, fresh_record(paths)), "sh", "-c", COUNTING],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
    run = run_under(job, paths.slowrank)
    probe = find(jobs.probes, run)
    time.sleep(after)
    hit = job.poll() is None and probe in jobs.descendants(run)
    if hit:
        os.kill(probe, signal.SIGKILL)
    output, errors = job.communicate(timeout=60)
    check(job.returncode == 23 and output == "1\n2\n3\n4\n5\n6\n7\n8\n",
          f"killed after {after:.3f} s: exit {job.returncode}, {output!r}, {errors!r}")
    return hit


def kills(count):
    def case(paths):
        seed = int(time.time())
        moments = random.Random(seed)
        remove_records(paths)
        for prefix in (FIRST_PROCESS, []):
            hits = sum(kill_probe(paths, prefix, moments.uniform(0, 0.5)) for _ in range(count))
            print(f"{prefix}, seed {seed}: {count} of {count} jobs as they are; "
                  f"{hits} probes killed")
            check(hits >= count * 3 / 4, "the probe is killed while the job runs")
    return case


def stopped(process):
    os.kill(process, signal.SIGSTOP)
    return process


class Job:
    """A job under slowrank that says when it starts, and ends on demand and says when."""

    def __init__(self, paths, prefix=(), env=None, options=(), words=(), **files):
        self.go, self.began, self.ended = (os.path.join(paths.directory, name)
                                           for name in ("go", "began", "ended"))
        for path in (self.go, self.began, self.ended):
            if os.path.exists(path):
                os.unlink(path)
        self.record = fresh_record(paths)
        self.started = time.time()
        self.process = subprocess.Popen(
            [*prefix, *run_command(paths, self.record, *options), "sh", "-c",
             'date +%s.%N > "$0.part"; mv "$0.part" "$0"; '
             'until test -e "$1"; do sleep 0.01; done; date +%s.%N > "$2"; exit 5',
             self.began, self.go, self.ended, *words],
            stdin=subprocess.DEVNULL, env=dict(os.environ, **(env or {})), **files)

    def held_back(self):
        jobs.wait_until(lambda: os.path.exists(self.began), "the command starts", self.process)
        return self.when(self.began) - self.started

    @staticmethod
    def when(path):
        with open(path, encoding="ascii") as file:
            return float(file.read())

    def end(self):
        """Seconds from the command's end to that of slowrank run."""
        with open(self.go, "w", encoding="ascii"):
            pass
        status = self.process.wait(timeout=60)
        now = time.time()
        check(status == 5, f"exit {status}")
        return now - self.when(self.ended)


def judge(name, held_back, late):
    print(f"{name}: held back {held_back:.2f} s, {late:.2f} s late")
    check(held_back <= START_S, f"{name}: held back for {held_back:.2f} s")
    check(late <= END_S, f"{name}: {late:.2f} s late")


def make_hostile_library(path, sections=2000, symbols=2_000_000):
    """Each of its sections is the same table of symbols: to read them all takes minutes."""
    table = 1 << 20
    with open(path, "wb") as file:
        file.write(b"\x7fELF\2\1\1" + bytes(9) +
                   struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, 64, 0, 64, 56, 0, 64, sections, 1) +
                   bytes(64) + struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 4096, 4096, 0, 0, 1, 0) +
                   (sections - 2) *
                   struct.pack("<IIQQQQIIQQ", 0, 11, 2, 0, table, 24 * symbols, 1, 1, 8, 24))
        file.truncate(table + 24 * symbols)
    os.chmod(path, 0o755)


def start(paths):
    """The command is not held back by a probe that is at work for minutes, or stands still, or whose
    coordinator does; and a probe that was never ready does not outlive it."""
    library = os.path.join(paths.directory, "libmpi.so.40")
    make_hostile_library(library)
    job = Job(paths, words=[library], stderr=subprocess.PIPE, text=True)
    probe = find(jobs.probes, job.process.pid)
    judge("hostile library", job.held_back(), job.end())
    said = job.process.stderr.read()
    check("not ready in time" in said, f"it is told: {said!r}")
    jobs.wait_until(lambda: not any(jobs.arguments(probe)), "the probe ends, too")
    for name, what in (("probe stopped at its start", jobs.probes),
                       ("coordinator stopped at its start", jobs.coordinators)):
        job = Job(paths, stderr=subprocess.PIPE, text=True)
        process = stopped(find(what, job.process.pid))
        judge(name, job.held_back(), job.end())
        if any(jobs.arguments(process)):
            os.kill(process, signal.SIGKILL)
        said = job.process.stderr.read()
        check("not ready in time" in said or job.held_back() < 1.3, f"{name}: {said!r}")


def late(paths):
    """A probe that is late watches the job from then on: the processes that are there, their calls as
    those of a job that ran before."""
    remove_records(paths)
    record = fresh_record(paths)
    truth_path = jobs.fresh_directory(paths.directory)
    hold = jobs.Hold(paths.directory)
    job = subprocess.Popen(
        [*run_command(paths, record), *jobs.mpirun(2),
         *jobs.workload_command(paths.workload, truth_path, steps=200, step_ms=20), *hold.options],
        stdin=subprocess.DEVNULL)
    probe = stopped(find(jobs.probes, job.pid))
    hold.wait(2, job)
    os.kill(probe, signal.SIGCONT)
    time.sleep(3) # it looks for processes and libraries; the ranks wait meanwhile
    hold.end()
    check(job.wait(timeout=60) == 0, f"exit {job.returncode}")
    report = json.loads(jobs.whole_report(paths.slowrank, record).stdout)
    check(report["job"]["ranks"] == 2 and report["job"]["steps"] > 100, f"{report['job']}")
    check(not report["verdicts"], f"verdicts: {report['verdicts']}")


def end(paths):
    """Nor is slowrank run late, whoever stands still, and whatever is not read."""
    remove_records(paths)
    job = Job(paths, stderr=subprocess.PIPE, text=True)
    judge("nothing wrong", job.held_back(), job.end())
    said = job.process.stderr.read()
    check("Coverage" in said, f"the report comes before the end: {said!r}")
    for name, what in (("probe stopped", jobs.probes), ("coordinator stopped", jobs.coordinators)):
        job = Job(paths, stderr=subprocess.PIPE, text=True)
        held_back = job.held_back()
        process = stopped(find(what, job.process.pid))
        judge(name, held_back, job.end())
        said = job.process.stderr.read()
        check("slowrank report " in said, f"{name}: the record is named: {said!r}")
        os.kill(process, signal.SIGCONT)
        jobs.whole_report(paths.slowrank, job.record)
    job = Job(paths, stderr=subprocess.PIPE, text=True)
    held_back = job.held_back()
    os.kill(find(jobs.probes, job.process.pid), signal.SIGKILL)
    said = job.process.stderr.readline()
    check("signal 9" in said and job.process.poll() is None, f"told at once: {said!r}")
    judge("probe killed", held_back, job.end())
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
    job = Job(paths, stderr=writer)
    judge("standard error full", job.held_back(), job.end())
    check(os.get_blocking(writer), "the job's standard error is as it was")
    os.close(reader)
    os.close(writer)
    job = Job(paths, prefix=["sh", "-c", 'exec "$@" >&-', "sh"])
    judge("standard output closed", job.held_back(), job.end())


def attach_once(paths, name, disturb):
    """An attach whose job ends after it was disturbed; returns what it said."""
    record, log = fresh_record(paths), os.path.join(paths.directory, "attach.log")
    job = subprocess.Popen(["sh", "-c", "read line"], stdin=subprocess.PIPE)
    with open(log, "w+", encoding="utf-8") as said:
        watcher = subprocess.Popen([paths.slowrank, "attach", "--record", record, "--pid", str(job.pid)],
                                   stdin=subprocess.DEVNULL, stderr=said)
        jobs.wait_until(lambda: "slowrank: watching" in os.pread(said.fileno(), 65536, 0).decode(),
                        "attach watches", watcher)
        stopped_one = disturb(watcher)
        before = time.time()
        if name.endswith("interrupted"):
            watcher.send_signal(signal.SIGINT)
        else:
            job.communicate(b"\n")
        check(watcher.wait(timeout=60) == 0, f"{name}: exit {watcher.returncode}")
        judge(f"attach, {name}", 0, time.time() - before)
        if stopped_one:
            os.kill(stopped_one, signal.SIGCONT)
        jobs.whole_report(paths.slowrank, record)
        job.kill()
        job.wait()
        return os.pread(said.fileno(), 65536, 0).decode()


def attach(paths):
    """Nor is slowrank attach late, whoever stands still; and the record is whole."""
    remove_records(paths)
    said = attach_once(paths, "nothing wrong", lambda watcher: None)
    check("Coverage" in said, f"the report comes before the end: {said!r}")
    for name, what in (("coordinator stopped", jobs.coordinators),
                       ("probe stopped, interrupted", jobs.children)):
        said = attach_once(paths, name, lambda watcher, what=what: stopped(find(what, watcher.pid)))
        check("slowrank report " in said, f"{name}: the record is named: {said!r}")
    said = attach_once(paths, "interrupted", lambda watcher: None)
    check("Coverage" in said, f"the report comes after Ctrl-C, too: {said!r}")
    missing = subprocess.run([paths.slowrank, "attach", "--coordinator", "nowhere", "--pid", "1"],
                             capture_output=True, text=True, timeout=30, check=False)
    check(missing.returncode == 2 and "nowhere" in missing.stderr, f"its status: {missing}")


def terminal(paths):
    """A report in colours for a terminal, though the coordinator writes to a pipe."""
    master, slave = pty.openpty()
    job = Job(paths, stderr=slave)
    job.held_back()
    coordinator = find(jobs.coordinators, job.process.pid)
    check(b"--terminal" in jobs.arguments(coordinator), "the coordinator is told")
    os.close(slave)
    said = []
    reader = threading.Thread(target=lambda: said.append(read_terminal(master)))
    reader.start()
    job.end()
    reader.join(timeout=20)
    check(said and b"Coverage" in said[0], f"the report is on the terminal: {said}")
    os.close(master)


def read_terminal(master):
    text = b""
    try:
        while True:
            text += os.read(master, 4096)
    except OSError: # its end
        return text


def rank(paths):
    """A launcher that reads its rank's files to their ends does not wait for slowrank."""
    job = Job(paths, env={"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": str(os.getpid())},
              options=["--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    record = job.record.encode()
    held_back = job.held_back()

    def ours(_):
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and
                b"coordinator" in jobs.arguments(name)[:2] and record in jobs.arguments(name)]
    coordinator = stopped(find(ours, None))
    ends = {}

    def read(name, file):
        file.read()
        ends[name] = time.time()
    readers = [threading.Thread(target=read, args=(name, getattr(job.process, name)))
               for name in ("stdout", "stderr")]
    for reader in readers:
        reader.start()
    late = job.end()
    for reader in readers:
        reader.join(timeout=30)
    check(len(ends) == 2, f"ends of files: {ends}")
    for name, when in ends.items():
        judge(f"coordinator stopped, {name} of a rank", held_back, when - job.when(job.ended))
    judge("coordinator stopped, status of a rank", held_back, late)
    os.kill(coordinator, signal.SIGKILL)


CASES = {"kills": kills(6), "kills_100": kills(100), "start": start, "late": late, "end": end, "rank": rank, "attach": attach,
         "terminal": terminal}

if __name__ == "__main__":
    harness.main(CASES)
