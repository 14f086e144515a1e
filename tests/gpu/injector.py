#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the faults that come from outside of the training job: a process of its own beside it.

    injector.py --socket PATH      serves until SIGTERM; cleans up behind itself
    injector.py --gpu-hog N        (internal) computes on GPU N while told to on stdin

Requests and answers are one JSON object a line over a Unix socket; an answer is {"why": ""} or
the reason why it cannot be done. Requests:
    {"do": "prepare", "gpu": N}                     start a process with a context on GPU N
    {"do": "gpu-shared", "gpu": N, "duty": 0.5}     let it compute that part of the time; 0 = stop
    {"do": "cpu-hog", "cores": [N], "count": 2}     spin on each core; count 0 = stop
    {"do": "cgroup-throttle", "pid": N, "quota_us": N, "period_us": N}      quota_us 0 = stop
"""
import argparse
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
REPLY_SECONDS = 120  # a first context on a GPU takes its time
HOGS_MAX = 8
WEIGHT_MAX_V2, SHARES_MAX_V1 = 10_000, 262_144  # so that nothing but the quota holds a rank up


def gpu_hog(gpu):
    """Multiplies matrices in bursts while the duty cycle on stdin is above 0."""
    import torch

    device = torch.device("cuda", gpu)
    left = torch.randn(4096, 4096, device=device, dtype=torch.bfloat16)
    out = torch.empty_like(left)
    torch.matmul(left, left, out=out)
    torch.cuda.synchronize(device)
    print("ready", flush=True)
    duty, pending = 0.0, b""
    while True:
        if select.select([0], [], [], 0 if duty else None)[0]:
            chunk = os.read(0, 4096)
            if not chunk:
                return 0
            pending += chunk
            *lines, pending = pending.split(b"\n")
            if lines:
                duty = float(lines[-1])
                print("ok", flush=True)
            continue
        started = time.monotonic()
        while time.monotonic() - started < 0.01:
            for _ in range(8):
                torch.matmul(left, left, out=out)
            torch.cuda.synchronize(device)
        busy = time.monotonic() - started
        if duty < 1:
            time.sleep(busy * (1 - duty) / duty)


class GpuHog:
    """One process that computes on one GPU when it is told to."""

    def __init__(self, gpu):
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--gpu-hog", str(gpu)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self.expect("ready")

    def expect(self, word):
        if not select.select([self.process.stdout], [], [], REPLY_SECONDS)[0]:
            raise OSError("the process on the GPU does not answer")
        line = self.process.stdout.readline().decode().strip()
        if line != word:
            raise OSError(f"the process on the GPU ended or said {line!r}")

    def set_duty(self, duty):
        self.process.stdin.write(f"{duty}\n".encode())
        self.process.stdin.flush()
        self.expect("ok")

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.kill()
        self.process.wait()


def spin(core):
    os.sched_setaffinity(0, {core})
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        pass


class Throttle:
    """A CPU quota on one process, in a cgroup of its own; v2, or v1's cpu controller."""

    def __init__(self):
        self.moved = None  # (from, to): what made room for a child with controllers
        self.group, self.pid, self.origin = None, 0, None
        self.root, self.unified = self.find_root()

    @staticmethod
    def find_root():
        unified = None
        with open("/proc/self/mounts", encoding="utf-8") as mounts:
            for line in mounts:
                _, directory, kind, options, *_ = line.split()
                if kind == "cgroup" and "cpu" in options.split(","):
                    return directory, False
                if kind == "cgroup2":
                    unified = unified or directory
        if unified:
            with open(os.path.join(unified, "cgroup.controllers"), encoding="utf-8") as file:
                if "cpu" in file.read().split():
                    return unified, True
        raise OSError("there is no cgroup file system with a cpu controller")

    @staticmethod
    def write(path, text):
        with open(path, "w", encoding="ascii") as file:
            file.write(text)

    def enable_controller(self):
        """v2: children get the cpu controller. Processes in the root of a namespace make room."""
        path = os.path.join(self.root, "cgroup.subtree_control")
        with open(path, encoding="ascii") as file:
            if "cpu" in file.read().split():
                return
        try:
            self.write(path, "+cpu")
            return
        except OSError:
            rest = os.path.join(self.root, f"slowrank-others-{os.getpid()}")
            os.makedirs(rest, exist_ok=True)
            self.move_all(self.root, rest)
            self.moved = (rest, self.root)
            self.write(path, "+cpu")

    def move_all(self, source, target):
        for _ in range(3):  # processes may fork meanwhile
            with open(os.path.join(source, "cgroup.procs"), encoding="ascii") as file:
                pids = file.read().split()
            for pid in pids:
                with contextlib.suppress(OSError):  # gone, or a kernel thread
                    self.write(os.path.join(target, "cgroup.procs"), pid)

    def begin(self, pid, quota_us, period_us):
        if self.unified:
            self.enable_controller()
        with open(f"/proc/{pid}/cgroup", encoding="ascii") as file:
            for line in file:
                number, controllers, path = line.strip().split(":", 2)
                if (number == "0") if self.unified else ("cpu" in controllers.split(",")):
                    self.origin = os.path.join(self.root, path.lstrip("/"))
        self.group = os.path.join(self.root, f"slowrank-gpu-fault-{os.getpid()}")
        os.makedirs(self.group, exist_ok=True)
        if self.unified:
            self.write(os.path.join(self.group, "cpu.max"), f"{quota_us} {period_us}")
            self.write(os.path.join(self.group, "cpu.weight"), str(WEIGHT_MAX_V2))
        else:
            self.write(os.path.join(self.group, "cpu.shares"), str(SHARES_MAX_V1))
            self.write(os.path.join(self.group, "cpu.cfs_period_us"), str(period_us))
            self.write(os.path.join(self.group, "cpu.cfs_quota_us"), str(quota_us))
        self.write(os.path.join(self.group, "cgroup.procs"), str(pid))
        self.pid = pid

    def end(self):
        if not self.group:
            return
        if self.unified:
            with contextlib.suppress(OSError):
                self.write(os.path.join(self.group, "cpu.max"), "max")
        else:
            self.write(os.path.join(self.group, "cpu.cfs_quota_us"), "-1")
        for target in (self.origin, self.root, self.moved and self.moved[0]):
            with contextlib.suppress(OSError, TypeError):
                self.write(os.path.join(target, "cgroup.procs"), str(self.pid))
                break
        deadline = time.monotonic() + 2
        while os.path.isdir(self.group) and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                os.rmdir(self.group)
            time.sleep(0.01)
        self.group = None

    def close(self):
        self.end()
        if self.moved:
            with contextlib.suppress(OSError):
                self.write(os.path.join(self.root, "cgroup.subtree_control"), "-cpu")
                self.move_all(*self.moved)
                os.rmdir(self.moved[0])


