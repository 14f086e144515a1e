# SPDX-License-Identifier: Apache-2.0
"""
A training loop in Python over Open MPI, by ctypes alone; with --device over the stand-ins of NCCL and CUDA. On one rank
something is slow in some of its steps. Lines where that is are marked AT with its name; all else of the loop is the same on
each rank. Rank 0 writes to --truth what happened, as tests/corpus/rules.py has it.
"""
import argparse
import ctypes
import json
import logging
import multiprocessing
import os
import pickle
import random
import signal
import sys
import threading
import time

STEP_MS = 36
THREAD_MULTIPLE = 3
HOST_SHARE = 0.8
COPY_BYTES = 8 << 20
SLOW_DISK_BYTES_A_MS = (4 << 20) // 1000
LOG_BYTES = 65536  # a step: as much as a pipe holds
EVERY_RANK = -1  # all do the same, and nobody is slow: what would be slow beside the loop is then not, for the latest rank would stay it
WORLD_COMMUNICATOR, SUM_OF_FLOATS = "ompi_mpi_comm_world", ("ompi_mpi_float", "ompi_mpi_op_sum")


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--first", type=int, required=True)
    parser.add_argument("--last", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--size-ms", type=float, default=20)
    parser.add_argument("--period", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--native", required=True, help="libfault_native.so")
    parser.add_argument("--folder", required=True, help="where its files go")
    parser.add_argument("--slow-folder", help="the same, on a slow disk")
    parser.add_argument("--device", action="store_true")
    parser.add_argument("--truth", required=True)
    return parser.parse_args()


def waited_ms():
    with open("/proc/thread-self/schedstat", encoding="ascii") as file:
        return int(file.read().split()[1]) / 1e6


class World:
    """Collectives of Open MPI."""

    def __init__(self):
        self.mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
        self.mpi.MPI_Init_thread(None, None, THREAD_MULTIPLE, ctypes.byref(ctypes.c_int()))
        self.communicator = self.object(WORLD_COMMUNICATOR)
        number = ctypes.c_int()
        self.mpi.MPI_Comm_rank(self.communicator, ctypes.byref(number))
        self.rank = number.value
        self.mpi.MPI_Comm_size(self.communicator, ctypes.byref(number))
        self.size = number.value
        self.numbers = (ctypes.c_float * 1024)()
        self.sums = (ctypes.c_float * 1024)()

    def object(self, name):
        return ctypes.byref(ctypes.c_char.in_dll(self.mpi, name))

    def all_reduce(self):
        kind, operation = map(self.object, SUM_OF_FLOATS)
        self.mpi.MPI_Allreduce(self.numbers, self.sums, 1024, kind, operation, self.communicator)

    def share(self, block):
        """A block of bytes of rank 0's becomes everybody's."""
        self.mpi.MPI_Bcast(ctypes.byref(block), ctypes.sizeof(block), self.object("ompi_mpi_byte"), 0, self.communicator)

    def work(self, length_s):
        time.sleep(length_s)

    def wait(self):
        pass

    def end(self):
        self.mpi.MPI_Finalize()


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


class DeviceWorld(World):
    """Collectives of NCCL; work is kernels, and the host, which takes nearly as long to prepare them, runs ahead."""

    def __init__(self, native):
        super().__init__()
        self.cuda = ctypes.CDLL("libcudart.so.13", mode=ctypes.RTLD_GLOBAL)
        self.nccl = ctypes.CDLL("libnccl.so.2", mode=ctypes.RTLD_GLOBAL)
        pass_time = ctypes.CDLL("libcuda.so.1").device_pass_time
        ctypes.c_void_p.in_dll(native, "native_pass_time").value = ctypes.cast(pass_time, ctypes.c_void_p).value
        self.kernel = ctypes.byref(ctypes.c_char.in_dll(native, "native_kernel"))
        self.nccl_world, self.stream, self.before = ctypes.c_void_p(), ctypes.c_void_p(), None
        unique = UniqueId()
        if self.rank == 0:
            self.check(self.nccl.ncclGetUniqueId(ctypes.byref(unique)))
        self.share(unique)
        self.check(self.cuda.cudaSetDevice(0))
        self.check(self.cuda.cudaStreamCreate(ctypes.byref(self.stream)))
        self.on_host, self.on_device = (ctypes.c_char * COPY_BYTES)(), ctypes.c_void_p()
        self.check(self.cuda.cudaMalloc(ctypes.byref(self.on_device), ctypes.c_size_t(COPY_BYTES)))
        self.nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
        self.check(self.nccl.ncclCommInitRank(ctypes.byref(self.nccl_world), self.size, unique, self.rank))

    @staticmethod
    def check(error):
        if error:
            raise RuntimeError(f"error {error}")

    def all_reduce(self):
        self.check(self.nccl.ncclAllReduce(self.numbers, self.sums, ctypes.c_size_t(1024), 7, 0, self.nccl_world, self.stream))

    def work(self, length_s):
        time.sleep(HOST_SHARE * length_s)
        length = ctypes.c_int64(int(length_s * 1e9))
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(length))
        self.check(self.cuda.cudaLaunchKernel(self.kernel, Dim3(80, 1, 1), Dim3(256, 1, 1), arguments, ctypes.c_size_t(0), self.stream))

    def wait(self):
        """For the step before: the host is one ahead."""
        done, self.before = self.before, ctypes.c_void_p()
        self.check(self.cuda.cudaEventCreate(ctypes.byref(self.before)))
        self.check(self.cuda.cudaEventRecord(self.before, self.stream))
        if done:
            self.check(self.cuda.cudaEventSynchronize(done))
            self.check(self.cuda.cudaEventDestroy(done))

    def end(self):
        self.check(self.cuda.cudaDeviceSynchronize())
        super().end()


class Samples:
    """What workers load, by the step's number; a worker that is slow is one of them."""

    def __init__(self, job):
        self.job = job

    def __len__(self):
        return self.job.steps + 8

    def __getitem__(self, index):
        time.sleep(0.004)
        if self.job.is_slow(index) and index % 2 and self.job.rank != EVERY_RANK:
            self.decode(2 * (STEP_MS / 1e3 + self.job.size_s))  # the other worker has every other one
        return index

    def decode(self, length_s):
        end = time.monotonic() + length_s
        while time.monotonic() < end:  # AT data-loader data-loader-queue
            time.sleep(0.002)  # AT data-loader data-loader-queue


def fill(samples, queue, numbers):
    for number in numbers:
        queue.put(samples[number])  # AT data-loader-queue


class QueueLoader:
    """Two workers, and a queue of each."""

    def __init__(self, samples):
        context = multiprocessing.get_context("fork")
        self.queues = [context.Queue(2) for _ in range(2)]
        for number, queue in enumerate(self.queues):
            context.Process(target=fill, args=(samples, queue, range(number, len(samples), 2)), daemon=True).start()
        self.number = 0

    def __next__(self):
        self.number += 1
        return self.queues[(self.number - 1) % 2].get()  # AT data-loader-queue


class Job:
    def __init__(self, chosen):
        self.__dict__.update(vars(chosen))
        self.size_s = self.size_ms / 1e3
        self.own_rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
        self.native_library = ctypes.CDLL(self.native)
        self.random = random.Random(f"{self.seed}/{self.own_rank}")
        self.folder = os.path.join(self.folder, str(self.own_rank))
        os.makedirs(self.folder, exist_ok=True)
        if self.own_rank == self.rank and self.slow_folder:
            self.folder = self.slow_folder
        self.lock = threading.Lock()
        self.wanted, self.begun = threading.Semaphore(0), threading.Semaphore(0)
        self.stopper = self.start_stopper() if self.kind == "stopped" else None  # forks, too
        self.batches = self.loader() if self.kind.startswith("data-loader") else None  # forks: before MPI has threads
        self.world = DeviceWorld(self.native_library) if self.device else World()
        self.logger = self.make_logger() if self.kind == "logging" else None
        self.weights = self.make_weights() if self.kind == "checkpoint" else None
        if self.kind in ("lock", "mutex"):
            threading.Thread(target=self.hold_always, name="saver", daemon=True).start()

    def is_slow(self, step):
        return self.rank in (self.own_rank, EVERY_RANK) and self.first <= step <= self.last and (step - self.first) % self.period == 0

    def loader(self):
        samples = Samples(self)
        if self.kind == "data-loader-queue":
            return QueueLoader(samples)
        import torch.utils.data  # pylint: disable=import-outside-toplevel

        return iter(torch.utils.data.DataLoader(samples, batch_size=None, num_workers=2, multiprocessing_context="fork"))

    def start_stopper(self):
        """Another process, which stops this one when it is asked to."""
        reader, writer = os.pipe()
        if os.fork():
            os.close(reader)
            return writer
        os.close(writer)
        while os.read(reader, 1):
            os.kill(os.getppid(), signal.SIGSTOP)
            time.sleep(self.size_s)
            os.kill(os.getppid(), signal.SIGCONT)
        os._exit(0)

    def make_weights(self):
        try:
            import torch  # pylint: disable=import-outside-toplevel

            return {f"layer{i}.weight": torch.randn(256, 256) for i in range(4)}
        except ImportError:
            return {f"layer{i}.weight": os.urandom(1 << 18) for i in range(4)}

    def make_logger(self):
        """To a pipe, which on the slow rank somebody reads slowly."""
        reader, writer = os.pipe()
        threading.Thread(target=self.collect, args=(reader,), daemon=True).start()
        handler = logging.StreamHandler(os.fdopen(writer, "w"))
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        logger = logging.getLogger("train")
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        return logger

    def collect(self, reader):
        while True:
            length = len(os.read(reader, 4096))
            if self.slow_now and self.rank != EVERY_RANK:
                time.sleep((STEP_MS / 1e3 + self.size_s) * length / LOG_BYTES)

    def hold_always(self):
        """Another thread, which saves something under a lock that the loop needs, too."""
        while True:
            self.wanted.acquire()
            if self.kind == "mutex":
                self.begun.release()
                self.native_library.native_hold(ctypes.c_int64(int(self.size_s * 1e9)))  # HOLDS mutex
                continue
            with self.lock:
                self.begun.release()
                time.sleep(self.size_s)  # HOLDS lock

    slow_now = False

    def python(self):
        """A function that nobody thought of."""
        end = time.thread_time() + self.size_s
        text = ""
        while time.thread_time() < end:  # AT python
            for number in range(300):  # AT python
                text = (text + str(number))[-64:]  # AT python
        return text

    def pause(self):
        """One that waits for what never comes."""
        end = time.monotonic() + self.size_s
        while time.monotonic() < end:  # AT pause
            time.sleep(0.001)  # AT pause

    def native_code(self):
        self.native_library.native_churn(ctypes.c_int64(int(self.size_s * 1e9)))  # AT native

    def take_lock(self):
        self.wanted.release()
        self.begun.acquire()
        with self.lock:  # AT lock
            pass

    def take_mutex(self):
        self.wanted.release()
        self.begun.acquire()
        time.sleep(0.001)
        self.native_library.native_enter()  # AT mutex

    def write_file(self):
        """More than the slow disk takes in a step: a limit of bytes a second holds up nobody else."""
        with open(os.path.join(self.folder, "samples.bin"), "wb") as file:  # AT file
            file.write(os.urandom(int((STEP_MS + self.size_ms) * SLOW_DISK_BYTES_A_MS)))  # AT file
            file.flush()  # AT file
            os.fsync(file.fileno())  # AT file

    def save(self):
        path = os.path.join(self.folder, "checkpoint.pt")
        with open(path + ".new", "wb") as file:  # AT checkpoint
            if "torch" in sys.modules:
                sys.modules["torch"].save(self.weights, file)  # AT checkpoint
            else:
                pickle.dump(self.weights, file)  # AT checkpoint
            file.flush()  # AT checkpoint
            os.fsync(file.fileno())  # AT checkpoint
        os.replace(path + ".new", path)  # AT checkpoint

    def log(self):
        for layer in range(LOG_BYTES // 512):
            self.logger.info("layer %3d: %s", layer, "0.123456789 " * 39)  # AT logging

    def allocate(self):
        """Memory that the device may still use is free when the device has done all."""
        block = ctypes.c_void_p()
        self.world.check(self.world.cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(1 << 20)))  # AT allocator
        self.world.check(self.world.cuda.cudaFree(block))  # AT allocator

    def copy(self):
        """Of memory that is not pinned: the call waits until it is there."""
        self.world.check(self.world.cuda.cudaMemcpy(self.world.on_device, self.world.on_host, ctypes.c_size_t(COPY_BYTES), 1))  # AT copies

    def be_stopped(self):
        os.write(self.stopper, b"s")  # AT stopped
        time.sleep(0.005)  # AT stopped

    def disturb(self):
        {"python": self.python, "pause": self.pause, "native": self.native_code, "lock": self.take_lock, "mutex": self.take_mutex,
         "file": self.write_file, "checkpoint": self.save, "logging": self.log, "allocator": self.allocate, "copies": self.copy,
         "stopped": self.be_stopped,
         }.get(self.kind, lambda: None)()

    def forward(self, step):
        if self.batches:
            next(self.batches)  # AT data-loader data-loader-queue
        self.world.work(self.length_s() / 2)
        if self.is_slow(step):
            self.disturb()
        self.world.work(self.length_s() / 4)

    def backward(self):
        self.world.work(self.length_s() / 4)
        self.world.all_reduce()

    def length_s(self):
        return STEP_MS / 1e3 * self.random.uniform(0.97, 1.03)

    def optimize(self):
        sum(i * i for i in range(2000))
        self.world.all_reduce()
        self.world.wait()

    def train(self):
        """When each step began, and for how long this thread could run and had no CPU in it: what else runs on the machine is no fault of ours."""
        begins, waits = [], []
        for step in range(self.steps):
            begins.append(time.time())
            before = waited_ms()
            self.slow_now = self.is_slow(step)
            self.forward(step)
            self.backward()
            self.optimize()
            waits.append(round(waited_ms() - before, 3))
        return begins, waits


def main():
    chosen = options()
    job = Job(chosen)
    begins, waits = job.train()
    with open(f"{job.truth}.{job.own_rank}", "w", encoding="utf-8") as file:
        json.dump(waits, file)
    if job.own_rank == 0:
        windows = [{"kind": job.kind, "rank": job.rank, "first": job.first, "last": job.last + 1}] if job.kind != "none" and job.rank != EVERY_RANK else []
        with open(job.truth, "w", encoding="utf-8") as file:
            json.dump({"program": "Python over Open MPI", "step_begins_s": begins, "windows": windows}, file)
    job.world.end()
    sys.stdout.flush()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch complains of workers that are killed
    for worker in multiprocessing.active_children():
        worker.kill()
    os._exit(0)  # threads that hold locks end with it


if __name__ == "__main__":
    main()
