#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Burgers' equation in a periodic cube, by mpi4py-fft's distributed transforms and Heun's method."""
import numpy as np
from mpi4py import MPI
from mpi4py_fft import PFFT, newDistArray

N, STEP, THICK = 96, 0.002, 0.02
world = MPI.COMM_WORLD
fft = PFFT(world, (N, N, N), axes=(0, 1, 2), dtype=float)
u, hat, out = newDistArray(fft, False), newDistArray(fft, True), newDistArray(fft, True)
where = np.meshgrid(*[2 * np.pi * np.arange(N)[part] / N for part in u.local_slice()], indexing="ij")
ranges = [np.fft.fftfreq(N, 1 / N), np.fft.fftfreq(N, 1 / N), np.fft.rfftfreq(N, 1 / N)]
k = np.meshgrid(*[wave[part] for wave, part in zip(ranges, hat.local_slice())], indexing="ij")
squares = k[0] ** 2 + k[1] ** 2 + k[2] ** 2
kept = np.all([np.abs(wave) < N / 3 for wave in k], axis=0)


def change(state):
    fft.backward(state.copy(), u)
    u[:] = u ** 2 / 2
    fft.forward(u, out)
    return -1j * (k[0] + k[1] + k[2]) * kept * out - THICK * squares * state


u[:] = np.sin(where[0]) * np.cos(where[1]) + 0.3 * np.sin(2 * where[2] + where[0])
fft.forward(u, hat)
for step in range(1, 10000000):
    first = change(hat)
    second = change(hat + STEP * first)
    hat[:] = hat + STEP / 2 * (first + second)
    energy = world.allreduce(float(np.sum(np.abs(hat) ** 2)))
    if world.rank == 0:
        print("step", step, energy, flush=True)
