#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks in Python over Open MPI (through ctypes), one of which is slow in a function of a known name.

    stack_job.py STEPS RANK FIRST MS

From step FIRST on, RANK sleeps for MS milliseconds in each step, in read_shard(); it comes between two barriers.
"""
import ctypes
import sys
import time

mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
world = ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world"))


def read_shard(milliseconds):
    time.sleep(milliseconds / 1000)


def forward():
    time.sleep(0.010)


def main():
    steps, culprit, first, milliseconds = map(int, sys.argv[1:5])
    number = ctypes.c_int()
    mpi.MPI_Init(None, None)
    mpi.MPI_Comm_rank(world, ctypes.byref(number))
    for step in range(steps):
        forward()
        mpi.MPI_Barrier(world)
        if number.value == culprit and step >= first:
            read_shard(milliseconds)
        time.sleep(0.003)
        mpi.MPI_Barrier(world)
    mpi.MPI_Finalize()


main()
