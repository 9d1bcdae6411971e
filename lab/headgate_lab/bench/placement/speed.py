"""Speed of placement: online rules, churn, offline algorithms, and how their cost grows with n, k,
d and m. No Spark.

The workload is the paper's (Zipf degrees of exponent 2, two sources a query). CPU seconds of one thread after compilation, so
that neighbours disturb them less; memory is what the arrays of the placement hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from headgate.cli import pictures
from headgate.cli.console import Tick
from headgate.hosting import DEFAULT_RULE, NO_REPAIR, LeastCost, LeastSource, OnRand, Repair, Replay, Rule
from headgate.hosting.offline.algorithms import solve
from headgate.hosting.placement.reference_counts import ReferenceCounts
from headgate.hosting.placement.state import PlacementState
from headgate_lab.bench.result import Goal, Report, Result
from headgate_lab.papers.mice.trial import live
from headgate_lab.papers.mice.world import churn, graph

PICTURE = Path("headgate-bench-placement.png")


def run(*, quick: bool, repeat: int, progress: Tick) -> Report:
    """Measure everything; the growth of the cost is drawn into a picture beside where this runs."""
    results, goals = list[Result](), list[Goal]()
    n, k, steps = (50_000, 200, 20_000) if quick else (1_000_000, 1_000, 1_000_000)
    warm()

    def note(name: str, unit: str, samples: list[float]) -> float:
        best = max(samples) if unit.endswith("/s") else min(samples)
        results.append(Result(name, unit, best, None, None, {name: samples}))
        return best

    progress("online", 0.05)
    load = graph(n, seed=1)
    assert load.types is not None
    for rule, repair in (
        (LeastCost(), NO_REPAIR),
        (DEFAULT_RULE, NO_REPAIR),
        (DEFAULT_RULE, Repair()),
        (LeastSource(), NO_REPAIR),
        (OnRand(), NO_REPAIR),
    ):
        sample = (
            load if rule.name in ("least-cost", "rare-first") and not repair.moves else graph(n // 10, seed=1)
        )
        name = f"{rule.name}{' with repair' if repair.moves else ''}, n={sample.queries:,}, k={k:,}"
        rates, state = [], None
        for _ in range(repeat):
            seconds, state = placing(sample, k, rule, repair)
            rates.append(sample.queries / seconds)
        best = note(name, "placements/s", rates)
        if isinstance(rule, LeastCost):
            goals.append(Goal(f"LeastCost, k={k:,}", 200_000, best, unit=" placements/s"))
            assert state is not None
            pairs = int(state.streams.size.sum())
            note(
                "bytes of the placement for each query and pair",
                "B",
                [held(state) / (sample.queries + pairs)],
            )
    progress("churn", 0.35)
    life = churn(steps, steps / 10, queries=n // 10, seed=0)
    spent = [timed(lambda: live(life, 100, LeastCost())) for _ in range(repeat)]
    best = note(f"{steps:,} steps of churn, k=100, LeastCost", "s", spent)
    goals.append(Goal(f"{steps:,} steps of churn", 60, best, at_most=True, unit=" s"))
    for at, name in enumerate(("ic", "mms")):
        progress(f"offline {name}", 0.5 + 0.15 * at)
        spent = [timed(partial(solve, load, k, name)) for _ in range(repeat)]
        best = note(f"{name}, n={n:,}, k={k:,}", "s", spent)
        goals.append(Goal(f"offline {name}, n={n:,}, k={k:,}", 60, best, at_most=True, unit=" s"))
    progress("growth", 0.8)
    curves = growth(quick=quick)
    for axis, points in curves.items():
        for x, y in points:
            note(f"LeastCost, {axis}={x:,.0f}", "us a placement", [y])
    draw(curves)
    return Report("placement", tuple(results), tuple(goals), quick=quick)


def warm() -> None:
    """Compile everything."""
    load = graph(500, seed=1)
    placing(load, 4, LeastCost(), Repair())
    for name in ("ic", "mms"):
        solve(load, 4, name)


def timed(act: Callable[[], Any]) -> float:
    """Return the CPU seconds of a call."""
    begin = time.process_time()
    act()
    return time.process_time() - begin


def placing(load: Any, k: int, rule: Rule, repair: Repair) -> tuple[float, PlacementState]:
    """Return the CPU seconds of placing a workload, and its state after."""
    replay = Replay(load, np.ones(k), rule, repair=repair, draw=np.random.default_rng(1).random)
    return timed(lambda: replay.arrive(np.arange(load.queries))), replay.state


def held(state: PlacementState) -> int:
    """Return the bytes of all arrays of a placement."""
    counts = [*state.streams, *state.hosted_types]
    arrays = [x for x in state if not isinstance(x, ReferenceCounts)] + counts
    return sum(int(x.nbytes) for x in arrays)


def growth(*, quick: bool) -> dict[str, list[tuple[float, float]]]:
    """Return microseconds a LeastCost placement over queries, servers, sources a query,
    and sources (by exponent).
    """
    n, k = (10_000, 100) if quick else (100_000, 100)

    def cost(queries: int, servers: int, d: int, beta: float) -> tuple[float, float]:
        load = graph(queries, beta=beta, d=d, seed=2)
        assert load.types is not None
        return float(load.sources), 1e6 * min(
            placing(load, servers, LeastCost(), NO_REPAIR)[0] for _ in range(2)
        ) / queries

    return {
        "n": [(x, cost(x, k, 2, 2.0)[1]) for x in (n // 10, n // 3, n, *(() if quick else (10 * n,)))],
        "k": [(x, cost(n, x, 2, 2.0)[1]) for x in (10, 30, 100, 300, 1000)],
        "d": [(x, cost(n, k, x, 2.0)[1]) for x in (1, 2, 5, 10)],
        "m": sorted(cost(n, k, 2, beta) for beta in (1.5, 1.75, 2.0, 2.5, 3.0)),
    }


def draw(curves: dict[str, list[tuple[float, float]]]) -> None:
    """Draw how the cost grows."""
    from headgate_lab.papers.gedik.plots import new

    figure, axes = new(4, "LeastCost: CPU time of a placement (defaults n=100K, k=100, d=2, exponent 2)")
    labels = {"n": "queries n", "k": "servers k", "d": "sources a query d", "m": "sources m (by exponent)"}
    for axis, (name, points) in zip(axes, curves.items(), strict=True):
        axis.plot(*zip(*points, strict=True), marker="o", color=pictures.BLUE)
        axis.set_xlabel(labels[name])
        axis.set_ylabel("microseconds")
        axis.set_ylim(bottom=0)
        if name != "d":
            axis.set_xscale("log")
    pictures.save(figure, PICTURE)
