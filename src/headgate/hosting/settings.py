# mypy: allow-untyped-defs
"""Rule, balance limits and repair budget as plain numbers for compiled code, and the limit of a server."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headgate.compiled import inlined
from headgate.hosting.balance import SLACK, Balance
from headgate.hosting.online.rules import Rule
from headgate.hosting.placement.state import COST, QUERIES, SERVERS, SIZE
from headgate.hosting.repair.budget import Repair

Shares = tuple[list[int], list[int], list[float]]
"""For the rule `Reserved`: where each query type's shares begin, their servers, and the upper ends of their intervals."""

_SLACK = 1.0 + SLACK


class Settings(NamedTuple):
    """A rule's code and parameter, the balance limits, the repair budget, and the shares of `Reserved`.

    No query has more than ``max_sources`` sources.
    """

    rule: int
    parameter: float
    relative: float
    absolute: float
    capacity: float
    moves: int
    examine: int
    sample: int
    every: int
    seed: int
    max_sources: int
    share_start: Any
    share_server: Any
    share_upto: Any


def settings_of(
    rule: Rule, balance: Balance, repair: Repair, *, max_sources: int, shares: Shares
) -> Settings:
    """Return the settings for compiled code."""
    start, server, upto = shares
    return Settings(
        rule.code, rule.parameter, balance.relative, balance.absolute, balance.capacity, repair.moves, repair.examine,
        repair.sample, repair.every, repair.seed, max_sources,
        np.array(start, np.int64), np.array(server, np.int32), np.array(upto, np.float64),
    )  # fmt: skip


@inlined
def limit_per_size(state, settings, cost):
    """Return the limit of a server of size 1 once a query of this cost is hosted; cost 0 gives the limit now."""
    queries, total = state.totals[QUERIES] + (1.0 if cost > 0.0 else 0.0), state.totals[COST] + cost
    if queries == 0.0:
        return settings.capacity
    servers, size = state.totals[SERVERS], state.totals[SIZE]
    absolute = total / size + settings.absolute * (total / queries) * (servers / size)
    relative = (1.0 + settings.relative) * total / size
    return min(max(absolute, relative), settings.capacity) * _SLACK
