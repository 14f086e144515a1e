# SPDX-License-Identifier: Apache-2.0
"""Elastic balls that bounce in a box; ESyS-Particle's master only says what the workers are to do."""
from esys.lsm import GravityPrms, LsmMpi, NRotElasticPrms, NRotElasticWallPrms, Runnable
from esys.lsm.geometry import RandomBoxPacker
from esys.lsm.util import BoundingBox, Vec3

SIDE = 16


class Ticker(Runnable):
    def __init__(self, simulation):
        Runnable.__init__(self)
        self.simulation = simulation

    def run(self):
        step = self.simulation.getTimeStep()
        if step % 10 == 0:
            print("tick", step, flush=True)


simulation = LsmMpi(numWorkerProcesses=2, mpiDimList=[2, 1, 1])
simulation.initNeighbourSearch(particleType="NRotSphere", gridSpacing=2.5, verletDist=0.2)
simulation.setNumTimeSteps(100000000)
simulation.setTimeStepSize(0.0005)
corner = Vec3(SIDE, SIDE, SIDE)
simulation.setSpatialDomain(BoundingBox(Vec3(-2, -2, -2), Vec3(SIDE + 2, SIDE + 2, SIDE + 2)))
packer = RandomBoxPacker(minRadius=0.3, maxRadius=0.6, cubicPackRadius=2.2, maxInsertFails=3000,
                         bBox=BoundingBox(Vec3(0, 0, 0), corner), circDimList=[False, False, False], tolerance=1e-5)
packer.generate()
simulation.createParticles(packer.getSimpleSphereCollection())
simulation.createInteractionGroup(NRotElasticPrms(name="touch", normalK=900.0, scaling=True))
simulation.createInteractionGroup(GravityPrms(name="gravity", acceleration=Vec3(0, -9.8, 0)))
for axis in range(3):
    for side, sign in ((0, 1), (SIDE, -1)):
        name = f"wall{axis}{sign}"
        at, normal = [0, 0, 0], [0, 0, 0]
        at[axis], normal[axis] = side, sign
        simulation.createWall(name=name, posn=Vec3(*at), normal=Vec3(*normal))
        simulation.createInteractionGroup(NRotElasticWallPrms(name=f"at_{name}", wallName=name, normalK=900.0))
ticker = Ticker(simulation)
simulation.addPreTimeStepRunnable(ticker)
simulation.run()
