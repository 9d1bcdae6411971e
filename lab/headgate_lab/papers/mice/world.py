"""The paper's workload: a random bipartite graph with Zipf degrees, rates, and lives of queries
and servers (section 6).

The number of sources is not given; it follows from the degrees: P(degree = x) ~ x^-beta for x =
1..cutoff, drawn until they sum to n d (MICE-E2). Under churn the sources are those of the default
n, and an arriving query picks its d with probability in proportion to degree.

The paper names no cutoff either (MICE-E3). `CUTOFF` is read from the three figures that its text
gives: MMS up to 4 times better than OffRand, LeastCost up to 4 times better than OnRand, and the
two gains close to each other (`rows.cutoffs` measures them for several cutoffs). Without a cutoff
but n itself the offline gain is 2.6, and far from the online one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from headgate.hosting.workload import Floats, Ints, Workload

Lifetimes = Literal["exponential", "pareto"]
Attachment = Literal["random", "positive", "negative"]
PARETO_SHAPE = 2.0
CUTOFF = 1000
"""The largest degree of a source in the reproduction; None stands for n, the digest's reading."""
RATE_CUTOFF = 10_000
"""The largest rate of Figure 7: a guess, as the text gives the exponents alone."""


def zipf(draw: np.random.Generator, exponent: float, cutoff: int, size: int) -> Ints:
    """Draw from P(x) ~ x^-exponent, x = 1..cutoff."""
    upto = np.cumsum(np.arange(1, cutoff + 1, dtype=np.float64) ** -exponent)
    drawn: Ints = np.searchsorted(upto / upto[-1], draw.random(size), side="right").astype(np.int64) + 1
    return drawn


def degrees(draw: np.random.Generator, total: int, beta: float, cutoff: int) -> Ints:
    """Draw degrees of sources until they sum to ``total``; the last one is cut."""
    parts: list[Ints] = []
    reached = 0
    while reached < total:
        drawn = zipf(draw, beta, cutoff, 4096 if total <= 20_000 else 65_536)
        upto = np.cumsum(drawn) + reached
        end = int(np.searchsorted(upto, total))
        if end < drawn.shape[0]:
            drawn = drawn[: end + 1].copy()
            drawn[-1] -= upto[end] - total
        parts.append(drawn)
        reached += int(drawn.sum())
    return np.concatenate(parts)


def workload_of(rows: Ints, sources: int) -> Workload:
    """Return queries whose sources are the rows of a matrix, repeated ones taken once (MICE-E4)."""
    rows = np.sort(rows, axis=1)
    keep = np.ones(rows.shape, bool)
    keep[:, 1:] = rows[:, 1:] != rows[:, :-1]
    start = np.zeros(rows.shape[0] + 1, np.int64)
    np.cumsum(keep.sum(axis=1), out=start[1:])
    return Workload(np.ones(sources), start, rows[keep].astype(np.int64), np.ones(rows.shape[0]))


def graph(queries: int, *, beta: float = 2.0, d: int = 2, cutoff: int | None = None, seed: int) -> Workload:
    """Return a workload of the paper: every source has the degree that was drawn for it (MICE-27).

    No degree is above ``cutoff``, nor above the number of queries.
    """
    draw = np.random.default_rng(seed)
    degree = degrees(draw, queries * d, beta, min(cutoff or queries, queries))
    stubs = np.repeat(np.arange(degree.shape[0]), degree)
    draw.shuffle(stubs)
    return workload_of(stubs.reshape(queries, d), degree.shape[0])


def with_rates(load: Workload, exponent: float, attachment: Attachment, *, seed: int) -> Workload:
    """Return the workload with heavy-tailed rates: at random, in the order of popularity,
    or against it (MICE-30).

    The text says "proportional to popularity", which would leave the rates no exponent of their
    own; so the order is that of popularity, and the rates follow their own law (MICE-E20).
    """
    rates = zipf(np.random.default_rng([seed, 7]), exponent, RATE_CUTOFF, load.sources)
    rates = np.sort(rates).astype(np.float64)
    order = np.argsort(load.reader_cost, kind="stable")
    if attachment == "negative":
        order = order[::-1]
    elif attachment == "random":
        order = np.random.default_rng([seed, 8]).permutation(load.sources)
    attached = np.empty(load.sources)
    attached[order] = rates
    return replace(load, rates=attached)


def with_popular_rates(load: Workload, attachment: Attachment) -> Workload:
    """Return the workload with the rates that the text says word by word: a source's rate is its
    popularity (positive), or one over it (negative); at random, the former shuffled.
    """
    readers = np.maximum(load.reader_cost, 1.0)
    if attachment == "random":
        return replace(load, rates=np.random.default_rng(8).permutation(readers))
    return replace(load, rates=readers if attachment == "positive" else 1 / readers)


@dataclass(frozen=True, eq=False)
class Churn:
    """Arrivals and departures in order: ``act`` is 1 for an arrival, ``step`` its time; server
    trials every ``gamma`` steps.

    ``coin`` is the random number of each trial: below one half a server is added, else
    one is removed (MICE-29).
    """

    load: Workload
    act: np.ndarray[tuple[int], np.dtype[np.int8]]
    query: Ints
    step: Floats
    steps: int
    gamma: int | None
    coin: Floats


def churn(
    steps: int,
    lifetime: float,
    *,
    queries: int,
    beta: float = 2.0,
    d: int = 2,
    cutoff: int | None = None,
    gamma: int | None = None,
    lifetimes: Lifetimes = "exponential",
    seed: int,
) -> Churn:
    """Return a life: Poisson arrivals of one a step on average, lifetimes of that mean (MICE-28).

    ``queries`` is the number that the degrees of the sources are made for.
    """
    draw = np.random.default_rng([seed, 1])
    degree = degrees(draw, queries * d, beta, min(cutoff or queries, queries))
    stubs = np.repeat(np.arange(degree.shape[0]), degree)
    arrivals = np.repeat(np.arange(steps), draw.poisson(1.0, steps)).astype(np.float64)
    count = arrivals.shape[0]
    load = workload_of(stubs[draw.integers(0, stubs.shape[0], (count, d))], degree.shape[0])
    if lifetimes == "exponential":
        life = draw.exponential(lifetime, count)
    else:
        life = (draw.pareto(PARETO_SHAPE, count) + 1) * lifetime * (PARETO_SHAPE - 1) / PARETO_SHAPE
    gone = np.flatnonzero(arrivals + life < steps)
    when = np.concatenate((arrivals, (arrivals + life)[gone]))
    order = np.argsort(when, kind="stable")
    act = np.concatenate((np.ones(count, np.int8), np.zeros(gone.shape[0], np.int8)))[order]
    query = np.concatenate((np.arange(count), gone))[order]
    coin = draw.random(steps // gamma + 1) if gamma else np.zeros(0)
    return Churn(load, act, query, when[order], steps, gamma, coin)
