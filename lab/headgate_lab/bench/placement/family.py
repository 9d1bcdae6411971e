"""The family of workloads on which the default placement is judged: blocks, degrees, rates, giants and churn.

Every instance is drawn anew from its seed. A workload of *blocks* has groups of sources that are read together, so a good
placement is known to exist: complete blocks, whose queries read all sources of a block, and sparse ones, whose queries
read a few. *Degrees* are the paper's graphs, with several exponents and cutoffs. Queries arrive in random order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from headgate.hosting.events import PLACE, REMOVE
from headgate.hosting.replay import Events
from headgate.hosting.workload import Floats, Ints, Workload
from headgate_lab.papers.mice.world import graph, with_popular_rates, workload_of

Draw = np.random.Generator


@dataclass(frozen=True, eq=False)
class Instance:
    """Events in order on some servers. After event ``i`` as many servers are lost (below 0) or added as ``servers_at[i]`` says."""

    kind: str
    name: str
    servers: int
    load: Workload
    events: Events
    query: Ints
    servers_at: dict[int, int]
    seed: int

    @property
    def churns(self) -> bool:
        """Whether queries leave, or servers come and go."""
        return bool(self.servers_at) or bool((self.events == REMOVE).any())


def family(seed: int, *, queries: int = 10_000) -> list[Instance]:
    """Draw all instances."""
    made = list[Instance]()
    for kind, members in (
        ("complete blocks", complete_blocks(queries)),
        ("sparse blocks", sparse_blocks(queries)),
        ("degrees", degree_graphs(queries)),
        ("rates", rated(queries)),
        ("giants", giants(queries)),
    ):
        for name, (servers, draw_load) in members.items():
            draw = np.random.default_rng([seed, len(made)])
            load = draw_load(draw)
            order = draw.permutation(load.queries)
            events = np.full(order.shape[0], PLACE, np.int8)
            made.append(Instance(kind, name, servers, load, events, order, {}, seed))
    for name, (servers, draw_load, gamma) in lives(queries).items():
        draw = np.random.default_rng([seed, len(made)])
        made.append(life("churn", name, servers, draw_load(draw), gamma, draw, seed))
    return made


Members = dict[str, tuple[int, Callable[[Draw], Workload]]]


def blocks(
    draw: Draw,
    queries: int,
    number: int,
    sources: int,
    reads: int,
    *,
    outside: float = 0.0,
    skew: float | None = None,
) -> Workload:
    """Return queries over blocks of so many sources; each reads so many of its block.

    A read is of any source with probability ``outside``. Blocks are equal, or drawn with weights of Zipf's law.
    """
    if skew is None:
        of_block = np.arange(queries) % number
    else:
        weight = np.arange(1.0, number + 1) ** -skew
        of_block = draw.choice(number, queries, p=weight / weight.sum())
    if reads == sources:
        chosen = np.tile(np.arange(sources), (queries, 1))
    else:
        chosen = np.argsort(draw.random((queries, sources)), axis=1)[:, :reads]
    rows = of_block[:, None] * sources + chosen
    stray = draw.random(rows.shape) < outside
    rows[stray] = draw.integers(0, number * sources, int(stray.sum()))
    return workload_of(rows, number * sources)


def complete_blocks(n: int) -> Members:
    """Complete blocks, as many as there are servers, fewer and more; equal, or of random and of skewed sizes."""
    return {
        f"{number} {size} blocks of {sources}, k={k}": (
            k, partial(blocks, queries=n, number=number, sources=sources, reads=sources, skew=skew),
        )
        for k, number, sources, size, skew in (
            (10, 10, 5, "equal", None), (20, 20, 5, "equal", None), (20, 20, 20, "equal", None), (20, 10, 5, "equal", None),
            (20, 60, 5, "equal", None), (50, 50, 5, "equal", None), (100, 100, 10, "equal", None),
            (20, 20, 5, "random", 0.0), (20, 60, 5, "random", 0.0), (50, 50, 20, "random", 0.0), (20, 200, 5, "skewed", 1.0),
        )
    }  # fmt: skip


def sparse_blocks(n: int) -> Members:
    """Sparse blocks, without and with reads outside of them, of equal and of skewed sizes."""
    shapes: dict[str, tuple[int, tuple[int, int, int], float, float | None]] = {
        "20 blocks of 20, d=2, k=20": (20, (20, 20, 2), 0.0, None),
        "20 blocks of 50, d=5, k=20": (20, (20, 50, 5), 0.0, None),
        "50 blocks of 20, d=3, k=50": (50, (50, 20, 3), 0.0, None),
        "100 blocks of 10, d=2, k=20": (20, (100, 10, 2), 0.0, 0.0),
        "100 blocks of 10, d=2, k=100": (100, (100, 10, 2), 0.0, None),
        "200 blocks of 20, d=3, k=20, 10% outside": (20, (200, 20, 3), 0.1, None),
        "100 blocks of 20, d=3, k=20, Zipf sizes": (20, (100, 20, 3), 0.0, 1.0),
    }
    return {
        name: (
            k,
            partial(
                blocks, queries=n, number=number, sources=sources, reads=reads, outside=outside, skew=skew
            ),
        )
        for name, (k, (number, sources, reads), outside, skew) in shapes.items()
    }


def degree_graphs(n: int) -> Members:
    """The paper's graphs."""

    def drawn(draw: Draw, beta: float, d: int, cutoff: int) -> Workload:
        return graph(n, beta=beta, d=d, cutoff=cutoff, seed=_seed(draw))

    shapes = [
        (beta, d, cutoff, k)
        for cutoff in ("sqrt(nd)", "1000", "n")
        for beta, d, k in ((1.0, 2, 20), (1.5, 2, 50), (2.0, 2, 100), (3.0, 2, 50), (2.0, 5, 20))
    ]
    limit = {"sqrt(nd)": math.isqrt(2 * n), "1000": 1000, "n": n}
    return {
        f"beta={beta:g}, d={d}, cutoff {cutoff}, k={k}": (
            k, partial(drawn, beta=beta, d=d, cutoff=limit[cutoff]),
        )
        for beta, d, cutoff, k in shapes
    }  # fmt: skip


