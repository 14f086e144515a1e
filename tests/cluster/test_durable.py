#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nothing that a coordinator has acknowledged is lost, and nothing is taken twice: whatever call fails, and
whoever is killed at whatever moment. A probe that only sends (feeder) and a real coordinator over ipc; who ends is
started again, as `slowrank run` does with its coordinator. Prints a table."""
import collections
import concurrent.futures
import lzma
import os
import random
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

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "corpus")
BATCHES = 57
WAIT_S = 60
LATE = -1000 # the status of who had to be killed after that
AT_ONCE = 6


def source_of(paths):
    """The record whose batches are sent."""
    path = os.path.join(paths.directory, "source.slr")
    if not os.path.exists(path):
        with lzma.open(os.path.join(CORPUS, "mpi-throttle.slr.xz")) as packed, open(path, "wb") as file:
            file.write(packed.read())
    return path


class Try:
    """One small job: its coordinator, its probe, what they leave."""

    def __init__(self, paths, number):
        self.paths = paths
        self.feeder_program = os.path.join(os.path.dirname(paths.slowrank), "tests", "feeder")
        self.library = jobs.preloadable(os.path.join(os.path.dirname(paths.slowrank), "tests", "libfailing_calls.so"))
        self.source = source_of(paths)
        self.directory = os.path.join(paths.directory, str(number))
        shutil.rmtree(self.directory, ignore_errors=True)
        os.mkdir(self.directory, 0o700)
        self.starts = collections.Counter()

    def path(self, name):
        return os.path.join(self.directory, name)

    def start(self, who, fail_call=None, ready_fd=None):
        """The coordinator or the feeder; a later one goes on with what the one before had."""
        url = "ipc://" + self.path("socket")
        if who == "coordinator":
            command = [self.paths.slowrank, "coordinator", "--listen", url, "--record", self.path("record.slr"),
                       "--report", self.path("report.json"), "--alerts", self.path("alerts"), "--quiet", "--exit-when-done", "--continue",
                       *([] if ready_fd is None else ["--ready-fd", str(ready_fd)])]
        else:
            command = [self.feeder_program, "send", self.source, str(BATCHES), url, self.directory,
                       self.path("acknowledged")]
        environment = dict(os.environ)
        if fail_call is not None:
            environment.update(LD_PRELOAD=self.library, FAIL_CALL=str(fail_call), FAIL_LOG=self.path("fail"))
            if who == "feeder":
                environment["FAIL_LATE"] = "1"
        self.starts[who] += 1
        with open(self.path(who + ".said"), "ab") as said:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment,
                                    pass_fds=[] if ready_fd is None else [ready_fd])

    def lines(self, name):
        if not os.path.exists(self.path(name)):
            return []
        with open(self.path(name), encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()

    def finish(self, running):
        """To the end of both; who did not end well is started again, a few times. Returns how each ended before."""
        ends, deadline = [], time.monotonic() + WAIT_S
        while running:
            for who, process in list(running.items()):
                status = process.poll()
                if status is None:
                    continue
                del running[who]
                if status:
                    ends.append((who, status))
                # A coordinator ends with the last batch, perhaps before its answer is heard.
                if (status or (who == "coordinator" and "feeder" in running)) and self.starts[who] < 20:
                    running[who] = self.start(who)
            if time.monotonic() > deadline:
                for who, process in running.items():
                    process.kill()
                    process.wait()
                    ends.append((who, LATE))
                break
            time.sleep(0.002)
        return ends

    def said(self):
        return {who: self.lines(who + ".said") for who in ("coordinator", "feeder")}

    def recorded(self, name="record.slr"):
        output = subprocess.run([self.feeder_program, "batches", self.path(name)], check=True,
                                capture_output=True, text=True).stdout
        return [int(line.split()[1]) for line in output.splitlines()]

    def report(self, record):
        done = subprocess.run([self.paths.slowrank, "report", record, "--format", "json"], capture_output=True,
                              text=True, check=False)
        check(done.returncode == 0, f"report of {record}: {done.stderr}")
        return done.stdout

    def judge(self, wanted):
        """How many of these batches are lost, and how many are there twice."""
        numbers = self.recorded()
        return len(set(wanted) - set(numbers)), len(numbers) - len(set(numbers))

    def report_is_right(self):
        """Live, and of the record: that of a coordinator which nobody kills, of the same frames; all in order."""
        copy, numbers, alerts = self.path("copy.slr"), self.recorded(), self.lines("alerts")
        subprocess.run([self.feeder_program, "copy", self.path("record.slr"), copy], check=True)
        with open(self.path("report.json"), encoding="utf-8") as file:
            live = file.read()
        without = self.report(copy)
        return (numbers == sorted(numbers) and self.report(self.path("record.slr")) == without == live and
                len(set(alerts)) == len(alerts)) # nobody is told twice


def run_all(paths, one, tries):
    """Calls one(number, ...) for each of them, some at a time, as they wait for the most part; and prints the table."""
    source_of(paths) # before there are several who would make it
    rows = {}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for what, found in pool.map(one, tries):
            row = rows.setdefault(what, [0, 0, 0, 0])
            for i, value in enumerate((1, *found)):
                row[i] += value
    print(f"{'what':<30} {'tries':>6} {'lost':>5} {'doubled':>8} {'harmed':>7}")
    for what, (count, lost, doubled, harmed) in sorted(rows.items()):
        print(f"{what:<30} {count:>6} {lost:>5} {doubled:>8} {harmed:>7}")
    check(not any(sum(row[1:]) for row in rows.values()), "something was lost, doubled or harmed")


def kills(tries):
    """Harmed: the report is not what it would have been, or somebody did not end well but by the kill."""
    def case(paths):
        seed = int(time.time())
        moments = random.Random(seed)
        print(f"seed {seed}")

        def one(number_and_moment):
            number, moment = number_and_moment
            victims = (("feeder",), ("coordinator",), ("feeder", "coordinator"))[number % 3]
            job = Try(paths, number)
            running = {who: job.start(who) for who in ("coordinator", "feeder")}
            time.sleep(moment)
            for who in victims:
                running[who].send_signal(signal.SIGKILL)
            ends = job.finish(running)
            lost, doubled = job.judge(range(BATCHES))
            harmed = int(any(status != -signal.SIGKILL for _, status in ends) or not job.report_is_right())
            if lost or doubled or harmed:
                print(f"{number}: {victims} after {moment:.4f} s: {ends}, {job.said()}")
            else:
                shutil.rmtree(job.directory)
            what = " and ".join(victims).replace("feeder", "probe") + " killed"
            return what if ends else what + ", too late", (lost, doubled, harmed)
        run_all(paths, one, [(number, moments.uniform(0.01, 0.3)) for number in range(tries)])
    return case


def calls_of(paths, who):
    """How many there are to fail."""
    job = Try(paths, 0)
    job.finish({name: job.start(name, 0 if name == who else None) for name in ("coordinator", "feeder")})
    return int(job.lines("fail")[-1].split()[1])


def faults(who, tries):
    """tries: how many of its calls, one a job; None: all. Harmed: it crashed, or said more than one line. What the
    uplink finds no memory for is lost before anybody acknowledges it; of the coordinator, nothing at all is."""
    def case(paths):
        calls = calls_of(paths, who)
        print(f"{calls} calls of the {who}")

        def one(number):
            job = Try(paths, number)
            ends = job.finish({name: job.start(name, number if name == who else None)
                               for name in ("coordinator", "feeder")})
            name = job.lines("fail")[0].split()[0] # "calls", where there were not that many this time
            acknowledged = {int(line) for line in job.lines("acknowledged")}
            lost, doubled = job.judge(range(BATCHES) if who == "coordinator" else acknowledged)
            said = job.said()[who]
            harmed = int(any(status < 0 for _, status in ends) or len(said) > 1)
            if lost or doubled or harmed or ends:
                print(f"call {number}, {name}: {ends}, lost {lost}, doubled {doubled}, {said}")
            shutil.rmtree(job.directory)
            what = "probe" if who == "feeder" else who
            return f"{what}: {name} fails" if name != "calls" else f"{what}: nothing fails", (lost, doubled, harmed)
        run_all(paths, one, range(1, calls + 1, max(1, calls // tries) if tries else 1))
    return case


def told(paths):
    """Killed after it recorded a batch, before and after it told what came of it, at each batch in turn: all alerts
    are in the file, once, as if nobody had been killed."""
    job = Try(paths, 0)
    job.finish({who: job.start(who) for who in ("coordinator", "feeder")})
    whole, alerts = job.path("whole.slr"), job.path("alerts")
    wanted = job.lines("alerts")
    os.rename(job.path("record.slr"), whole)
    os.unlink(alerts)
    count = len(job.recorded("whole.slr"))
    for number in range(1, count + 1):
        for _ in range(2):
            if os.path.exists(job.path("record.slr")):
                os.unlink(job.path("record.slr"))
            subprocess.run([job.feeder_program, "copy", whole, job.path("record.slr"), str(number)], check=True)
            ready, written = os.pipe()
            coordinator = job.start("coordinator", ready_fd=written)
            os.close(written)
            check(os.read(ready, 1) == b"1", f"batch {number}: {job.said()}")
            os.close(ready)
            coordinator.send_signal(signal.SIGTERM if number == count else signal.SIGKILL)
            coordinator.wait()
            if number == count:
                break
    print(f"{len(wanted)} lines of alerts")
    check(len(wanted) > 1 and job.lines("alerts") == wanted, f"{job.lines('alerts')}, not {wanted}")


CASES = {"told": told, "kills": kills(100), "kills_3000": kills(3000),
         "faults": faults("coordinator", 60), "faults_uplink": faults("feeder", 40),
         "faults_all": faults("coordinator", None), "faults_uplink_all": faults("feeder", None)}

if __name__ == "__main__":
    harness.main(CASES, need_root=False)
