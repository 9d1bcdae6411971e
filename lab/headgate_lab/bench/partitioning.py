# mypy: allow-untyped-defs, allow-untyped-calls
"""Speed of partitioning functions: building, lookup, and what tracking hot keys adds to a batch.

The workload is the paper's default: Zipf(1.0) over 10^6 keys, resources LCL, alpha 1.2, N grown one
channel at a time. Each number is the best of its samples, after compilation, in CPU seconds of the
one thread: neighbours disturb them less.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, get_args

import numpy as np

from headgate.cli.console import Tick
from headgate.compiled import compiled
from headgate.routing.builders import ALGORITHMS, Assignment, Objective, Problem
from headgate.routing.builders.placement import Tail
from headgate.routing.heavy_keys import HeavyKeys
from headgate.routing.key_hash import hash_ints, mix_int64
from headgate.routing.lower_bound import busiest_bound
from headgate.routing.partitioning import PartitioningFunction
from headgate.routing.ring import HashRing
from headgate.testing import words
from headgate_lab.bench.result import Goal, Report, Result, machine
from headgate_lab.papers.gedik.trial import tracked
from headgate_lab.papers.gedik.world import World

_ONE = np.uint64(1)


def run(*, quick: bool, repeat: int, progress: Tick) -> Report:
    """Measure everything. All is in this process, so `repeat` multiplies the samples."""
    world = World()
    repeats = repeat * (3 if quick else 7)
    where = machine()
    results: list[Result] = []
    goals: list[Goal] = []

    def note(
        name: str, unit: str, samples: list[float], rival: str | None = None, other: float | None = None
    ) -> float:
        best = max(samples) if unit.endswith("/s") else min(samples)
        results.append(Result(name, unit, best, rival, other, {name: samples}))
        return best

    for step, (name, algorithm, channels, sigma, limit) in enumerate(
        (
            ("scan, N=32", "scan", 32, 0.1, 0.010),
            ("redist, 500 keys, N=32", "redist", 32, 0.0256, 0.100),
            ("readj, sigma=0.008", "readj", 10, 0.008, 1.0),
            ("readj as printed, sigma=0.008", "readj-literal", 10, 0.008, 1.0),
        )
    ):
        progress(name, step / 6)
        problem = grown(world, channels, sigma, "scan" if quick else algorithm)
        few = 2 * repeat if algorithm.startswith("readj") else repeats
        seconds, last = timed(lambda: ALGORITHMS[algorithm](problem), few)  # noqa: B023
        assert isinstance(last, Assignment)
        best = note(f"{name} ({problem.volume.shape[0]} keys, {last.steps} steps)", "s", seconds)
        goals.append(Goal(name, limit, best, at_most=True, unit=" s"))
        levels = np.bincount(last.channel, weights=problem.volume, minlength=channels)
        note(
            f"busiest over mean: {name}",
            "rows/rows",
            [float(levels.max() / levels.mean())],
            "at best",
            busiest_bound(problem.volume, channels),
        )

    progress("words", 4 / 6)
    for name, even, bound in grown_words():
        note(f"busiest over mean: {name}", "rows/rows", [even], "at best", bound)
        goals.append(Goal(f"{name}: over the least that whole keys allow", 1.10, even / bound, at_most=True))

    progress("lookups", 4 / 6)
    seconds, _ = timed(lambda: HashRing.uniform(32), repeats)
    note("ring of 32 channels, 1000 points each", "s", seconds)

    keys = world.sample(1_000_000 if quick else 5_000_000, seed=7)
    hot = hash_ints(np.arange(500))
    function = PartitioningFunction(HashRing.uniform(32), {int(h): i % 32 for i, h in enumerate(hot)})
    seconds, _ = timed(lambda: function.lookup_ints(keys), repeats)
    plain, _ = timed(lambda: keys % 32, repeats)
    rate = [keys.shape[0] / s for s in seconds]
    best = note("lookup, 500 pins, N=32", "keys/s", rate, "numpy modulo", keys.shape[0] / min(plain))
    goals.append(Goal("lookups", 20e6, best, unit=" keys/s"))

    progress("tracker", 5 / 6)
    share, tracker, rest = tracker_share(world, repeats)
    note("tracker, one batch of 1M rows", "s", tracker)
    note("grouping the same rows and adding them to state", "s", rest)
    goals.append(Goal("tracker's part of a batch", 0.03, share, at_most=True, unit=""))
    return Report("partitioning", tuple(results), tuple(goals), machine=where, quick=quick)


def grown_words() -> Iterator[tuple[str, float, float]]:
    """Grow from 7 to 16 channels in one step on the words of a real text, by each builder and way with the tail.

    Yields the name, busiest over mean, and the lower bound of it.
    """
    for tail in get_args(Tail)[1:]:
        for algorithm in ("scan", "redist", "readj"):
            plan = words.grown(7, 16, algorithm=algorithm, tail=tail)
            yield f"words, 7 to 16 channels, {algorithm}, tail={tail}", plan.busiest_after, plan.busiest_bound


def grown(world: World, channels: int, sigma: float, algorithm: str) -> Problem:
    """Return the problem of the last growth step, its table built by ``algorithm`` up to there."""
    objective = Objective(sigma=sigma)
    where: dict[int, int] = {}
    for n in range(2, channels + 1):
        keys, f = tracked(world, objective, n, seed=0, frequencies="returned")
        on_ring = world.ring(0, n - 1).lookup_ints(keys)
        old = np.array(
            [where.get(int(k), int(c)) for k, c in zip(keys, on_ring, strict=True)], dtype=np.int64
        )
        problem = Problem(f, old, n, objective)
        if n < channels:
            where = dict(zip(keys.tolist(), ALGORITHMS[algorithm](problem).channel.tolist(), strict=True))
    return problem


def tracker_share(world: World, repeats: int) -> tuple[float, list[float], list[float]]:
    """Return the tracker's part of a batch, and the samples of both parts.

    The rest of the batch is what the smallest stateful operator does to its rows, compiled: group
    them by key, then add each group to the key's running totals. Nothing of Spark, Arrow or files:
    beside such a small batch the tracker's part is largest.
    """
    batches = [world.sample(1_000_000, seed=50 + i) for i in range(repeats)]
    heavy = HeavyKeys(capacity=1024, decay=0.8)
    tracker, rest = [], []
    slots = 1 << 22
    state = np.zeros(slots, np.int64), np.zeros(slots, np.int64), np.zeros(slots)
    for rows in [batches[0], *batches]:
        begin = time.process_time()
        keys, counts, sums = _group(rows, np.ones(rows.shape[0]))
        _update(keys, counts, sums, *state)
        middle = time.process_time()
        heavy.add(keys, counts)
        end = time.process_time()
        rest.append(middle - begin)
        tracker.append(end - middle)
    tracker, rest = tracker[1:], rest[1:]  # the first one compiled
    best = min(tracker)
    return best / (best + min(rest)), tracker, rest


@compiled
def _group(rows, values):
    """Group rows by key: key hashes, counts and sums."""
    slots = 1 << 20
    mask = np.uint64(slots - 1)
    at = np.zeros(slots, np.int32)
    hashes = np.empty(rows.shape[0], np.int64)
    counts = np.zeros(rows.shape[0], np.int64)
    sums = np.zeros(rows.shape[0])
    size = 0
    for i in range(rows.shape[0]):
        h = mix_int64(np.uint64(rows[i]), np.uint64(42))
        slot = (h >> np.uint64(20)) & mask
        while at[slot] > 0 and hashes[at[slot] - 1] != np.int64(h):
            slot = (slot + _ONE) & mask
        if at[slot] == 0:
            hashes[size] = np.int64(h)
            size += 1
            at[slot] = size
        counts[at[slot] - 1] += 1
        sums[at[slot] - 1] += values[i]
    return hashes[:size], counts[:size], sums[:size]


@compiled
def _update(keys, counts, sums, state_key, state_count, state_sum):
    """Add groups to the running totals of their keys."""
    mask = np.uint64(state_key.shape[0] - 1)
    for i in range(keys.shape[0]):
        slot = np.uint64(keys[i]) & mask
        while state_count[slot] > 0 and state_key[slot] != keys[i]:
            slot = (slot + _ONE) & mask
        state_key[slot] = keys[i]
        state_count[slot] += counts[i]
        state_sum[slot] += sums[i]


def timed(act: Callable[[], Any], repeats: int) -> tuple[list[float], Any]:
    """Return the seconds of each repeat after one that is not counted, and the last result."""
    act()
    samples, result = [], None
    for _ in range(repeats):
        begin = time.process_time()
        result = act()
        samples.append(time.process_time() - begin)
    return samples, result