def rated(n: int) -> Members:
    """Rates that go with popularity or against it, and rates over six orders of magnitude."""

    def popular(draw: Draw, beta: float, attachment: str) -> Workload:
        return with_popular_rates(graph(n, beta=beta, cutoff=1000, seed=_seed(draw)), attachment)  # type: ignore[arg-type]

    def orders(draw: Draw, load: Workload) -> Workload:
        return replace(load, rates=10 ** draw.uniform(-3, 3, load.sources))

    return {
        "as popularity, beta=2, k=20": (20, lambda draw: popular(draw, 2.0, "positive")),
        "as popularity, beta=1.5, k=50": (50, lambda draw: popular(draw, 1.5, "positive")),
        "against popularity, beta=2, k=20": (20, lambda draw: popular(draw, 2.0, "negative")),
        "shuffled popularity, beta=2, k=50": (50, lambda draw: popular(draw, 2.0, "random")),
        "six orders, beta=2, k=20": (20, lambda draw: orders(draw, graph(n, cutoff=1000, seed=_seed(draw)))),
        "six orders, beta=1.5, d=4, k=50": (
            50, lambda draw: orders(draw, graph(n, beta=1.5, d=4, cutoff=1000, seed=_seed(draw))),
        ),
        "six orders, 20 blocks of 20, d=3, k=20": (20, lambda draw: orders(draw, blocks(draw, n, 20, 20, 3))),
    }  # fmt: skip


