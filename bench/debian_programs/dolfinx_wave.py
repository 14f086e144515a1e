#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A nonlinear wave in a box, by DOLFINx: each step assembles a vector and solves with the mass matrix."""
import ufl
from dolfinx import fem, mesh
from mpi4py import MPI
from petsc4py import PETSc

STEP, CELLS = 0.002, (28, 24, 20)
box = mesh.create_box(MPI.COMM_WORLD, [[0.0, 0.0, 0.0], [1.4, 1.2, 1.0]], CELLS)
space = fem.FunctionSpace(box, ("Lagrange", 1))
trial, test = ufl.TrialFunction(space), ufl.TestFunction(space)
now, before = fem.Function(space), fem.Function(space)
now.interpolate(lambda x: 2.71828 ** (-40 * ((x[0] - 0.5) ** 2 + (x[1] - 0.6) ** 2 + (x[2] - 0.4) ** 2)))
before.x.array[:] = now.x.array
mass = fem.petsc.assemble_matrix(fem.form(trial * test * ufl.dx))
mass.assemble()
force = fem.form(((2 * now - before) * test - STEP ** 2 * (ufl.inner(ufl.grad(now), ufl.grad(test)) + now ** 3 * test)) * ufl.dx)
right = fem.petsc.create_vector(force)
solver = PETSc.KSP().create(box.comm)
solver.setType("cg")
solver.getPC().setType("jacobi")
solver.setTolerances(rtol=1e-10)
solver.setOperators(mass)
after = fem.Function(space)
owned = space.dofmap.index_map.size_local
for step in range(1, 1000000):
    with right.localForm() as local:
        local.set(0)
    fem.petsc.assemble_vector(right, force)
    right.ghostUpdate(addv=PETSc.InsertMode.ADD, mode=PETSc.ScatterMode.REVERSE)
    solver.solve(right, after.vector)
    after.x.scatter_forward()
    before.x.array[:] = now.x.array
    now.x.array[:] = after.x.array
    size = box.comm.allreduce(float(now.x.array[:owned] @ now.x.array[:owned]), op=MPI.SUM)
    if box.comm.rank == 0:
        print("step", step, size, flush=True)
