"""Why a query goes to its server: each server's room, the traffic it would add there, and its score.

This is written the slow, obvious way, from the definitions; the tests compare the compiled rules with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headgate.hosting.balance import SLACK, Balance
from headgate.hosting.online.rules import (
    Fennel,
    Hdrf,
    LeastQT,
    LeastSource,
    MinMax,
    OnRand,
    RareFirst,
    Reserved,
    Rule,
)
from headgate.hosting.placement.reference_counts import ReferenceCounts
from headgate.hosting.placement.state import (
    ARRIVALS,
    COST,
    DEPARTURES,
    QUERIES,
    READS,
    SERVERS,
    SIZE,
    PlacementState,
)
from headgate.hosting.repair.smoothed_traffic import DISTINCT_WEIGHTS
from headgate.hosting.settings import Settings

_SHOWN = 10


@dataclass(frozen=True)
class ServerOption:
    """One server as a query sees it. The least ``score`` among those with room wins; ties go to the least ``fill``."""

    server: int
    load: float
    limit: float
    fill: float
    room: bool
    added_traffic: float
    missing: tuple[str, ...]
    score: float


@dataclass(frozen=True)
class Explanation:
    """All options, best first, and the server that a query would get (None if it is drawn, or if none can hold it)."""

    rule: str
    options: tuple[ServerOption, ...]
    server: int | None
    reason: str

    def __str__(self) -> str:
        lines = [f"{self.rule}: {self.reason}"]
        for option in self.options[:_SHOWN]:
            lacks = f"lacks {', '.join(option.missing)}" if option.missing else "has every source"
            room = "" if option.room else " (no room)"
            lines.append(
                f"  server {option.server}: load {option.load:g} of {option.limit:.6g}{room}, "
                f"adds {option.added_traffic:g}, score {option.score:.4g}; {lacks}"
            )
        if len(self.options) > _SHOWN:
            lines.append(f"  and {len(self.options) - _SHOWN} more")
        return "\n".join(lines)


def explain(
    state: PlacementState,
    rule: Rule,
    settings: Settings,
    sources: Sequence[int],
    cost: float,
    names: Sequence[str],
) -> Explanation:
    """Return what a query of these sources would find on every server, and which server it would get."""
    options = _options(state, rule, settings, sources, cost, names)
    candidates = [option for option in options if option.room]
    if isinstance(rule, MinMax) and candidates:
        most_traffic = min(state.traffic[option.server] for option in candidates) + rule.slack * math.fsum(
            state.rate[s] for s in sources
        )
        candidates = [option for option in candidates if state.traffic[option.server] <= most_traffic]
    ranked = tuple(
        sorted(
            options,
            key=lambda option: (option not in candidates, option.score, option.fill, option.server),
        )
    )
    if isinstance(rule, OnRand):
        return Explanation(rule.name, ranked, None, f"drawn from {len(candidates)} servers with room")
    if not candidates:
        able = [
            option
            for option in options
            if option.load + cost <= settings.capacity * state.size[option.server] * (1 + SLACK)
        ]
        if not able:
            return Explanation(rule.name, ranked, None, "no server can hold it within its capacity")
        least = min(able, key=lambda option: (option.fill, option.server))
        return Explanation(
            rule.name, ranked, least.server, "no server is within the limit: the least filled takes it"
        )
    best = ranked[0]
    ties = sum(option.score == best.score for option in candidates)
    reason = f"server {best.server} adds {best.added_traffic:g}"
    reason += f", the least filled of {ties} with that score" if ties > 1 else ", the best score"
    if isinstance(rule, Reserved):
        reason += " (where the type has no share of a server with room)"
    return Explanation(rule.name, ranked, best.server, reason)


def _options(
    state: PlacementState,
    rule: Rule,
    settings: Settings,
    sources: Sequence[int],
    cost: float,
    names: Sequence[str],
) -> list[ServerOption]:
    """Return every server that is there, by number."""
    queries, total = float(state.totals[QUERIES]) + 1, float(state.totals[COST]) + cost
    servers, size = float(state.totals[SERVERS]), float(state.totals[SIZE])
    mean_limit = Balance(settings.relative, settings.absolute * total / queries).limit(total, int(servers))
    limit = min(mean_limit * servers / size, settings.capacity)
    receivers = {s: {int(state.streams.server[at]) for at in _block(state.streams, s)} for s in sources}
    options = []
    for j in range(state.size.shape[0]):
        if state.size[j] <= 0:
            continue
        missing = [s for s in sources if j not in receivers[s]]
        options.append(
            ServerOption(
                server=j,
                load=float(state.load[j]),
                limit=limit * float(state.size[j]),
                fill=float(state.load[j] / state.size[j]),
                room=bool(state.load[j] + cost <= limit * state.size[j] * (1 + SLACK)),
                added_traffic=math.fsum(state.rate[s] for s in missing),
                missing=tuple(names[s] for s in missing),
                score=_score(state, rule, sources, j, receivers, total / size),
            )
        )
    return options


def _score(
    state: PlacementState,
    rule: Rule,
    sources: Sequence[int],
    server: int,
    receivers: dict[int, set[int]],
    mean_fill: float,
) -> float:
    """Return what the rule minimises."""
    rate = {s: float(state.rate[s]) for s in sources}
    readers = {s: float(state.readers[s]) + 1.0 for s in sources}
    received = [s for s in sources if server in receivers[s]]
    if isinstance(rule, LeastSource):
        return float(state.traffic[server]) - sum(rate[s] for s in received)
    if isinstance(rule, LeastQT):
        return float(state.distinct_types[server]) - _hosts_type(state, sources, server)
    if isinstance(rule, Hdrf):
        all_readers = sum(readers.values())
        return -sum(rate[s] * (1.0 + rule.rarity * (1.0 - readers[s] / all_readers)) for s in received)
    mean_rate = sum(rate.values()) / len(sources)
    fill = float(state.load[server] / state.size[server])
    if isinstance(rule, Fennel):
        return rule.price * mean_rate * math.sqrt(fill / mean_fill) - sum(rate[s] for s in received)
    if isinstance(rule, RareFirst):
        arrivals, departures = float(state.totals[ARRIVALS]), float(state.totals[DEPARTURES])
        discount = (1 + departures / max(arrivals, 1.0)) / 2
        lasts = {
            s: 1.0 - discount * math.pow(min(_readers_on(state, s, server) + 1, DISTINCT_WEIGHTS), -1.5)
            for s in received
        }
        worth = sum(rate[s] / math.sqrt(math.sqrt(readers[s])) * lasts[s] for s in received)
        reads = float(state.totals[READS])
        new = sum(state.readers[s] == 0 for s in sources) if reads else 0
        companions = (
            new * (1.0 - float(state.totals[QUERIES]) / reads) * state.popularity[server] / reads
            if new
            else 0.0
        )
        price = rule.spread * sum(rate[s] / math.sqrt(math.sqrt(readers[s])) for s in sources)
        return float(price * fill / mean_fill - worth - companions / 2)
    return -sum(rate[s] for s in received)


def _block(counts: ReferenceCounts, row: int) -> range:
    """Return the positions of a row's servers in the pool."""
    start = int(counts.start[row])
    return range(start, start + int(counts.size[row]))


def _readers_on(state: PlacementState, source: int, server: int) -> int:
    """Return how many queries on a server read a source that it receives."""
    streams = state.streams
    return next(int(streams.count[at]) for at in _block(streams, source) if streams.server[at] == server)


def _hosts_type(state: PlacementState, sources: Sequence[int], server: int) -> bool:
    """Return whether a server hosts a query with exactly these sources."""
    hosted = state.hosted_types
    for query_type in range(hosted.start.shape[0]):
        if any(hosted.server[at] == server for at in _block(hosted, query_type)):
            begin, end = state.type_start[query_type], state.type_start[query_type + 1]
            if state.type_source[begin:end].tolist() == list(sources):
                return True
    return False
