"""The rules by which an arriving query gets a server, as values.

From the paper: `LeastCost`, `LeastSource`, `LeastQT`, `OnRand` and `Reserved`. Adapted from streaming
graph partitioners: `Hdrf`, `Fennel`, `MinMax`. Our own, and the default: `RareFirst`. All share one
procedure (`select_server`): among the servers within the balance limit the best score wins, then the
least filled server, then the lowest number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import ClassVar

from headgate.errors import ConfigError
from headgate.hosting.repair.budget import DEFAULT_REPAIR, NO_REPAIR, Repair

LEAST_COST, LEAST_SOURCE, LEAST_QT, ON_RAND, RESERVED, HDRF, FENNEL, MIN_MAX, RARE_FIRST = range(9)
"""The numbers by which compiled code knows the rules."""


@dataclass(frozen=True)
class Rule:
    """A rule's number in compiled code, its name, whether it draws random numbers, the field that tunes it, and the
    repair that a host has if it is given none.
    """

    code: ClassVar[int]
    name: ClassVar[str]
    draws: ClassVar[bool] = False
    tuned: ClassVar[str] = ""
    repair: ClassVar[Repair] = NO_REPAIR

    @property
    def parameter(self) -> float:
        """The value of the field that tunes the rule, for compiled code; 0 if there is none."""
        return float(getattr(self, self.tuned)) if self.tuned else 0.0


@dataclass(frozen=True)
class LeastCost(Rule):
    """Choose the server with the least added traffic (MICE-19)."""

    code = LEAST_COST
    name = "least-cost"


@dataclass(frozen=True)
class LeastSource(Rule):
    """Choose the server with the least traffic once the query is on it (MICE-20)."""

    code = LEAST_SOURCE
    name = "least-source"


@dataclass(frozen=True)
class LeastQT(Rule):
    """Choose the server with the fewest query types once the query is on it (MICE-21)."""

    code = LEAST_QT
    name = "least-qt"


@dataclass(frozen=True)
class OnRand(Rule):
    """Choose uniformly at random among the servers within the limit (MICE-22)."""

    code = ON_RAND
    name = "on-rand"
    draws = True


@dataclass(frozen=True)
class Reserved(Rule):
    """Send the queries of a type to servers in the shares that an offline solution gave that type (MICE-23).

    ``shares`` maps a set of source names to shares by server; `reserve` computes them. LeastCost places
    a type without shares, and a query whose server is full.
    """

    code = RESERVED
    name = "reserved"
    draws = True
    shares: Mapping[frozenset[str], Mapping[int, float]]

    def __post_init__(self) -> None:
        for sources, by_server in self.shares.items():
            if not by_server or min(by_server.values()) < 0 or sum(by_server.values()) <= 0:
                raise ConfigError(
                    f"the shares of {sorted(sources)} are {dict(by_server)}: "
                    "give at least one server, no negative share, and a sum above 0"
                )


@dataclass(frozen=True)
class Hdrf(Rule):
    """Choose the least added traffic, where a source counts for more the fewer queries read it.

    Petroni et al., CIKM'15.
    """

    code = HDRF
    name = "hdrf"
    tuned = "rarity"
    rarity: float = 1.0
    """How much rarity counts beside the rate."""


@dataclass(frozen=True)
class Fennel(Rule):
    """Choose the most shared sources less a price of the load that grows with the load's square root.

    Tsourakakis et al., WSDM'14; FREIGHT.
    """

    code = FENNEL
    name = "fennel"
    tuned = "price"
    price: float = 1.0
    """The price of a mean load, in mean rates of the query's sources."""


@dataclass(frozen=True)
class MinMax(Rule):
    """Choose the least added traffic among the servers whose own traffic is near the least.

    Alistarh, Iglesias, Vojnovic, NIPS'15.
    """

    code = MIN_MAX
    name = "min-max"
    tuned = "slack"
    slack: float = 1.0
    """How far a server may be above the least traffic, in multiples of the query's own."""


@dataclass(frozen=True)
class RareFirst(Rule):
    """Choose the most shared sources, each worth rate / readers^(1/4), less a price of the load. The default.

    A popular source ends up on most servers under any rule, so it matters more to keep the rare ones
    together. The price is ``spread`` x load / mean load, in what all sources of the query are worth
    together, so it is the same whatever the unit of rates and however they differ. It matters while
    there are few queries: it starts clusters on different servers instead of one, and leaves room for
    repair. A stream with few readers may soon end, by departures or by repair, so a stream with c
    readers counts for 1 - (c + 1)^-3/2 (1 + departures / arrivals) / 2 of its worth. A source that is
    new could go to any server; its later readers will bring other sources with them, so for each new
    source a server gains half the rate that such a companion source would find there on average.
    """

    code = RARE_FIRST
    name = "rare-first"
    tuned = "spread"
    repair = DEFAULT_REPAIR
    spread: float = 0.5
    """The price of a mean load, in what all sources of the query are worth together."""


DEFAULT_RULE = RareFirst()
RULES: Mapping[str, type[Rule]] = {
    rule.name: rule for rule in (RareFirst, LeastCost, LeastSource, LeastQT, OnRand, Hdrf, Fennel, MinMax)
}
"""By name, all rules that have a default for every field (`Reserved` needs its shares)."""


def rule_of(rule: Rule | str) -> Rule:
    """Return a rule by its name, or the rule itself."""
    if isinstance(rule, Rule):
        return rule
    if rule not in RULES:
        close = get_close_matches(rule, RULES, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"unknown rule {rule!r}: the rules are {', '.join(RULES)}{hint}")
    return RULES[rule]()


def interval_ends(shares: Iterable[float]) -> list[float]:
    """Return shares as the upper ends of intervals that fill [0, 1), so that a random number picks one of them."""
    total, ends = 0.0, []
    for share in shares:
        total += share
        ends.append(total)
    return [*(end / total for end in ends[:-1]), 1.0]
