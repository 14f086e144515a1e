# SPDX-License-Identifier: Apache-2.0
"""Something slow at a known line, in the process of a program that knows nothing of it: author.py calls as each step begins.

The file "fault" in $TRUTH says what: "KIND RANK SECONDS", rank -1 for all of them; without it, nothing. Lines where it is slow are
marked AT with the kind, and HOLDS where a lock is held meanwhile. $LINE_FAULTS is libfault_native.so of tests/stacks, or empty.
"""
import ctypes
import importlib
import logging
import os
import random
import sys
import threading
import time

EVERY_RANK = -1
PERIODS = {"checkpoint": 5}  # steps
SAMPLES_BYTES, READ_BYTES, COPY_BYTES = 16 << 20, 256 << 10, 32 << 20
LOG_BYTES_A_SECOND, LOG_READ = 1 << 20, 4096


def wanted_here():
    """(kind, seconds) of this rank now; (None, 0) mostly."""
    try:
        with open(os.path.join(os.environ["TRUTH"], "fault"), encoding="ascii") as file:
            kind, rank, seconds = file.read().split()
    except FileNotFoundError:
        return None, 0
    return (kind, float(seconds)) if int(rank) in (EVERY_RANK, int(os.environ["RANK"])) else (None, 0)


def decode(seconds):
    """What a loader does for a batch; ends with the fault, so that no batch is late for longer."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and wanted_here()[0] == "data-loader":  # AT data-loader
        time.sleep(0.01)  # AT data-loader


def wrap_loaders():
    """Before loaders fork their workers. Each of n has n times as long for a batch."""
    data = importlib.import_module("torch.utils.data")
    fetcher = data._utils.fetch._MapDatasetFetcher  # pylint: disable=protected-access
    fetch = fetcher.fetch

    def fetch_slowly(self, indices):
        kind, seconds = wanted_here()
        if kind == "data-loader":
            worker = data.get_worker_info()
            decode(seconds * (worker.num_workers if worker else 1))  # AT data-loader
        return fetch(self, indices)

    fetcher.fetch = fetch_slowly


class Lines:
    """Faults of one rank, and what they need."""

    def __init__(self):
        self.folder = os.path.join(os.environ["HOME"], f"files-{os.environ['RANK']}")
        os.makedirs(self.folder)
        path = os.environ["LINE_FAULTS"]
        self.native_library = ctypes.CDLL(path) if path else None
        self.torch = sys.modules.get("torch")
        if self.torch:
            wrap_loaders()
            self.weights = {f"layer{i}.weight": self.torch.randn(1024, 1024) for i in range(4)}
            self.numbers = self.torch.randn(200_000)
            self.on_host = self.torch.zeros(COPY_BYTES, dtype=self.torch.uint8)
        self.samples = self.make_samples()
        self.logger = self.make_logger()
        self.kind, self.count = None, 0
        self.lock, self.hold_s = threading.Lock(), 0
        self.wanted, self.begun = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self.hold_always, name="saver", daemon=True).start()

    def make_samples(self):
        samples = os.open(os.path.join(self.folder, "samples.bin"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        for _ in range(SAMPLES_BYTES >> 20):
            os.write(samples, os.urandom(1 << 20))
        os.fsync(samples)
        os.posix_fadvise(samples, 0, 0, os.POSIX_FADV_RANDOM)
        return samples

    def make_logger(self):
        """To a pipe that somebody reads slowly."""
        reader, writer = os.pipe()
        threading.Thread(target=self.collect, args=(reader,), name="collector", daemon=True).start()
        handler = logging.StreamHandler(os.fdopen(writer, "w"))
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        logger = logging.getLogger("layers")
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        return logger

    @staticmethod
    def collect(reader):
        while True:
            time.sleep(len(os.read(reader, LOG_READ)) / LOG_BYTES_A_SECOND)

    def hold_always(self):
        """Another thread, which saves something under a lock that the loop needs, too."""
        while True:
            self.wanted.acquire()
            if self.kind == "mutex":
                self.begun.release()
                self.native_library.native_hold(ctypes.c_int64(int(self.hold_s * 1e9)))  # HOLDS mutex
                continue
            with self.lock:
                self.begun.release()
                time.sleep(self.hold_s)  # HOLDS lock

    def at_step(self):
        kind, seconds = wanted_here()
        self.count = self.count + 1 if kind == self.kind else 0
        self.kind = kind
        if kind and kind != "data-loader" and self.count % PERIODS.get(kind, 1) == 0:
            self.hold_s = seconds
            getattr(self, "be_slow_by_" + kind)(time.monotonic() + seconds * PERIODS.get(kind, 1))

    def be_slow_by_python(self, end):
        text = ""
        while time.monotonic() < end:  # AT python
            for number in range(300):  # AT python
                text = (text + str(number))[-64:]  # AT python

    def be_slow_by_native(self, end):
        self.native_library.native_churn(ctypes.c_int64(int((end - time.monotonic()) * 1e9)))  # AT native

    def be_slow_by_tensor(self, end):
        while time.monotonic() < end:  # AT tensor
            self.numbers.sort()  # AT tensor

    def be_slow_by_lock(self, _):
        self.wanted.release()
        self.begun.acquire()
        with self.lock:  # AT lock
            pass

    def be_slow_by_mutex(self, _):
        self.wanted.release()
        self.begun.acquire()
        time.sleep(0.001)
        self.native_library.native_enter()  # AT mutex

    def be_slow_by_read(self, end):
        while time.monotonic() < end:  # AT read
            os.posix_fadvise(self.samples, 0, 0, os.POSIX_FADV_DONTNEED)  # AT read
            os.pread(self.samples, READ_BYTES, random.randrange(SAMPLES_BYTES - READ_BYTES))  # AT read

    def be_slow_by_file(self, end):
        with open(os.path.join(self.folder, "progress.bin"), "wb", buffering=0) as file:
            while time.monotonic() < end:  # AT file
                file.write(b"." * 4096)  # AT file
                os.fsync(file.fileno())  # AT file

    def be_slow_by_checkpoint(self, end):
        path = os.path.join(self.folder, "checkpoint.pt")
        while time.monotonic() < end:
            with open(path + ".new", "wb") as file:  # AT checkpoint
                self.torch.save(self.weights, file)  # AT checkpoint
                file.flush()  # AT checkpoint
                os.fsync(file.fileno())  # AT checkpoint
            os.replace(path + ".new", path)  # AT checkpoint

    def be_slow_by_logging(self, end):
        while time.monotonic() < end:  # AT logging
            self.logger.info("layer: %s", "0.123456789 " * 39)  # AT logging

    def be_slow_by_allocator(self, end):
        while time.monotonic() < end:  # AT allocator
            self.torch.empty(COPY_BYTES, dtype=self.torch.uint8, device="cuda")  # AT allocator
            self.torch.cuda.empty_cache()  # AT allocator

    def be_slow_by_copies(self, end):
        while time.monotonic() < end:  # AT copies
            self.on_host.to("cuda")  # AT copies
