#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A source that heats a plate, and goes round on it: finite elements by escript, one linear system a step, each as much work."""
from math import cos, pi, sin

from mpi4py import MPI  # begins MPI, which escript takes for begun
from esys.escript import Function, exp, interpolate, kronecker, whereZero
from esys.escript.linearPDEs import LinearPDE
from esys.ripley import Rectangle

domain = Rectangle(n0=300, n1=300, d0=MPI.COMM_WORLD.Get_size(), d1=1)
x = domain.getX()
pde = LinearPDE(domain)
pde.setSymmetryOn()
pde.setValue(A=0.001 * kronecker(2), D=1.0, q=whereZero(x[0]))
for step in range(1, 1000000):
    angle = pi * step / 50
    source = exp(-50 * ((x[0] - 0.5 - 0.2 * cos(angle)) ** 2 + (x[1] - 0.5 - 0.2 * sin(angle)) ** 2))
    pde.setValue(Y=interpolate(source, Function(domain)))
    pde.getSolution()
    if MPI.COMM_WORLD.Get_rank() == 0:
        print("step", step, flush=True)
