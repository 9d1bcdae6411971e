"""The paper's test protocol (section 5.1): grow from one channel, one at a time,
and measure each step.

Every algorithm gets the same ring and the same tracked keys; balance and migration are those of
*all* keys, with their exact frequencies, whatever frequencies the builder was shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headgate.routing.balance import (
    Floats,
    Ints,
    ResourceFunction,
    pinning_threshold,
    relative_imbalance,
    relative_migration,
    tracking_threshold,
)
from headgate.routing.builders import ALGORITHMS, Assignment, Objective, Problem
from headgate.routing.ring import HashRing
from headgate_lab.papers.gedik.world import World

Frequencies = Literal["exact", "returned", "counted"]
"""Exact ones of the keys with f >= delta (section 4.1); exact ones of the keys that a counter would
return, f >= delta - epsilon; or those that a counter over a sampled stream has counted."""
Build = Callable[[Problem], Assignment]
BASELINES = {"consistent": "ring", "uniform": "modulo", "random": "random"}
BUILDERS = {"scan": "scan", "redist": "redist", "readj": "readj-literal", "readj-clean": "readj"}
_ROW = {ResourceFunction.CONSTANT: 0, ResourceFunction.LINEAR: 1, ResourceFunction.QUADRATIC: 2}


@dataclass(frozen=True)
class Step:
    """What one growth step gave: b, the three b_k, m, pins, and seconds to build (ring and explicit part)."""

    channels: int
    b: float
    b_each: tuple[float, float, float]
    m: float
    pins: int
    ring_seconds: float = 0.0
    build_seconds: float = 0.0


def tracked(
    world: World, goal: Objective, channels: int, *, seed: int, frequencies: Frequencies
) -> tuple[Ints, Floats]:
    """Return the keys to pin at N channels and the frequencies that the
    builder sees, hottest first.

    A counter has epsilon = 0.1 delta, and returns f >= delta - epsilon (PART-E7, E8).
    """
    at = {"alpha": goal.alpha, "sigma": goal.sigma, "domain": world.domain}
    delta = tracking_threshold(goal.resources, channels, **at)  # type: ignore[arg-type]
    least = 1.0 if frequencies == "exact" else 0.9
    if frequencies != "counted":
        keys = world.above(least * delta)
        f = world.frequency(keys)
    else:
        keys, f, _ = world.estimate(seed, channels, delta)
    if ResourceFunction.QUADRATIC in goal.resources.functions:
        keep = f >= least * pinning_threshold(f, goal.resources, channels, **at)  # type: ignore[arg-type]
        keys, f = keys[keep], f[keep]
    return keys, f


def baseline(world: World, name: str, goal: Objective, channels: int, *, seed: int) -> Step:
    """Measure a hash without pins: consistent, uniform (rank modulo N, PART-E3) or random."""
    census = world.census(BASELINES[name], seed, channels)
    rows = [_ROW[f] for f in goal.resources.functions]
    b, each = relative_imbalance(census.loads[rows], goal.alpha)
    m = relative_migration(census.moved[rows[0]], float(world.totals[rows[0]]), channels)
    return Step(channels, b, (float(each[0]), float(each[1]), float(each[2])), m, 0)


def grow(
    world: World,
    algorithm: str,
    goal: Objective,
    channels: int,
    *,
    seed: int,
    frequencies: Frequencies = "exact",
    measure_from: int | None = None,
    build: Build | None = None,
) -> list[Step]:
    """Grow from 1 to ``channels`` and return the steps from ``measure_from`` (default: the last one only).

    ``build`` takes the place of the algorithm's own builder.
    """
    if algorithm in BASELINES:
        first = channels if measure_from is None else measure_from
        return [baseline(world, algorithm, goal, n, seed=seed) for n in range(max(2, first), channels + 1)]
    build = build or ALGORITHMS[BUILDERS[algorithm]]
    keys, where = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    seen: dict[int, float] = {}
    steps = []
    for n in range(2, channels + 1):
        new_keys, f = tracked(world, goal, n, seed=seed, frequencies=frequencies)
        begin = time.perf_counter()
        if (channels if measure_from is None else measure_from) <= n:
            HashRing.uniform(n, seed=seed)  # built again only to be timed
        ring_seconds = time.perf_counter() - begin
        old = _lookup(world, seed, n - 1, keys, where, new_keys)
        gone = keys[~np.isin(keys, new_keys)]
        least = float(f.min()) if f.size else 0.0
        gone_state = goal.resources.state(np.array([min(seen.get(int(k), least), least) for k in gone]))
        went = _lookup(world, seed, n - 1, keys, where, gone) != world.ring(seed, n).lookup_ints(gone)
        problem = Problem(
            f,
            old,
            n,
            goal,
            moved_state=float(gone_state[went].sum()),
            dropped_state=float(gone_state.sum()),
        )
        begin = time.perf_counter()
        new_where = build(problem).channel
        build_seconds = time.perf_counter() - begin
        if (channels if measure_from is None else measure_from) <= n:
            b, each, m = _measure(world, goal, n, seed, keys, where, new_keys, new_where)
            steps.append(Step(n, b, each, m, new_keys.shape[0], ring_seconds, build_seconds))
        keys, where = new_keys, new_where
        seen = dict(zip(keys.tolist(), f.tolist(), strict=True))
    return steps


def _lookup(world: World, seed: int, channels: int, keys: Ints, where: Ints, wanted: Ints) -> Ints:
    """Return the channels of ``wanted`` under pins (keys, where) and the ring of ``channels``."""
    placed = world.ring(seed, channels).lookup_ints(wanted).astype(np.int64)
    if keys.size and wanted.size:
        order = np.argsort(keys)
        at = np.minimum(np.searchsorted(keys[order], wanted), keys.shape[0] - 1)
        hit = keys[order][at] == wanted
        placed[hit] = where[order][at][hit]
    return placed


def _measure(
    world: World, goal: Objective, n: int, seed: int, keys: Ints, where: Ints, new_keys: Ints, new_where: Ints
) -> tuple[float, tuple[float, float, float], float]:
    census = world.census("ring", seed, n)
    rows = [_ROW[f] for f in goal.resources.functions]
    loads = census.loads[rows].copy()
    on_ring = world.ring(seed, n).lookup_ints(new_keys).astype(np.int64)
    true_loads = goal.resources.loads(world.frequency(new_keys))
    for k in range(3):
        loads[k] -= np.bincount(on_ring, weights=true_loads[k], minlength=n)
        loads[k] += np.bincount(new_where, weights=true_loads[k], minlength=n)
    b, each = relative_imbalance(loads, goal.alpha)
    every = np.union1d(keys, new_keys)
    state = goal.resources.state(world.frequency(every))
    ring_before = world.ring(seed, n - 1).lookup_ints(every)
    ring_after = world.ring(seed, n).lookup_ints(every)
    before = _lookup(world, seed, n - 1, keys, where, every)
    after = _lookup(world, seed, n, new_keys, new_where, every)
    moved = census.moved[rows[0]] - float(state[ring_before != ring_after].sum())
    moved += float(state[before != after].sum())
    m = relative_migration(moved, float(world.totals[rows[0]]), n)
    return b, (float(each[0]), float(each[1]), float(each[2])), m
