"""The query of the paper as a fluid: a join's probe side dealt over machines by
shares, step by step.

In a step of 0.1 s a machine works at speed / (1 + jobs). The exchange in front deals every tuple by
the shares and stops when one machine's queue is full, so the slowest machine for its share holds
the others. Giving or taking a share d of the build table costs a machine d * (state bytes /
bandwidth) of its time (c_i of Eq. 1). The controller sees, after a step, the time that each machine
would take for the whole workload at its present speed, and its shares hold from the next step on.

The paper does not describe its simulator. The sizes are those of the paper and the speeds are ours,
so claims are about order and ratio.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from headgate.policies.horizon import Floats
from headgate_lab.papers.mpc.load import STEP_S


@dataclass(frozen=True)
class Query:
    """Orders joined to LineItem: 6M probing tuples over a table of 1.5M tuples of 85 bytes (a
    quarter of the columns omitted).
    """

    tuples: float = 6e6
    tuples_per_s: float = 1e5
    state_bytes: float = 1.5e6 * 85
    bytes_per_s: float = 125e6
    queue_tuples: float = 1e4

    @property
    def move_s(self) -> float:
        """The time in which a machine gives or takes the whole state."""
        return self.state_bytes / self.bytes_per_s


class Controller(Protocol):
    """Sees the machines' times for the whole workload after each step and returns the shares
    to enforce, or None.
    """

    def step(self, unit_s: Floats) -> Floats | None:
        """Decide."""


@dataclass(frozen=True)
class QueryRun:
    """One run: the response time, and what happened by step."""

    seconds: float
    moved_share: float
    adaptations: int
    shares: Floats
    unit_s: Floats


def run(query: Query, jobs: Floats, controller: Controller | None) -> QueryRun:
    """Run the query to its end under this load; without a controller the shares stay equal. The
    load repeats if it is too short.
    """
    steps, machines = jobs.shape
    shares = np.full(machines, 1 / machines)
    queue, stall = np.zeros(machines), np.zeros(machines)
    left, moved, adaptations, step = query.tuples, 0.0, 0, 0
    all_shares, all_units = [], []
    while True:
        slow = 1 + jobs[step % steps]
        speed = query.tuples_per_s / slow
        busy = np.maximum(STEP_S - stall, 0.0)
        stall = np.maximum(stall - STEP_S, 0.0)
        can = speed * busy
        held = shares > 0
        dealt = min(left, float(((query.queue_tuples + can - queue)[held] / shares[held]).min()))
        queue += max(dealt, 0.0) * shares
        left -= max(dealt, 0.0)
        all_shares.append(shares)
        all_units.append(query.tuples / speed)
        step += 1
        if left <= 0 and (queue <= can).all():
            last = float((np.minimum(queue, can) / speed + STEP_S - busy).max())
            return QueryRun(
                (step - 1) * STEP_S + last,
                moved,
                adaptations,
                np.array(all_shares),
                np.array(all_units),
            )
        queue = np.maximum(queue - can, 0.0)
        wanted = controller.step(all_units[-1]) if controller is not None else None
        if wanted is not None:
            change = np.abs(wanted - shares)
            stall += change * query.move_s
            moved += float(change.sum()) / 2
            adaptations += 1
            shares = wanted