def giants(n: int) -> Members:
    """A few sources that a third of the queries read, queries that read a third of the sources, queries that cost much."""

    def popular(draw: Draw, load: Workload, rate: float) -> Workload:
        rows = [load.source[a:b] for a, b in zip(load.start, load.start[1:], strict=False)]
        reads = draw.random((load.queries, 3)) < 1 / 3
        rows = [np.append(row, load.sources + np.flatnonzero(r)) for row, r in zip(rows, reads, strict=True)]
        return _of_rows(rows, np.append(load.rates, np.full(3, rate)), load.cost)

    def wide(draw: Draw, load: Workload) -> Workload:
        rows = [load.source[a:b] for a, b in zip(load.start, load.start[1:], strict=False)]
        for q in draw.choice(load.queries, 5, replace=False):
            rows[q] = np.sort(draw.choice(load.sources, load.sources // 3, replace=False))
        return _of_rows(rows, load.rates, load.cost)

    def dear(draw: Draw, load: Workload) -> Workload:
        cost = np.ones(load.queries)
        cost[draw.choice(load.queries, 5, replace=False)] = load.queries / 100
        return replace(load, cost=cost)

    return {
        "three sources of a third, beta=2, k=20": (
            20, lambda draw: popular(draw, graph(n, cutoff=1000, seed=_seed(draw)), 1.0),
        ),
        "three sources of a third at rate 100, sparse blocks, k=20": (
            20, lambda draw: popular(draw, blocks(draw, n, 20, 20, 2), 100.0),
        ),
        "five queries of a third, beta=2, k=20": (20, lambda draw: wide(draw, graph(n, cutoff=1000, seed=_seed(draw)))),
        "five queries of a third, sparse blocks, k=50": (50, lambda draw: wide(draw, blocks(draw, n, 50, 20, 3))),
        "five queries of 1% of the cost, beta=2, k=20": (
            20, lambda draw: dear(draw, graph(n, cutoff=1000, seed=_seed(draw))),
        ),
    }  # fmt: skip


def lives(n: int) -> dict[str, tuple[int, Callable[[Draw], Workload], int]]:
    """Queries that come and go: servers, workload, and how many events lie between two bursts of lost servers (0: none)."""
    return {
        "beta=2, cutoff 1000, k=50": (50, lambda draw: graph(2 * n, cutoff=1000, seed=_seed(draw)), 0),
        "beta=2, cutoff 1000, k=50, bursts": (50, lambda draw: graph(2 * n, cutoff=1000, seed=_seed(draw)), n // 2),
        "beta=1.5, cutoff n, k=20, bursts": (20, lambda draw: graph(2 * n, beta=1.5, seed=_seed(draw)), n // 2),
        "beta=1, cutoff 1000, k=20, bursts": (
            20, lambda draw: graph(2 * n, beta=1.0, cutoff=1000, seed=_seed(draw)), n // 2,
        ),
        "20 complete blocks of 20, k=20, bursts": (20, lambda draw: blocks(draw, 2 * n, 20, 20, 20), n // 2),
        "20 sparse blocks of 20, d=2, k=20": (20, lambda draw: blocks(draw, 2 * n, 20, 20, 2), 0),
        "100 sparse blocks of 10, d=2, k=20, bursts": (20, lambda draw: blocks(draw, 2 * n, 100, 10, 2), n // 2),
        "six orders, beta=2, k=20, bursts": (
            20,
            lambda draw: replace(load := graph(2 * n, cutoff=1000, seed=_seed(draw)), rates=10 ** draw.uniform(-3, 3, load.sources)),
            n // 2,
        ),
    }  # fmt: skip


def life(kind: str, name: str, servers: int, load: Workload, between: int, draw: Draw, seed: int) -> Instance:
    """Return queries that arrive one a step and stay a third of the arrivals on average, and bursts: a quarter of the
    servers is lost at once, and as many are added a quarter of the time to the next burst later.
    """
    count = load.queries
    arrival = np.arange(count, dtype=np.float64)
    leave = arrival + draw.exponential(count / 3, count)
    gone = np.flatnonzero(leave < count)
    order = np.argsort(np.concatenate((arrival, leave[gone])), kind="stable")
    which = draw.permutation(count)
    events = np.concatenate((np.full(count, PLACE, np.int8), np.full(gone.shape[0], REMOVE, np.int8)))[order]
    query = which[np.concatenate((np.arange(count), gone))[order]]
    servers_at = dict[int, int]()
    for at in range(between, events.shape[0], between) if between else ():
        servers_at[at], servers_at[at + between // 4] = -(servers // 4), servers // 4
    return Instance(kind, name, servers, load, events, query, servers_at, seed)


def _of_rows(rows: list[Ints], rates: Floats, cost: Floats) -> Workload:
    start = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([row.shape[0] for row in rows], out=start[1:])
    return Workload(rates, start, np.concatenate(rows).astype(np.int64), cost)


def _seed(draw: Draw) -> int:
    return int(draw.integers(1 << 31))
