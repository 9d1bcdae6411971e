"""The experiments' axes and their runs, each made once: the claims and the pictures ask
for the same ones.

Full scale is the paper's: 100K queries on 100 servers, up to 1M and 1,000, a million steps of
churn, lifetimes from 10 to a million, ten seeds (three under churn and for the largest instances).
Quick takes a tenth of the queries, a hundredth of the steps, shorter axes, and fewer seeds.

Degrees of sources end at `world.CUTOFF`; `Lab.wide` has them end at n, as the digest reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from headgate.hosting import DEFAULT_REPAIR, NO_REPAIR
from headgate.hosting.balance import SLACK, Balance
from headgate.hosting.offline.algorithms import solve
from headgate.hosting.offline.bounds import capacity_bound
from headgate.hosting.offline.hypergraph import partition
from headgate.hosting.online import rules
from headgate.hosting.online.rules import Rule
from headgate.hosting.workload import Workload
from headgate_lab.papers.mice.trial import TrialResult, arrive, live
from headgate_lab.papers.mice.world import (
    CUTOFF,
    Attachment,
    Churn,
    Lifetimes,
    churn,
    graph,
    with_popular_rates,
    with_rates,
)
from headgate_lab.papers.rerun import Progress

OFFLINE = ("ic", "mms", "mqp", "off-rand")
ONLINE = ("least-cost", "least-source", "least-qt", "on-rand")
OURS = ("rare-first", "repair")
REPAIR = DEFAULT_REPAIR
RULE: dict[str, Rule] = {name: rules.RULES[name]() for name in rules.RULES} | {"repair": rules.DEFAULT_RULE}


@dataclass(frozen=True)
class Measured:
    """A mean over seeds, and its error: the standard deviation of that mean (0 for one seed)."""

    mean: float
    error: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Measured:
        """Of one value for each seed."""
        count = len(values)
        error = float(np.std(values, ddof=1)) / count**0.5 if count > 1 else 0.0
        return cls(float(np.mean(values)), error)

    def __str__(self) -> str:
        """Return 1.234 +- 0.005."""
        return f"{self.mean:.4g} +- {self.error:.2g}"


class Lab:
    """Runs experiments and caches the results. Means are over ``runs`` seeds."""

    def __init__(
        self,
        *,
        quick: bool = False,
        progress: Progress | None = None,
        cutoff: int | None = CUTOFF,
        seeds: int | None = None,
    ) -> None:
        self.quick = quick
        self.cutoff = cutoff
        self.seeds = seeds
        self._progress = progress
        self._part = 0.0
        self._known: dict[Any, Any] = {}

    def tell(self, what: str, part: float | None = None) -> None:
        """Report the present step and the fraction of the whole that is done."""
        self._part = self._part if part is None else part
        if self._progress is not None:
            self._progress(what, self._part)

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what was made for a key, or make it."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    @cached_property
    def wide(self) -> Lab:
        """The same lab with degrees up to n, and at most three seeds."""
        return type(self)(
            quick=self.quick,
            progress=lambda what, part: self.tell(f"cutoff n: {what}"),
            cutoff=None,
            seeds=1 if self.quick else 3,
        )

    @cached_property
    def queries(self) -> int:
        """The default number of queries."""
        return 10_000 if self.quick else 100_000

    @cached_property
    def servers(self) -> int:
        """The default number of servers."""
        return 100

    @cached_property
    def steps(self) -> int:
        """Steps of churn."""
        return 10_000 if self.quick else 1_000_000

    @cached_property
    def lifetime(self) -> int:
        """The default mean lifetime in steps."""
        return self.steps // 10

    @cached_property
    def gamma(self) -> int:
        """The default number of steps between server trials."""
        return self.steps // 100

    @cached_property
    def betas(self) -> tuple[float, ...]:
        """Exponents of the degrees."""
        return (1.0, 1.5, 2.0, 3.0) if self.quick else (1.0, 1.5, 2.0, 2.5, 3.0)

    @cached_property
    def ds(self) -> tuple[int, ...]:
        """Sources per query."""
        return (1, 2, 3, 5) if self.quick else (1, 2, 3, 5, 10)

    @cached_property
    def ks(self) -> tuple[int, ...]:
        """Numbers of servers."""
        return (10, 100) if self.quick else (10, 30, 100, 300, 1000)

    @cached_property
    def ns(self) -> tuple[int, ...]:
        """Numbers of queries."""
        return (5_000, 10_000, 20_000) if self.quick else (10_000, 100_000, 1_000_000)

    @cached_property
    def lives(self) -> tuple[int, ...]:
        """Mean lifetimes: from 10 steps on, as printed; with 100 servers that is a tenth of a query on each."""
        return (10, 1000, 10_000) if self.quick else (10, 100, 1000, 10_000, 100_000, 1_000_000)

    @cached_property
    def churn_betas(self) -> tuple[float, ...]:
        """Exponents under churn."""
        return tuple(b for b in self.betas if b != 2.5)

    @cached_property
    def churn_ds(self) -> tuple[int, ...]:
        """Sources per query under churn."""
        return (1, 2) if self.quick else (1, 2, 5)

    @cached_property
    def churn_ks(self) -> tuple[int, ...]:
        """Numbers of servers under churn."""
        return (10, 100) if self.quick else (10, 100, 1000)

    @cached_property
    def gammas(self) -> tuple[int, ...]:
        """Steps between server trials."""
        return tuple(self.steps // x for x in ((100, 1000) if self.quick else (10, 100, 1000)))

    @cached_property
    def exponents(self) -> tuple[float, ...]:
        """Exponents of the rates of Figure 7."""
        return (1.0, 2.0, 3.0) if self.quick else (1.0, 1.5, 2.0, 2.5, 3.0)

    @cached_property
    def reference_ds(self) -> tuple[int, ...]:
        """Sources per query where there is a reference: the partitioner's time grows steeply with them."""
        return tuple(d for d in self.ds if d <= 5)

    @cached_property
    def runs(self) -> int:
        """How many seeds: the paper has ten. The reference has one."""
        return self.seeds or (3 if self.quick else 10)

    def seeds_of(self, *, n: int, d: int, k: int, **_: float) -> range:
        """The seeds of a setting: three at most of the largest, which vary least and take longest."""
        large = n * d > 500_000 or k > 300
        return range(min(self.runs, 3) if large else self.runs)

    @cached_property
    def churn_runs(self) -> int:
        """How many seeds under churn; repair and the reference have one."""
        return 1 if self.quick else 3

    def graph(self, n: int, beta: float, d: int, seed: int) -> Workload:
        """A workload; the last one is cached."""
        key = (n, beta, d, seed)
        if self._known.get("graph key") != key:
            made = graph(n, beta=beta, d=d, cutoff=self.cutoff, seed=seed)
            self._known["graph key"], self._known["graph"] = key, made
        workload: Workload = self._known["graph"]
        return workload

    def config(self, **axis: float) -> dict[str, Any]:
        """The default setting with one axis moved."""
        return {"beta": 2.0, "d": 2, "n": self.queries, "k": self.servers} | axis

    def still(self, name: str, **axis: float) -> float:
        """The mean factor of an offline algorithm or an online rule without departures, of
        `hypergraph`, or of the `floor`.
        """
        return self.measured(name, **axis).mean

    def measured(self, name: str, **axis: float) -> Measured:
        """`still` with its error."""
        c = self.config(**axis)
        seeds = range(1) if name in ("hypergraph", "repair") else self.seeds_of(**c)
        return Measured.of([self.one(name, seed, **c)["factor"] for seed in seeds])

    def ratio(self, name: str, rival: str, **axis: float) -> Measured:
        """A factor over another, seed by seed on the same workload."""
        c = self.config(**axis)
        pairs = [[self.one(a, seed, **c)["factor"] for a in (name, rival)] for seed in self.seeds_of(**c)]
        return Measured.of([one / other for one, other in pairs])

    def one_ratio(self, name: str, rival: str, **axis: float) -> float:
        """A factor over another, of seed 0 alone."""
        c = self.config(**axis)
        return self.one(name, 0, **c)["factor"] / self.one(rival, 0, **c)["factor"]

    def one(self, name: str, seed: int, *, beta: float, d: int, n: int, k: int) -> dict[str, float]:
        """One run of `still`."""

        def make() -> dict[str, float]:
            self.tell(f"{name} beta={beta:g} d={d} n={n} k={k}")
            load = self.graph(n, beta, d, seed)
            return self.placed(name, load, k, seed)

        figures: dict[str, float] = self.once((name, seed, beta, d, n, k), make)
        return figures

    def placed(self, name: str, load: Workload, k: int, seed: int) -> dict[str, float]:
        """Place a workload by any name, without departures."""
        if name in RULE:
            out = arrive(load, k, RULE[name], repair=REPAIR if name == "repair" else NO_REPAIR, seed=seed)
            return _told(out)
        sizes = np.ones(k)
        # What online rules are held against has the same limit as they have, alpha included.
        limits = np.full(k, np.floor(Balance().limit(load.queries, k) * (1 + SLACK)))
        if name == "floor":
            return {"factor": capacity_bound(load, limits) / load.rate_in_use}
        if name == "hypergraph":
            return {"factor": partition(load, sizes, limits, seed=seed + 1).replication}
        chance = np.random.default_rng([seed, 3]).random(100_003)
        assignment = solve(load, k, name, chance=chance)
        return {
            "factor": assignment.replication,
            "imbalance": assignment.imbalance,
            "sources": float(load.sources),
        }

    def rated(self, name: str, exponent: float, attachment: Attachment) -> Measured:
        """The factor with heavy-tailed rates (Figure 7)."""

        def make() -> Measured:
            factors = []
            for seed in range(self.runs):
                self.tell(f"{name} rates {exponent:g} {attachment}")
                load = with_rates(self.graph(self.queries, 2.0, 2, seed), exponent, attachment, seed=seed)
                factors.append(self.placed(name, load, self.servers, seed)["factor"])
            return Measured.of(factors)

        factor: Measured = self.once((name, exponent, attachment), make)
        return factor

    def popular(self, name: str, beta: float, attachment: Attachment) -> float:
        """The factor with rates that are the popularity itself, or one over it; one seed."""

        def make() -> float:
            self.tell(f"{name} rates as popular, beta={beta:g} {attachment}")
            load = with_popular_rates(self.graph(self.queries, beta, 2, 0), attachment)
            return self.placed(name, load, self.servers, 0)["factor"]

        factor: float = self.once((name, "popular", beta, attachment), make)
        return factor

    def life(
        self, beta: float, d: int, lifetime: float, gamma: int | None, lifetimes: Lifetimes, seed: int
    ) -> Churn:
        """A life; the last one is cached."""
        key = (beta, d, lifetime, gamma, lifetimes, seed)
        if self._known.get("life key") != key:
            self._known["life key"] = key
            self._known["life"] = churn(
                self.steps,
                lifetime,
                queries=self.queries,
                beta=beta,
                d=d,
                cutoff=self.cutoff,
                gamma=gamma,
                lifetimes=lifetimes,
                seed=seed,
            )
        known: Churn = self._known["life"]
        return known

    def churned(self, name: str, *, servers_too: bool = False, seed: int = 0, **axis: Any) -> TrialResult:
        """The outcome of a rule under churn of queries, and of servers; one seed."""
        c: dict[str, Any] = {
            "beta": 2.0,
            "d": 2,
            "k": self.servers,
            "lifetime": self.lifetime,
            "lifetimes": "exponential",
        }
        c |= {"gamma": self.gamma if servers_too else None} | axis

        def make() -> TrialResult:
            self.tell(f"{name} under churn " + " ".join(f"{x}={y}" for x, y in axis.items()))
            life = self.life(c["beta"], c["d"], c["lifetime"], c["gamma"], c["lifetimes"], seed)
            return live(life, c["k"], RULE[name], repair=REPAIR if name == "repair" else NO_REPAIR, seed=seed)

        outcome: TrialResult = self.once(("churn", name, seed, *c.values()), make)
        return outcome

    def lived(self, name: str, **axis: Any) -> Measured:
        """The factor of a rule under churn over the seeds."""
        runs = 1 if name == "repair" else self.churn_runs
        return Measured.of([self.churned(name, seed=seed, **axis).replication for seed in range(runs)])

    def churn_reference(self, *, servers_too: bool = False, **axis: Any) -> float:
        """The hypergraph partitioner's factor for the queries that are there at the end of a life."""

        def make() -> float:
            # The queries at the end of a life are the same under every rule.
            end = self.churned("least-cost", servers_too=servers_too, **axis)
            assert end.live is not None
            self.tell("hypergraph at the end of churn " + " ".join(f"{x}={y}" for x, y in axis.items()))
            return self.placed("hypergraph", end.live, end.servers, 0)["factor"]

        factor: float = self.once(("churn reference", servers_too, *axis.items()), make)
        return factor


def _told(out: TrialResult) -> dict[str, float]:
    return {
        "factor": out.final,
        "imbalance": out.imbalance,
        "fallbacks": float(out.fallbacks),
        "moves": float(out.moves),
        "saved": out.saved,
        "events": float(out.events),
    }
