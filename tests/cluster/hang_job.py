#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks in Python over Open MPI (through ctypes), one of which comes to a place that it does not leave.

    hang_job.py RANK STEP

At STEP, RANK reads from a pipe that nobody writes to, in read_token(); the others wait in a barrier.
"""
import ctypes
import os
import sys
import time

mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
world = ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world"))
reader, writer = os.pipe()


def read_token():
    return os.read(reader, 1)  # AT read_token


def prepare():
    read_token()  # AT prepare


def main():
    culprit, last = map(int, sys.argv[1:3])
    number = ctypes.c_int()
    mpi.MPI_Init(None, None)
    mpi.MPI_Comm_rank(world, ctypes.byref(number))
    for step in range(last + 1):
        time.sleep(0.02)
        if number.value == culprit and step == last:
            prepare()
        mpi.MPI_Barrier(world)  # AT barrier


main()
