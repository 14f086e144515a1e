#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends slowrank, whatever it waits for, within three seconds; ten where it has a report to write."""
import os
import signal
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import jobs  # noqa: E402
from harness import check  # noqa: E402

MOMENTS_S = (0, 0.01, 0.03, 0.1, 0.4)
BY_SIGNAL = -signal.SIGINT  # as the shell's 130


class Places:
    """Files that are there and say nothing, an address where nobody answers."""

    def __init__(self, paths):
        self.directory = paths.directory
        for name in os.listdir(paths.directory):
            os.unlink(self.path(name))
        os.mkfifo(self.path("silent"))
        with open(self.path("header"), "wb") as file:
            file.write(b"dp_rank,stage,rank,step,optype,start_ts,duration,seq_id\n")
        with open(self.path("huge"), "wb") as file:
            file.truncate(64 << 30)  # zeros, of which no disk has any
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=1)
        self.nobody = f"tcp://127.0.0.1:{self.listening.getsockname()[1]}"

    def path(self, name):
        return os.path.join(self.directory, name)


def interrupted(paths, words, wanted, limit_s=3, times=1, **options):
    """Starts slowrank anew for each moment; wanted: what its exit status may be; times: how often Ctrl-C comes."""
    for moment_s in MOMENTS_S:
        process = subprocess.Popen([paths.slowrank, *words], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL,
                                   **{"stderr": subprocess.DEVNULL, **options})
        time.sleep(moment_s)
        before = time.monotonic()
        for _ in range(times):
            process.send_signal(signal.SIGINT)
            time.sleep(1.1 if times > 1 else 0)
        try:
            status = process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            raise SystemExit(f"FAILED: {words} did not end after {moment_s} s") from None
        took_s = time.monotonic() - before
        check(took_s < limit_s, f"{words}, interrupted after {moment_s} s, took {took_s:.1f} s")
        check(status in wanted, f"{words}, interrupted after {moment_s} s: exit {status}")


def tools(paths):
    """What reads a file, or looks around."""
    places = Places(paths)
    # 2 where it has found out by then that a file is nothing of the kind.
    for words in (["report", places.path("silent")], ["report", places.path("huge")],
                  ["watch", places.path("silent")], ["report", places.path("silent"), "--config", places.path("silent")],
                  ["import", "--from", "whatif", places.path("silent"), "-o", places.path("out")]):
        interrupted(paths, words, {BY_SIGNAL, 2})
    interrupted(paths, ["doctor"], {BY_SIGNAL, 0, 1})


def coordinator(paths):
    """It finishes what it has; where it has nothing yet, it just ends."""
    places = Places(paths)
    listen = ["coordinator", "--listen", "ipc://" + places.path("socket"), "--record", places.path("record.slr")]
    for words in (["--config", places.path("silent")],
                  ["--tls-cert", places.path("silent"), "--tls-key", places.path("silent"),
                   "--tls-ca", places.path("silent")]):
        interrupted(paths, [*listen, "--listen", "tls+tcp://127.0.0.1:0", *words], {BY_SIGNAL, 2})
    interrupted(paths, [*listen, "--report", places.path("report.json")], {BY_SIGNAL, 0}, limit_s=10)
    # Its messages go to a pipe that is full: the second Ctrl-C does not wait for the report.
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
    interrupted(paths, listen, {BY_SIGNAL, 0}, limit_s=5, times=3, stderr=writer)
    os.close(reader)
    os.close(writer)


def run(paths):
    """It ends as the command ends, wherever the probe and its coordinator are by then."""
    places = Places(paths)
    for words in ([], ["--coordinator", places.nobody, "--insecure"], ["--config", places.path("silent")],
                  ["--key-file", places.path("silent"), "--coordinator", places.nobody]):
        interrupted(paths, ["run", "--record", places.path("record.slr"), *words, "--", "sleep", "60"],
                    {BY_SIGNAL, 2})


def attach(paths):
    """It ends the watch, not the job."""
    places = Places(paths)
    job = subprocess.Popen(["sleep", "600"])
    for words in ([], ["--coordinator", places.nobody, "--insecure"], ["--config", places.path("silent")],
                  ["--key-file", places.path("silent"), "--coordinator", places.nobody]):
        interrupted(paths, ["attach", "--record", places.path("record.slr"), *words, "--pid", str(job.pid)],
                    {BY_SIGNAL, 0, 2}, limit_s=10)
    check(job.poll() is None, "the job goes on")
    job.kill()
    job.wait()


def leftovers(paths):
    """Nothing of an interrupted slowrank stays: neither its probe nor its coordinator."""
    for case in (run, attach):
        case(paths)
    jobs.wait_until(lambda: not watchers(paths), "all of slowrank's processes have ended")


def watchers(paths):
    """Processes of slowrank whose words name this test's folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if words[0] == paths.slowrank.encode() and paths.directory.encode() in b" ".join(words):
            found.append(int(pid))
    return found


if __name__ == "__main__":
    harness.main({"tools": tools, "coordinator": coordinator, "leftovers": leftovers})
