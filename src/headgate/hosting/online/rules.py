"""The rules by which an arriving query finds its server, as values.

The paper's: `LeastCost`, `LeastSource`, `LeastQT`, `OnRand` and `Reserved`. Streaming partitioners brought over:
`Hdrf`, `Fennel`, `MinMax`. Ours, and the default: `RareFirst`. All share one frame (`choose`): candidates within
the balance limit, best score, then least filled, then lowest number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import ClassVar

from headgate.errors import ConfigError
from headgate.hosting.online import select_server as choose


@dataclass(frozen=True)
class Rule:
    """A rule's number in compiled code, its name, whether it draws random numbers, and the field that tunes it."""

    code: ClassVar[int]
    name: ClassVar[str]
    draws: ClassVar[bool] = False
    tuned: ClassVar[str] = ""

    @property
    def parameter(self) -> float:
        """The one number that a rule may have, for compiled code."""
        return float(getattr(self, self.tuned)) if self.tuned else 0.0


@dataclass(frozen=True)
class LeastCost(Rule):
    """Least added traffic (MICE-19)."""

    code = choose.LEAST_COST
    name = "least-cost"


@dataclass(frozen=True)
class LeastSource(Rule):
    """Least traffic of the server with the query on it (MICE-20)."""

    code = choose.LEAST_SOURCE
    name = "least-source"


@dataclass(frozen=True)
class LeastQT(Rule):
    """Fewest query types on the server with the query on it (MICE-21)."""

    code = choose.LEAST_QT
    name = "least-qt"


@dataclass(frozen=True)
class OnRand(Rule):
    """Uniformly among the candidates (MICE-22)."""

    code = choose.ON_RAND
    name = "on-rand"
    draws = True


@dataclass(frozen=True)
class Reserved(Rule):
    """Known popularities: a type's queries go to servers in the shares that an offline solution gave it (MICE-23).

    ``shares`` maps a set of source names to shares by server; `reserve` makes them. A type without shares, or whose
    server is full, is placed by LeastCost.
    """

    code = choose.RESERVED
    name = "reserved"
    draws = True
    shares: Mapping[frozenset[str], Mapping[int, float]]

    def __post_init__(self) -> None:
        for sources, by_server in self.shares.items():
            if not by_server or min(by_server.values()) < 0 or sum(by_server.values()) <= 0:
                raise ConfigError(
                    f"the shares of {sorted(sources)} are {dict(by_server)}: give at least one server, and no negative share"
                )


@dataclass(frozen=True)
class Hdrf(Rule):
    """Least added traffic, where a source counts for more the fewer queries read it (Petroni et al., CIKM'15)."""

    code = choose.HDRF
    name = "hdrf"
    tuned = "rarity"
    rarity: float = 1.0
    """How much rarity counts beside the rate."""


@dataclass(frozen=True)
class Fennel(Rule):
    """Sources shared less the price of the load, which grows with its square root (Tsourakakis et al., WSDM'14; FREIGHT)."""

    code = choose.FENNEL
    name = "fennel"
    tuned = "price"
    price: float = 1.0
    """The price of a mean load, in mean rates of the query's sources."""


@dataclass(frozen=True)
class MinMax(Rule):
    """Least added traffic among servers of about least traffic (Alistarh, Iglesias, Vojnovic, NIPS'15)."""

    code = choose.MIN_MAX
    name = "min-max"
    tuned = "slack"
    slack: float = 1.0
    """How far above the least traffic a server may be, in multiples of the query's own."""


@dataclass(frozen=True)
class RareFirst(Rule):
    """Sources shared, each worth rate / (queries that read it)^(1/4), less ``spread`` x load / mean load. The default.

    A popular source ends on most servers whatever is done, so what counts is to keep the rare ones together. The
    price of load matters while there are few queries: it starts clusters on different servers instead of one. A
    stream that few queries read may soon end, by departures or by repair, so it counts for less: with c readers,
    for 1 - (c + 1)^-3/2 (1 + departures / arrivals) / 2. A source that is new could go anywhere; its later readers
    will come with other sources, so for each new one a server is worth half the rate that such a partner would find there.
    """

    code = choose.RARE_FIRST
    name = "rare-first"
    tuned = "spread"
    spread: float = 0.5
    """The price of a mean load, in mean rates of the query's sources."""


DEFAULT = RareFirst()
RULES: Mapping[str, type[Rule]] = {
    rule.name: rule for rule in (RareFirst, LeastCost, LeastSource, LeastQT, OnRand, Hdrf, Fennel, MinMax)
}
"""By name, all that need nothing else to be made (`Reserved` needs its shares)."""


def rule_of(rule: Rule | str) -> Rule:
    """Return a rule by its name, or the rule itself."""
    if isinstance(rule, Rule):
        return rule
    if rule not in RULES:
        close = get_close_matches(rule, RULES, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"unknown rule {rule!r}: there is {', '.join(RULES)}{hint}")
    return RULES[rule]()


def spread_of(shares: Iterable[float]) -> list[float]:
    """Return shares as upper ends of intervals that fill [0, 1): a number in it names one of them."""
    total, ends = 0.0, []
    for share in shares:
        total += share
        ends.append(total)
    return [*(end / total for end in ends[:-1]), 1.0]
