"""Why a query goes where it goes: every server with its room, the traffic it would add there, and its score.

Written the slow, obvious way, from the definitions; the tests hold the compiled rules against it.
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
from headgate.hosting.online.select_server import Frame
from headgate.hosting.placement.state import CAME, COST, QUERIES, READINGS, SERVERS, SIZE, WENT, Books
from headgate.hosting.repair.smoothed_traffic import MANY


@dataclass(frozen=True)
class Option:
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
    """All options, best first, and the server that a query would get (None where chance decides)."""

    rule: str
    options: tuple[Option, ...]
    server: int | None
    reason: str

    def __str__(self) -> str:
        lines = [f"{self.rule}: {self.reason}"]
        for one in self.options[:10]:
            lacks = f"lacks {', '.join(one.missing)}" if one.missing else "has every source"
            lines.append(
                f"  server {one.server}: load {one.load:g} of {one.limit:.6g}{'' if one.room else ' (no room)'}, "
                f"adds {one.added_traffic:g}, score {one.score:.4g}; {lacks}"
            )
        if len(self.options) > 10:
            lines.append(f"  and {len(self.options) - 10} more")
        return "\n".join(lines)


def explained(
    books: Books, rule: Rule, frame: Frame, members: Sequence[int], cost: float, names: Sequence[str]
) -> Explanation:
    """Return what a query of these sources would find on every server."""
    queries, total = float(books.totals[QUERIES]) + 1, float(books.totals[COST]) + cost
    servers, size = float(books.totals[SERVERS]), float(books.totals[SIZE])
    fair = Balance(frame.relative, frame.absolute * total / queries).limit(total, int(servers))
    limit = min(fair * servers / size, frame.capacity)
    live = [j for j in range(books.size.shape[0]) if books.size[j] > 0]
    on = {s: {int(books.streams.server[at]) for at in _places(books.streams, s)} for s in members}
    options = []
    for j in live:
        missing = [s for s in members if j not in on[s]]
        options.append(
            Option(
                server=j,
                load=float(books.load[j]),
                limit=limit * float(books.size[j]),
                fill=float(books.load[j] / books.size[j]),
                room=bool(books.load[j] + cost <= limit * books.size[j] * (1 + SLACK)),
                added_traffic=math.fsum(books.rate[s] for s in missing),
                missing=tuple(names[s] for s in missing),
                score=_score(books, rule, members, j, on, total / size),
            )
        )
    fitting = [one for one in options if one.room]
    if isinstance(rule, MinMax) and fitting:
        most = min(books.traffic[o.server] for o in fitting) + rule.slack * math.fsum(
            books.rate[s] for s in members
        )
        fitting = [o for o in fitting if books.traffic[o.server] <= most]
    order = sorted(options, key=lambda o: (o not in fitting, o.score, o.fill, o.server))
    if isinstance(rule, OnRand):
        return Explanation(rule.name, tuple(order), None, f"drawn from {len(fitting)} servers with room")
    if not fitting:
        able = [o for o in options if o.load + cost <= frame.capacity * books.size[o.server] * (1 + SLACK)]
        if not able:
            return Explanation(rule.name, tuple(order), None, "no server can hold it within its capacity")
        least = min(able, key=lambda o: (o.fill, o.server))
        return Explanation(
            rule.name, tuple(order), least.server, "no server is within the limit: the least filled takes it"
        )
    best = order[0]
    ties = sum(o.score == best.score for o in fitting)
    reason = f"server {best.server} adds {best.added_traffic:g}"
    reason += f", the least filled of {ties} with that score" if ties > 1 else ", the best score"
    if isinstance(rule, Reserved):
        reason += " (where the type has no share of a server with room)"
    return Explanation(rule.name, tuple(order), best.server, reason)


def _places(pairs: object, row: int) -> range:
    start = int(pairs.start[row])  # type: ignore[attr-defined]
    return range(start, start + int(pairs.size[row]))  # type: ignore[attr-defined]


def _score(
    books: Books, rule: Rule, members: Sequence[int], server: int, on: dict[int, set[int]], mean: float
) -> float:
    """Return what the rule minimises."""
    rate = {s: float(books.rate[s]) for s in members}
    use = {s: float(books.use[s]) + 1.0 for s in members}
    held = [s for s in members if server in on[s]]
    if isinstance(rule, LeastSource):
        return float(books.traffic[server]) - sum(rate[s] for s in held)
    if isinstance(rule, LeastQT):
        return float(books.kinds[server]) - _has_type(books, members, server)
    if isinstance(rule, Hdrf):
        return -sum(rate[s] * (1.0 + rule.rarity * (1.0 - use[s] / sum(use.values()))) for s in held)
    typical = sum(rate.values()) / len(members)
    fill = float(books.load[server] / books.size[server])
    if isinstance(rule, Fennel):
        return rule.price * typical * math.sqrt(fill / mean) - sum(rate[s] for s in held)
    if isinstance(rule, RareFirst):
        came, went = float(books.totals[CAME]), float(books.totals[WENT])
        doubt = (1 + went / max(came, 1.0)) / 2
        stays = {s: 1.0 - doubt * math.pow(min(_readers(books, s, server) + 1, MANY), -1.5) for s in held}
        worth = sum(rate[s] / math.sqrt(math.sqrt(use[s])) * stays[s] for s in held)
        readings = float(books.totals[READINGS])
        new = sum(books.use[s] == 0 for s in members) if readings else 0
        ahead = (
            new * (1.0 - float(books.totals[QUERIES]) / readings) * books.reach[server] / readings
            if new
            else 0.0
        )
        return float(rule.spread * typical * fill / mean - worth - ahead / 2)
    return -sum(rate[s] for s in held)


def _readers(books: Books, source: int, server: int) -> int:
    return next(
        int(books.streams.count[at])
        for at in _places(books.streams, source)
        if books.streams.server[at] == server
    )


def _has_type(books: Books, members: Sequence[int], server: int) -> bool:
    for kind in range(books.hosted.start.shape[0]):
        at = [t for t in _places(books.hosted, kind) if books.hosted.server[t] == server]
        if at and books.type_source[books.type_start[kind] : books.type_start[kind + 1]].tolist() == list(
            members
        ):
            return True
    return False
