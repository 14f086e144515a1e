#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Heat in a cube, by implicit steps: PETSc's conjugate gradients on a distributed grid."""
import sys

import petsc4py

petsc4py.init(sys.argv)
from petsc4py import PETSc  # noqa: E402

N, STEP = 48, 0.5
grid = PETSc.DMDA().create([N, N, N], stencil_width=1)
matrix = grid.createMatrix()
(x0, x1), (y0, y1), (z0, z1) = grid.getRanges()
row, column = PETSc.Mat.Stencil(), PETSc.Mat.Stencil()
for k in range(z0, z1):
    for j in range(y0, y1):
        for i in range(x0, x1):
            row.index = (i, j, k)
            near = [at for at in ((i - 1, j, k), (i + 1, j, k), (i, j - 1, k), (i, j + 1, k),
                                  (i, j, k - 1), (i, j, k + 1)) if all(0 <= c < N for c in at)]
            for at in near:
                column.index = at
                matrix.setValueStencil(row, column, -STEP)
            matrix.setValueStencil(row, row, 1 + 6 * STEP)
matrix.assemble()
heat = grid.createGlobalVector()
heat.setRandom()
after = heat.duplicate()
solver = PETSc.KSP().create()
solver.setOperators(matrix)
solver.setType("cg")
solver.getPC().setType("jacobi")
solver.setTolerances(rtol=1e-8)
solver.setFromOptions()
for step in range(10_000_000):
    solver.solve(heat, after)
    after.copy(heat)
    heat.shift(0.001)
    if PETSc.COMM_WORLD.rank == 0:
        print("step", step, flush=True)
