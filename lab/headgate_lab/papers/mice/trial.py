# mypy: allow-untyped-calls
"""One run: queries arrive by a rule, or come and go while servers do so too; and
what is measured meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from headgate.hosting import NO_REPAIR, Repair, Replay
from headgate.hosting.balance import Balance
from headgate.hosting.online.rules import Rule
from headgate.hosting.placement import state as placement
from headgate.hosting.placement.state import COST, FALLBACKS, MOVED_QUERIES, QUERIES, SAVED_TRAFFIC, SIZE
from headgate.hosting.workload import Floats, Ints, Workload
from headgate_lab.papers.mice.world import Churn

SAMPLES = 200
"""How often the factor is measured under churn; the second half is averaged (MICE-E17)."""


@dataclass(frozen=True)
class TrialResult:
    """A run's factor (averaged, and at its end), and what it took."""

    replication: float
    final: float
    fallbacks: int
    events: int
    moves: int
    saved: float
    imbalance: float
    servers: int
    live: Workload | None = None


class Trial(Replay):
    """A replay in which servers come and go, and its outcome."""

    def server_event(self, luck: float) -> None:
        """Add a server, or lose a random one and place its queries again (MICE-29). The last one stays."""
        alive = np.flatnonzero(self.state.size > 0)
        if luck < 0.5:
            self.state = placement.with_server(self.state, 1.0)
        elif alive.shape[0] > 1:
            lost = int(alive[int((luck - 0.5) * 2 * alive.shape[0])])
            orphans = np.flatnonzero(self.state.server_of == lost)
            self.depart(orphans)
            placement.without_server(self.state, lost)
            self.arrive(orphans)

    def outcome(self, factors: list[float], events: int, live: Workload | None = None) -> TrialResult:
        """Sum up."""
        totals, fill = self.state.totals, self.state.fill
        filled = fill[np.isfinite(fill)]
        return TrialResult(
            replication=float(np.mean(factors)),
            final=self.replication,
            fallbacks=int(totals[FALLBACKS]),
            events=events,
            moves=int(totals[MOVED_QUERIES]),
            saved=float(totals[SAVED_TRAFFIC]),
            imbalance=float(filled.max() * totals[SIZE] / totals[COST]) if totals[QUERIES] else 1.0,
            servers=filled.shape[0],
            live=live,
        )


def arrive(
    load: Workload,
    servers: int | Floats,
    rule: Rule,
    *,
    balance: Balance | None = None,
    repair: Repair = NO_REPAIR,
    seed: int = 0,
) -> TrialResult:
    """All queries arrive, one after another, and none leaves (Figure 4)."""
    sizes = np.ones(servers) if isinstance(servers, int) else servers
    run = Trial(
        load, sizes, rule, balance=balance, repair=repair, draw=np.random.default_rng([seed, 2]).random
    )
    run.arrive(np.arange(load.queries))
    return run.outcome([run.replication], load.queries)


def live(
    life: Churn,
    servers: int,
    rule: Rule,
    *,
    balance: Balance | None = None,
    repair: Repair = NO_REPAIR,
    seed: int = 0,
) -> TrialResult:
    """Queries come and go, and servers too where the life says so (Figures 5 and 6)."""
    draw = np.random.default_rng([seed, 2]).random
    run = Trial(life.load, np.ones(servers), rule, balance=balance, repair=repair, draw=draw)
    looks = np.linspace(0, life.steps, SAMPLES + 1)[1:]
    trials = np.arange(1, life.steps, life.gamma) if life.gamma else np.zeros(0)
    factors: list[float] = []
    at = 0
    for time in np.unique(np.concatenate((looks, trials))):
        end = int(np.searchsorted(life.step, time))
        run.apply(life.act[at:end], life.query[at:end])
        at = end
        if life.gamma and time in trials:
            run.server_event(float(life.coin[int(time) // life.gamma]))
        if time in looks and time > life.steps / 2:
            factors.append(run.replication)
    there = np.flatnonzero(run.state.server_of >= 0)
    return run.outcome(factors, life.act.shape[0], part(life.load, there))


def part(load: Workload, queries: Ints) -> Workload:
    """Return the workload of some of its queries."""
    lengths = np.diff(load.start)[queries]
    start = np.zeros(queries.shape[0] + 1, np.int64)
    np.cumsum(lengths, out=start[1:])
    at = np.repeat(load.start[queries] - start[:-1], lengths) + np.arange(start[-1])
    return replace(load, start=start, source=load.source[at], cost=load.cost[queries])
