#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rank in Python over Open MPI (through ctypes): computes, meets the others, step by step.

    garbage_job.py STEPS RANK FIRST LAST TRUTH

In the steps FIRST..LAST, RANK runs a full garbage collection over many objects in each step. Rank 0 writes
to TRUTH what happened, as tests/corpus/rules.py has it.
"""
import ctypes
import gc
import json
import sys
import time

steps, culprit, first, last = map(int, sys.argv[1:5])
begins = []
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)
world = ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world"))
number = ctypes.c_int()
mpi.MPI_Comm_rank(world, ctypes.byref(number))
rank = number.value
gc.disable()
objects = [[i] for i in range(60000)]  # what a collection has to walk over
for step in range(steps):
    begins.append(time.time())
    until = time.monotonic() + 0.002
    while time.monotonic() < until:
        pass
    time.sleep(0.013)
    if rank == culprit and first <= step <= last:
        for _ in range(4):
            gc.collect()
    mpi.MPI_Barrier(world)
mpi.MPI_Finalize()
if rank == 0:
    with open(sys.argv[5], "w", encoding="utf-8") as file:
        json.dump({"program": "Python over Open MPI: a barrier a step", "step_begins_s": begins,
                   "windows": [{"kind": "gc", "rank": culprit, "first": first, "last": last + 1}]},
                  file)
