#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Molecular dynamics of a bent chain of lithium hydride, on a real-space grid that the ranks share."""
import random

from ase import Atoms, units
from ase.md.verlet import VelocityVerlet
from gpaw import GPAW
from gpaw.mpi import world

random.seed(5)
symbols, places = "", []
for i in range(4):
    for j in range(2):
        symbols += "LiH" if (i + j) % 2 else "HLi"
        places += [(2.0 + 2.0 * i + random.uniform(-0.1, 0.1), 2.0 + 2.0 * j, 2.0 + k * 1.8) for k in range(2)]
atoms = Atoms(symbols, positions=places, cell=(10.4, 6.4, 6.4), pbc=(True, False, False))
atoms.center(axis=(1, 2))
atoms.calc = GPAW(mode="fd", gpts=(48, 32, 32), xc="LDA", txt="-", symmetry="off", parallel={"domain": world.size})
VelocityVerlet(atoms, 0.5 * units.fs).run(100000)
