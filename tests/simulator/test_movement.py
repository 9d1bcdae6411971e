"""Bins on their way hold nobody up."""

from dataclasses import dataclass, field

from tests.simulator.small import SMALL

from headgate.control import Move, Plan
from headgate.control.policy import Policy
from headgate.simulator.cluster import Cluster
from headgate.simulator.run import Simulation
from headgate.simulator.workload import uniform


def test_bins_that_stay_are_processed_while_another_moves() -> None:
    """FLUX-21: a bin on its way holds nobody up."""
    cluster = Cluster(**{**SMALL.__dict__, "move_pair_mbps": 1.0, "buffer_tuples": 4000})

    @dataclass(frozen=True)
    class Once(Policy):
        name: str = field(default="once", init=False)

        def propose(self, view, table):
            if table.version:
                return None
            return Plan(policy=self.name, from_version=0, moves=(Move(0, 0, 1),), gain=1.0)

    simulation = Simulation(cluster, Once(), uniform(cluster.bins), seconds=1, seed=1)
    while not simulation.plane.arrays.stalled[0]:
        simulation.step(simulation.plane.tick + 1)
    simulation.step(simulation.plane.tick + 60)  # what was in flight is gone by now
    before = simulation.plane.arrays.processed.copy()
    simulation.step(simulation.plane.tick + 60)
    done = simulation.plane.arrays.processed - before
    assert done[0] == 0
    assert done[1:].min() > 0
