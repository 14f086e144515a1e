#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A reaction that spreads over a square, by the older DOLFIN: Newton's method in each step of time."""
import sys

import dolfin

dolfin.set_log_level(40)
mesh = dolfin.UnitSquareMesh(dolfin.MPI.comm_world, 130, 110)
space = dolfin.FunctionSpace(mesh, "P", 1)
now, before, test = dolfin.Function(space), dolfin.Function(space), dolfin.TestFunction(space)
before.interpolate(dolfin.Expression("exp(-90 * (pow(x[0] - 0.3, 2) + pow(x[1] - 0.4, 2)))", degree=2))
now.assign(before)
residual = ((now - before) / 0.01 * test + 0.002 * dolfin.dot(dolfin.grad(now), dolfin.grad(test))
            - now * (1 - now) * (now - 0.2) * test) * dolfin.dx
problem = dolfin.NonlinearVariationalProblem(residual, now, J=dolfin.derivative(residual, now))
solver = dolfin.NonlinearVariationalSolver(problem)
solver.parameters["newton_solver"].update({"linear_solver": "bicgstab", "preconditioner": "jacobi"})
for step in range(1, int(sys.argv[1]) + 1):
    solver.solve()
    before.assign(now)
    amount = dolfin.assemble(now * dolfin.dx)
    if mesh.mpi_comm().rank == 0:
        print("step", step, amount, flush=True)
