"""A small cluster, a leaner one, and a policy that never rests."""

from dataclasses import dataclass, field

import numpy as np

from headgate.control import Move, Plan
from headgate.control.policy import Policy
from headgate.simulator.cluster import Cluster

SMALL = Cluster(
    nodes=3,
    bins_per_node=4,
    bin_tuples=500,
    buffer_tuples=60,
    connection_tuples=6,
    disk_mb_per_s=4,
    seek_ms=1,
)


LEAN = {"memory_mb": 0.16, "drain_at_once": True}  # four bins of 40 KB each


@dataclass(frozen=True)
class Restless(Policy):
    """Moves some bin somewhere in every round, by a seed: nothing that a policy does is worse."""

    seed: int
    name: str = field(default="restless", init=False)

    def propose(self, view, table):
        rng = np.random.default_rng([self.seed, view.reports])
        bins = rng.choice(len(table.bins), size=int(rng.integers(0, 4)), replace=False)
        drawn = [Move(int(b), table.channel_of[int(b)], int(rng.integers(table.channels))) for b in bins]
        moves = tuple(move for move in drawn if move.source != move.target)
        return Plan(policy=self.name, from_version=table.version, moves=moves, gain=1.0) if moves else None
