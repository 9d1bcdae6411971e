"""`headgate bench rescale`: the time of a batch while the number of channels changes, beside batches without a change.

A stream of aggregates on a standalone cluster of two executors with one core each goes from 2 channels to 4 and back, and from
2 to 3 and back, with state for a million keys and for 20 million. From 2 to 4 no state changes its executor, because new
channels are put where their bins are; from 2 to 3 a sixth of it does. Rivals in the same run: the same stream between two
changes, the change from 2 to 3 at once, without reading ahead, and native Spark, which is stopped and started again with its
checkpoint repartitioned. On one executor, where state stays in its cache, a change is measured too. So is a change
whose anchor is cast by a job, as without Spark's interface for placed rows; that is a comparison, and has no goal.

Without `quick`, what was measured is written to `benchmarks/results/rescale.json`, if there is that folder; other parts stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from headgate.cli.console import Tick
from headgate.errors import ConfigError
from headgate.spark.local import local_spark
from headgate_lab.bench.job import CORES, workspace
from headgate_lab.bench.rescale.drawn import Drawn
from headgate_lab.bench.rescale.restarted import pause
from headgate_lab.bench.rescale.stream import AT_ONCE, FEWEST, MOVES, TWICE, Kind, Size, Times, measure
from headgate_lab.bench.result import Goal, Report, Result, machine
from headgate_lab.bench.rounds import median
from headgate_lab.bench.standalone import standalone

WORST = 1.3
RESULTS = Path("benchmarks/results/rescale.json")
MEMORY = {"spark.executor.memory": "3g", "spark.sql.streaming.numRecentProgressUpdates": "1000"}


@dataclass(frozen=True)
class Part:
    """One part of the bench."""

    size: Size
    cluster: bool = True
    cast: bool = False
    """Whether anchors are cast by a job, though they need none: for a comparison, without a goal and without native."""


PARTS = {
    "1M keys": Part(Size(1_000_000, 1_000_000, 200_000, 20, {TWICE: 4, MOVES: 4, AT_ONCE: 2})),
    "20M keys": Part(Size(20_000_000, 2_000_000, 200_000, 20, {TWICE: 2, MOVES: 2, AT_ONCE: 2})),
    "1M keys on one executor": Part(Size(1_000_000, 1_000_000, 200_000, 20, {TWICE: 4}), cluster=False),
    "1M keys with a cast anchor": Part(Size(1_000_000, 1_000_000, 200_000, 20, {TWICE: 4}), cast=True),
}
QUICK = {"20k keys": Part(Size(20_000, 20_000, 5_000, 2, {TWICE: 2, MOVES: 2, AT_ONCE: 2}))}


@dataclass(frozen=True)
class Measured:
    """The times of a part: ours by batch in ms, native's pause in s and its batches in ms."""

    ours: Mapping[Kind, Times]
    pause_s: float | None = None
    native: Sequence[float] = ()
    judged: bool = True


def run(*, quick: bool, repeat: int, progress: Tick, only: Sequence[str] = ()) -> Report:
    """Measure all parts, or those that are named."""
    parts, where = QUICK if quick else PARTS, machine()
    if unknown := set(only) - set(parts):
        raise ConfigError(f"bench rescale has no part {min(unknown)!r}: it has {', '.join(map(repr, parts))}")
    chosen = {name: part for name, part in parts.items() if not only or name in only}
    found = {}
    for number, (name, part) in enumerate(chosen.items()):
        with workspace() as work:
            say = partial(_say, progress, number / len(chosen))
            found[name] = _measured(name, part, work, say)
    made = report(found, where=where, quick=quick)
    if not quick and RESULTS.parent.is_dir():
        before = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
        merged = json.dumps(with_parts(before, made.as_json()), indent=1)
        RESULTS.write_text(merged + "\n", encoding="utf-8")
    return made


def _say(progress: Tick, part: float, said: str) -> None:
    progress(said, part)


def with_parts(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """A results file with the parts that were measured now, and those of before that were not."""
    measured = {one["name"].split(": ")[0] for one in now["results"]}

    def kept(what: str) -> list[Any]:
        return [one for one in before.get(what, []) if one["name"].split(": ")[0] not in measured]

    return {**now, "results": kept("results") + now["results"], "goals": kept("goals") + now["goals"]}


def _measured(name: str, part: Part, work: Path, say: Callable[[str], None]) -> Measured:
    log, size = work / "spark.log", part.size
    if not part.cluster:
        say(name)
        with local_spark(CORES, log) as spark:
            return Measured(measure(spark, size, work / "ours"))
    with standalone(work / "cluster", memory="4g") as master:
        say(f"{name}: headgate")
        with local_spark(CORES, log, MEMORY, master=master) as spark, _anchors(cast=part.cast):
            ours = measure(spark, size, work / "ours")
        if part.cast:
            return Measured(ours, judged=False)
        say(f"{name}: native Spark")
        with local_spark(CORES, log, MEMORY, ours=False, master=master) as spark:
            source = Drawn(size.keys, size.load, size.rows, 0)
            return Measured(ours, *pause(spark, source, (FEWEST, TWICE.channels), work / "native"))


def _anchors(*, cast: bool) -> AbstractContextManager[Any]:
    """Anchors as they are, or as they are where Spark has no interface for placed rows."""
    return patch("headgate.spark.anchor.placed_rows", return_value=None) if cast else nullcontext()


def report(found: Mapping[str, Measured], *, where: dict[str, Any], quick: bool) -> Report:
    """The 99th percentiles beside each other, and the longest batch beside native's pause."""
    results, goals = [], []
    for part, measured in found.items():
        longest = 0.0
        for kind, times in measured.ours.items():
            name = f"{part}: {kind.name}"
            quiet, during = _p99(times.quiet), _p99(times.during)
            samples = {
                f"{name}, between changes": times.quiet,
                f"{name}, in a change": times.during,
                f"{name}, batches of notice": times.notice,
            }
            results += [
                Result(f"{name}: p99", "ms", during, "no change", quiet, samples),
                Result(f"{name}: median", "ms", median(times.during), "no change", median(times.quiet), {}),
                Result(f"{name}: longest", "ms", max(times.during), "no change", max(times.quiet), {}),
            ]
            if kind.announced and measured.judged:
                longest = max(longest, *times.during)
                goals.append(Goal(f"{name}: p99 over no change", WORST, during / quiet, at_most=True))
        if measured.pause_s is not None:
            rival = "native Spark: from the stop to the first batch after the restart"
            native = {f"{part}: native, batches in ms": list(measured.native)}
            results.append(
                Result(f"{part}: longest pause", "s", longest / 1e3, rival, measured.pause_s, native)
            )
    return Report("rescale", tuple(results), tuple(goals), machine=where, quick=quick)


def _p99(times: Sequence[float]) -> float:
    return float(np.percentile(times, 99))
