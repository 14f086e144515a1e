# SPDX-License-Identifier: Apache-2.0
"""Faults that a rank does to itself, or asks the injector for. All are real: nothing is faked.

A fault has prepare(step_ms), called before the first step, for all that takes long: setting up must
not be what is detected; begin(step_ms); each_step(), called when the rank asks for its next batch;
on_device(), called in the forward pass; end(). prepare, begin and end return "" or the reason why
the fault cannot be made, or was not.
torch is only imported by those that work on the device, so that the rest is testable without.
"""
import ctypes
import gc
import mmap
import os
import resource
import subprocess
import tempfile
import threading
import time

from injector import Client

MAJOR_FILE_BYTES = 256 << 20
MINOR_BYTES = 64 << 20
PAGE = mmap.PAGESIZE


class Fault:
    def __init__(self, context, size):
        self.context, self.size = context, size
        self.extra_ms = 0.0

    def extra(self, step_ms):
        return step_ms * self.size / 100

    def prepare(self, step_ms):
        return ""

    def begin(self, step_ms):
        self.extra_ms = self.extra(step_ms)
        return self.start(step_ms) or ""

    def start(self, step_ms):
        return ""

    def each_step(self):
        pass

    def on_device(self):
        pass

    def end(self):
        return ""


class InputSleep(Fault):
    """The data loader waits, as for a slow file server."""

    def each_step(self):
        time.sleep(self.extra_ms / 1e3)


class HeldGil(Fault):
    """A thread of the data loader runs long C code without giving the GIL away."""

    def prepare(self, step_ms):
        begun = time.perf_counter()
        sum(range(2_000_000))
        self.per_ms = 2_000 / (time.perf_counter() - begun)
        return ""

    def start(self, step_ms):
        self.count = int(self.per_ms * self.extra_ms)
        self.wanted, self.stopped = threading.Event(), False
        self.thread = threading.Thread(target=self.hold, name="loader-decode", daemon=True)
        self.thread.start()

    def hold(self):
        while True:
            self.wanted.wait()
            self.wanted.clear()
            if self.stopped:
                return
            sum(range(self.count))  # one call: the interpreter never gets to switch threads

    def each_step(self):
        self.wanted.set()

    def end(self):
        self.stopped = True
        self.wanted.set()
        self.thread.join()
        return ""


class GarbageStorm(Fault):
    """So many objects in cycles that each full collection takes long, and one every step."""

    def prepare(self, step_ms):
        self.objects = []
        gc.collect()
        gc.freeze()
        self.grow(100_000)
        begun = time.perf_counter()
        gc.collect()
        took_ms = (time.perf_counter() - begun) * 1e3
        self.grow(min(int(100_000 * max(0.0, self.extra(step_ms) / took_ms - 1)), 20_000_000))
        gc.freeze()  # out of the collector's sight until the window begins
        return ""

    def start(self, step_ms):
        gc.unfreeze()

    def grow(self, count):
        for _ in range(count):
            pair = [None]
            pair[0] = pair
            self.objects.append(pair)

    def each_step(self):
        gc.collect()

    def end(self):
        gc.freeze()
        return ""


def address_of(memory):
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)


class MinorFaults(Fault):
    """Gives memory back and touches it again, page by page, in one thread."""

    CHUNK = 4 << 20

    def prepare(self, step_ms):
        self.memory = mmap.mmap(-1, MINOR_BYTES)
        self.memory.madvise(mmap.MADV_NOHUGEPAGE)
        self.address = address_of(self.memory)
        return ""

    def start(self, step_ms):
        self.before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        self.steps = 0

    def each_step(self):
        self.steps += 1
        deadline, offset = time.perf_counter() + self.extra_ms / 1e3, 0
        while time.perf_counter() < deadline:
            self.memory.madvise(mmap.MADV_DONTNEED, offset, self.CHUNK)
            LIBC.memset(self.address + offset, 1, self.CHUNK)
            offset = (offset + self.CHUNK) % MINOR_BYTES

    def end(self):
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - self.before
        self.memory = None
        return "" if faults >= 100 * self.steps else f"only {faults} minor page faults"