class Injector:
    """All that is at work. One request at a time."""

    def __init__(self):
        self.gpu_hogs, self.cpu_hogs, self.throttle = {}, [], None
        self.lock = threading.Lock()

    def handle(self, request):
        with self.lock:
            try:
                getattr(self, "do_" + request.pop("do").replace("-", "_"))(**request)
                return {"why": ""}
            except (OSError, TypeError, ValueError, AttributeError, KeyError) as error:
                return {"why": str(error) or repr(error)}

    def do_prepare(self, gpu):
        if gpu not in self.gpu_hogs:
            self.gpu_hogs[gpu] = GpuHog(gpu)

    def do_gpu_shared(self, gpu, duty):
        self.gpu_hogs[gpu].set_duty(duty)

    def do_cpu_hog(self, cores, count):
        for hog in self.cpu_hogs:
            hog.kill()
            hog.wait()
        self.cpu_hogs = []
        for core in cores[:HOGS_MAX] * min(count, HOGS_MAX):
            self.cpu_hogs.append(subprocess.Popen(
                [sys.executable, os.path.abspath(__file__), "--spin", str(core)],
                start_new_session=True))

    def do_cgroup_throttle(self, pid, quota_us, period_us):
        if self.throttle is None:
            self.throttle = Throttle()
        self.throttle.end()
        if quota_us:
            self.throttle.begin(pid, quota_us, period_us)

    def close(self):
        self.do_cpu_hog([], 0)
        for hog in self.gpu_hogs.values():
            hog.close()
        if self.throttle:
            self.throttle.close()


def serve_one(injector, connection):
    with connection, connection.makefile("rw", encoding="utf-8") as stream:
        for line in stream:
            stream.write(json.dumps(injector.handle(json.loads(line))) + "\n")
            stream.flush()


class Client:
    """The job's side: one request, one answer."""

    def __init__(self, path):
        self.path, self.stream = path, None

    def ask(self, **request):
        """Returns "" or why it could not be done."""
        if not self.path:
            return "there is no injector (--injector)"
        try:
            if self.stream is None:
                connection = socket.socket(socket.AF_UNIX)
                connection.settimeout(REPLY_SECONDS + 30)
                connection.connect(self.path)
                self.stream = connection.makefile("rw", encoding="utf-8")
                connection.close()  # the stream keeps it open
            self.stream.write(json.dumps(request) + "\n")
            self.stream.flush()
            return json.loads(self.stream.readline())["why"]
        except (OSError, ValueError) as error:
            return f"the injector does not answer: {error}"


def serve(path):
    injector = Injector()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(16)

    def stop(*_):
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve_one, args=(injector, connection), daemon=True).start()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        injector.close()
        os.unlink(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--socket")
    parser.add_argument("--gpu-hog", type=int)
    parser.add_argument("--spin", type=int)
    arguments = parser.parse_args()
    if arguments.gpu_hog is not None:
        return gpu_hog(arguments.gpu_hog)
    if arguments.spin is not None:
        return spin(arguments.spin)
    if not arguments.socket:
        parser.error("--socket is missing")
    return serve(arguments.socket)


if __name__ == "__main__":
    sys.exit(main())
