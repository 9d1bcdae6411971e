"""One instance of the family under one rule: its factor, what moved, and the time that it took."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from headgate.hosting import NO_REPAIR, Balance, Repair, Replay, Rule
from headgate.hosting.offline.bounds import capacity_bound
from headgate.hosting.placement import state as placement
from headgate.hosting.placement.state import FALLBACKS, MOVED_QUERIES, TRAFFIC
from headgate_lab.bench.placement.family import Instance
from headgate_lab.papers.mice.trial import part

LOOKS = 100
"""How often the factor is measured under churn; the second half is averaged."""


@dataclass(frozen=True)
class Outcome:
    """What an instance came to: the factor (averaged under churn), moves an event, queries that no server had room for,
    and CPU seconds.
    """

    factor: float
    moved: float
    fallbacks: int
    seconds: float
    final: float
    """The traffic at the end."""
    bound: float
    """What no placement of the queries that are there at the end can be below, within the limits."""


def play(instance: Instance, rule: Rule, repair: Repair = NO_REPAIR) -> Outcome:
    """Play an instance."""
    draw = np.random.default_rng([instance.seed, 99])
    run = Replay(instance.load, np.ones(instance.servers), rule, repair=repair, draw=draw.random)
    total = instance.events.shape[0]
    looks = np.linspace(0, total, LOOKS + 1).astype(np.int64)[1:] if instance.churns else np.array([total])
    factors, at = list[float](), 0
    begin = time.process_time()
    for end in sorted({*looks.tolist(), *(x for x in instance.servers_at if x <= total)}):
        run.apply(instance.events[at:end], instance.query[at:end])
        at = end
        change = instance.servers_at.get(end, 0)
        for _ in range(change):
            run.state = placement.with_server(run.state, 1.0)
        lost = draw.choice(np.flatnonzero(run.state.size > 0), max(-change, 0), replace=False)
        if lost.shape[0]:
            orphans = np.flatnonzero(np.isin(run.state.server_of, lost))
            run.depart(orphans)
            for server in lost:
                placement.without_server(run.state, int(server))
            run.arrive(orphans)
        if end in looks and end >= total / 2:
            factors.append(run.replication)
    seconds = time.process_time() - begin
    totals = run.state.totals
    there = part(instance.load, np.flatnonzero(run.state.server_of >= 0))
    sizes = run.state.size[run.state.size > 0]
    limits = Balance().online_limits(there.total_cost, there.queries, sizes)
    return Outcome(
        float(np.mean(factors)), float(totals[MOVED_QUERIES]) / total, int(totals[FALLBACKS]), seconds,
        float(totals[TRAFFIC]), capacity_bound(there, limits),
    )  # fmt: skip