class MajorFaults(Fault):
    """Reads a mapped file whose pages were dropped from the page cache: each touch goes to disk."""

    def prepare(self, step_ms):
        self.file = tempfile.TemporaryFile(dir=self.context["work"])
        block = os.urandom(1 << 20)
        for _ in range(MAJOR_FILE_BYTES >> 20):
            self.file.write(block)
        self.file.flush()
        os.fsync(self.file.fileno())
        self.memory = mmap.mmap(self.file.fileno(), MAJOR_FILE_BYTES, prot=mmap.PROT_READ)
        self.memory.madvise(mmap.MADV_RANDOM)  # no read-ahead: one fault a page
        self.drop()
        self.page = 0
        self.before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
        self.memory[0]
        if resource.getrusage(resource.RUSAGE_SELF).ru_majflt == self.before:
            return f"files in {self.context['work']} are in memory: no major page faults there"
        return ""

    def start(self, step_ms):
        self.steps = 0
        self.before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt

    def drop(self):
        self.memory.madvise(mmap.MADV_DONTNEED)
        os.posix_fadvise(self.file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def each_step(self):
        self.steps += 1
        deadline, pages = time.perf_counter() + self.extra_ms / 1e3, MAJOR_FILE_BYTES // PAGE
        while time.perf_counter() < deadline:
            self.page += 61  # a stride: neighbours may have come with the first one
            if self.page >= pages:
                self.page %= pages
                self.drop()
            self.memory[self.page * PAGE]

    def end(self):
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_majflt - self.before
        self.memory.close()
        self.file.close()
        return "" if faults >= self.steps else f"only {faults} major page faults"


class CgroupThrottle(Fault):
    """cpu.max on the rank's process. The quota lets it use nine tenths of the CPU time that a
    healthy step uses, once in the time that the slowed step is to take."""

    def start(self, step_ms):
        self.client = Client(self.context["injector"])
        period_us = max(1000, min(int(step_ms * (1 + self.size / 100) * 1000), 1_000_000))
        quota_us = max(1000, int(0.9e3 * self.context["cpu_ms_per_step"]()))
        return self.client.ask(do="cgroup-throttle", pid=os.getpid(), quota_us=quota_us,
                               period_us=period_us)

    def end(self):
        return self.client.ask(do="cgroup-throttle", pid=os.getpid(), quota_us=0, period_us=0)


class CpuHog(Fault):
    """Others compute on the cores that the rank is pinned to."""

    CORES_MAX = 4

    def start(self, step_ms):
        self.client = Client(self.context["injector"])
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) > self.CORES_MAX:
            return f"the rank may run on {len(cores)} cores: it must be pinned (--pin-cores)"
        return self.client.ask(do="cpu-hog", cores=cores, count=1 + self.size // 100)

    def end(self):
        return self.client.ask(do="cpu-hog", cores=[], count=0)


class GpuShared(Fault):
    """A second process computes on the rank's GPU; the driver gives it time slices."""

    def prepare(self, step_ms):
        self.client = Client(self.context["injector"])
        return self.client.ask(do="prepare", gpu=self.context["gpu"])

    def start(self, step_ms):
        # Two busy processes get half the GPU each: duty d makes the step 1 / (1 - d / 2) as long.
        return self.client.ask(do="gpu-shared", gpu=self.context["gpu"],
                               duty=min(1.0, 2 - 2 / (1 + self.size / 100)))

    def end(self):
        return self.client.ask(do="gpu-shared", gpu=self.context["gpu"], duty=0)


class ExtraKernels(Fault):
    """More kernels than the other ranks launch, of a kind that the step has no other of."""

    ELEMENTS = 32 << 20

    def prepare(self, step_ms):
        import torch

        self.torch, self.data = torch, torch.zeros(self.ELEMENTS, device="cuda")
        self.kernel_ms = measure_ms(torch, lambda: self.torch.cos_(self.data))
        return ""

    def start(self, step_ms):
        self.count = max(1, min(int(self.extra_ms / self.kernel_ms), 5000))

    def on_device(self):
        for _ in range(self.count):
            self.torch.cos_(self.data)


class LongerKernels(Fault):
    """The kernels that every rank runs in every step work on a bigger matrix."""

    ROWS_MOST = 1 << 18  # of 4096 floats: 4 GiB

    ROWS_MEASURED = 1 << 15

    def prepare(self, step_ms):
        import torch

        auxiliary = self.context["auxiliary"]
        auxiliary.reserve(self.ROWS_MOST)
        auxiliary.resize(self.ROWS_MEASURED)
        self.took_ms = measure_ms(torch, auxiliary.run)
        auxiliary.resize(None)
        return ""

    def start(self, step_ms):
        rows = int(self.ROWS_MEASURED * self.extra_ms / self.took_ms)
        self.context["auxiliary"].resize(max(1 << 10, min(rows, self.ROWS_MOST)))

    def end(self):
        self.context["auxiliary"].resize(None)
        return ""


def measure_ms(torch, work, repeats=10):
    """Mean device time of a piece of work, in ms."""
    work()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    for _ in range(repeats):
        work()
    end.record()
    torch.cuda.synchronize()
    return max(begin.elapsed_time(end) / repeats, 1e-3)


class CommSlow(Fault):
    """What the rank's node sends is limited by a token bucket (tbf) on its interface."""

    def start(self, step_ms):
        device, helper = self.context.get("net_device"), self.context.get("net_helper")
        if not device or not helper:
            return "the ranks are not in network namespaces of their own"
        bytes_per_step = self.context["sent_bytes_per_step"]()
        if bytes_per_step < 1 << 16:
            return f"a step sends only {bytes_per_step:.0f} bytes through {device}"
        rate = int(bytes_per_step / (step_ms * (1 + self.size / 100)) * 1e3)
        return self.run([helper, "limit", device, str(max(rate, 1 << 16))])

    @staticmethod
    def run(command):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        return "" if done.returncode == 0 else done.stderr.strip() or f"{command[0]} failed"

    def end(self):
        return self.run([self.context["net_helper"], "unlimit", self.context["net_device"]])


MEANS = {
    "gpu-shared": GpuShared, "extra-kernels": ExtraKernels, "longer-kernels": LongerKernels,
    "input-sleep": InputSleep, "gil": HeldGil, "gc": GarbageStorm,
    "cgroup-throttle": CgroupThrottle, "cpu-hog": CpuHog, "minor-fault": MinorFaults,
    "major-fault": MajorFaults, "comm-slow": CommSlow,
}


def attempt(call, *arguments):
    """What the call says, or the error that it ended with: a fault must not end the job."""
    try:
        return call(*arguments)
    except (OSError, RuntimeError, MemoryError, ValueError, subprocess.SubprocessError) as error:
        return str(error).splitlines()[0] if str(error) else repr(error)


class FaultRunner:
    """Begins and ends one rank's faults on their steps, and says so in the truth log."""

    def __init__(self, windows, rank, context, truth):
        self.windows = sorted((w for w in windows if w["rank"] == rank),
                              key=lambda window: window["first_step"])
        self.context, self.truth = context, truth
        self.active, self.window, self.why = None, None, ""
        self.prepared = []  # (fault, why not) of each window still to come

    def prepare(self, step_ms):
        """Once, between the warm-up and the first step."""
        for window in self.windows:
            fault = MEANS[window["kind"]](self.context, window["size"])
            self.prepared.append((fault, attempt(fault.prepare, step_ms)))

    def say(self, event, step, why):
        self.truth.add(event, step=step, applied=not why, why=why, **self.window)

    def at_step(self, step, step_ms):
        """Called at the beginning of every step."""
        if self.window and step > self.window["last_step"]:
            why = "" if self.why else attempt(self.active.end)
            self.say("fault_end", step, why)
            self.active, self.window = None, None
        if self.windows and step >= self.windows[0]["first_step"]:
            self.window = self.windows.pop(0)
            self.active, self.why = self.prepared.pop(0)
            self.why = self.why or attempt(self.active.begin, step_ms)
            self.say("fault_begin", step, self.why)
            if self.why:  # cannot be made: the rest of the window is healthy
                self.active = Fault(self.context, 0)

    def each_step(self):
        if self.active:
            self.active.each_step()

    def on_device(self):
        if self.active:
            self.active.on_device()

    def close(self, step):
        if self.window:
            self.say("fault_end", step, "" if self.why else attempt(self.active.end))
            self.active, self.window = None, None
