# mypy: allow-untyped-calls
"""A numbered workload under a rule, many events per call: what `Host` does by name, at compiled speed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headgate.errors import ConfigError, NoRoom
from headgate.hosting.balance import Balance
from headgate.hosting.events import PLACE, REMOVE, apply_events
from headgate.hosting.offline.assignment import Assignment
from headgate.hosting.online.rules import LeastQT, RareFirst, Reserved, Rule
from headgate.hosting.placement.state import (
    RATE_IN_USE,
    TRAFFIC,
    PlacementState,
    new_state,
    with_spare_pool,
)
from headgate.hosting.refinement.two_way import most_opened
from headgate.hosting.repair.budget import Repair
from headgate.hosting.settings import settings_of
from headgate.hosting.workload import Floats, Ints, Workload

Events = NDArray[np.int8]
"""`events.PLACE` or `events.REMOVE`, one for each event."""


class Replay:
    """Replays arrivals and departures of a workload's queries, by number, under a rule.

    ``repair`` is that of the rule if it is not given; `NO_REPAIR` switches it off. ``draw(n)`` returns n numbers in [0, 1)
    for rules that choose at random.
    """

    def __init__(
        self,
        load: Workload,
        sizes: Floats,
        rule: Rule,
        *,
        balance: Balance | None = None,
        repair: Repair | None = None,
        draw: Callable[[int], Floats] | None = None,
    ) -> None:
        if isinstance(rule, Reserved):
            raise ConfigError("the shares of the rule 'reserved' are given by source name: use a Host")
        if rule.draws and draw is None:
            raise ConfigError(
                f"rule {rule.name!r} needs random numbers: give draw=, for example numpy.random.default_rng(7).random"
            )
        self.load = load
        budget = rule.repair if repair is None else repair
        self.state: PlacementState = new_state(
            load,
            sizes,
            count_types=isinstance(rule, LeastQT),
            list_readers=budget.moves > 0,
            track_popularity=isinstance(rule, RareFirst),
        )
        self._draw = draw if rule.draws else None
        self.settings = settings_of(
            rule,
            balance or Balance(),
            budget,
            max_sources=int(np.diff(load.start).max(initial=1)),
            shares=([0], [], []),
        )

    def apply(self, events: Events, queries: Ints) -> Ints:
        """Carry out events in order and return the server of each. Raise `NoRoom` at a query that no server can hold."""
        chance = self._draw(events.shape[0]) if self._draw else np.zeros(events.shape[0])
        server = np.full(events.shape[0], -2, np.int64)
        at = 0
        while at < events.shape[0]:
            at = apply_events(self.state, self.settings, events, queries, chance, server, at)
            if at < events.shape[0]:
                if server[at] == -1:
                    query, names = int(queries[at]), self.load.query_names
                    raise NoRoom(
                        f"query {names[query] if names else query!r} of cost {self.load.cost[query]:g} fits no server "
                        f"within capacity {self.settings.capacity:g}: raise the capacity or add servers"
                    )
                self.state = with_spare_pool(self.state, most_opened(self.settings))
        return server

    def arrive(self, queries: Ints) -> Ints:
        """Place queries in this order and return their servers."""
        return self.apply(np.full(queries.shape[0], PLACE, np.int8), queries)

    def depart(self, queries: Ints) -> None:
        """Remove queries in this order."""
        self.apply(np.full(queries.shape[0], REMOVE, np.int8), queries)

    @property
    def replication(self) -> float:
        """Traffic over the rate of the sources in use now (MICE-E16)."""
        totals = self.state.totals
        return float(totals[TRAFFIC] / totals[RATE_IN_USE]) if totals[RATE_IN_USE] else 1.0

    def assignment(self, limits: Floats) -> Assignment:
        """Return the placement as an assignment. Every query must be placed."""
        return Assignment.from_servers(
            self.load, self.state.size, limits, self.state.server_of.astype(np.int64)
        )
