"""`headgate bench rescale`: the time of a batch while the number of channels changes, beside batches without a change.

A stream of aggregates on a standalone cluster of two executors with one core each goes from 2 channels to 4 and back, again and
again, with state for a million keys and for 20 million. Half of its keys change their executor each time. Rivals in the same
run: the same stream between two changes, a change that takes effect at once, so that the batch after it reads the state that
moved, and native Spark, which is stopped and started again with its checkpoint repartitioned. On one executor, where
state stays in its cache, a change is measured too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headgate.cli.console import Tick
from headgate.errors import ConfigError
from headgate.spark.local import local_spark
from headgate_lab.bench.job import CORES, workspace
from headgate_lab.bench.rescale.drawn import Drawn
from headgate_lab.bench.rescale.restarted import pause
from headgate_lab.bench.rescale.stream import CHANNELS, Size, Times, measure
from headgate_lab.bench.result import Goal, Report, Result, machine
from headgate_lab.bench.rounds import median
from headgate_lab.bench.standalone import standalone

WORST = 1.3
MEMORY = {"spark.executor.memory": "3g", "spark.sql.streaming.numRecentProgressUpdates": "1000"}


@dataclass(frozen=True)
class Part:
    """One part of the bench."""

    size: Size
    cluster: bool = True


PARTS = {
    "1M keys": Part(Size(1_000_000, 1_000_000, 200_000, 20, 4)),
    "20M keys": Part(Size(20_000_000, 2_000_000, 200_000, 20, 4)),
    "1M keys, one executor": Part(Size(1_000_000, 1_000_000, 200_000, 20, 2), cluster=False),
}
QUICK = {"20k keys": Part(Size(20_000, 20_000, 5_000, 2, 1))}


@dataclass(frozen=True)
class Measured:
    """The times of a part: ours by batch in ms, native's pause in s and its batches in ms."""

    ours: Times
    pause_s: float | None = None
    native: Sequence[float] = ()


def run(*, quick: bool, repeat: int, progress: Tick, only: Sequence[str] = ()) -> Report:
    """Measure all parts, or those that are named."""
    parts, where = QUICK if quick else PARTS, machine()
    if unknown := set(only) - set(parts):
        raise ConfigError(f"bench rescale has no part {min(unknown)!r}: it has {', '.join(map(repr, parts))}")
    chosen = {name: part for name, part in parts.items() if not only or name in only}
    found = {}
    for number, (name, part) in enumerate(chosen.items()):
        with workspace() as work:
            found[name] = _measured(name, part, work, lambda said, n=number: progress(said, n / len(chosen)))
    return report(found, where=where, quick=quick)


def _measured(name: str, part: Part, work: Path, say: Any) -> Measured:
    log, size = work / "spark.log", part.size
    if not part.cluster:
        say(name)
        with local_spark(CORES, log) as spark:
            return Measured(measure(spark, size, work / "ours"))
    with standalone(work / "cluster", memory="4g") as master:
        say(f"{name}: headgate")
        with local_spark(CORES, log, MEMORY, master=master) as spark:
            ours = measure(spark, size, work / "ours")
        say(f"{name}: native Spark")
        with local_spark(CORES, log, MEMORY, ours=False, master=master) as spark:
            source = Drawn(size.keys, size.load, size.rows, 0)
            return Measured(ours, *pause(spark, source, CHANNELS, work / "native"))


def report(found: dict[str, Measured], *, where: dict[str, Any], quick: bool) -> Report:
    """The 99th percentiles beside each other, and the longest batch beside native's pause."""
    results, goals = [], []
    for name, measured in found.items():
        ours = measured.ours
        quiet, ahead = _p99(ours.quiet), _p99(ours.ahead)
        samples = {
            f"{name}: no rescale": ours.quiet,
            f"{name}: rescale": ours.ahead,
            f"{name}: rescale at once": ours.at_once,
            f"{name}: batches of notice": ours.notice,
        }
        results += [
            Result(f"{name}: p99 of a batch in a rescale", "ms", ahead, "no rescale", quiet, samples),
            Result(
                f"{name}: median of a batch in a rescale",
                "ms",
                median(ours.ahead),
                "no rescale",
                median(ours.quiet),
                {},
            ),
            Result(
                f"{name}: longest batch in a rescale",
                "ms",
                max(ours.ahead),
                "a rescale at once",
                max(ours.at_once),
                {},
            ),
        ]
        goals.append(
            Goal(f"{name}: p99 of a batch in a rescale over none", WORST, ahead / quiet, at_most=True)
        )
        if measured.pause_s is not None:
            rival = "native Spark: from the stop to the first batch after the restart"
            native = {f"{name}: native, no restart": list(measured.native)}
            results.append(
                Result(
                    f"{name}: longest time without output",
                    "s",
                    max(ours.ahead) / 1e3,
                    rival,
                    measured.pause_s,
                    native,
                )
            )
    return Report("rescale", tuple(results), tuple(goals), machine=where, quick=quick)


def _p99(times: Sequence[float]) -> float:
    return float(np.percentile(times, 99))
