"""`headgate bench default`: what the default policy costs on balanced streams, beside static routing.

Keys are uniform, so there is nothing to balance: what differs is the work of the policy and of its report, and plans that it
should not have made. Two stages process the same batches in one session, in turns, and each batch is compared with itself: sessions
differ from each other by more than the few percent in question.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.cli.console import Tick
from headgate.spark.local import local_spark
from headgate_lab.bench import data
from headgate_lab.bench.job import CORES, workspace
from headgate_lab.bench.ours import OPERATORS
from headgate_lab.bench.result import Goal, Report, Result, machine
from headgate_lab.bench.rounds import median

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEASURED = ("aggregate", "history", "zscore")
SMALL = "aggregate, small batches"
POLICIES = {"the default policy": "", "static": "static"}
DEAREST = 1.05
"""A few percent."""


@dataclass(frozen=True)
class DefaultSizes:
    """The sizes of a run. The last `steady` batches of each job count."""

    rows: int = 300_000
    keys: int = 200_000
    batches: int = 24
    steady: int = 16
    small_rows: int = 1_000
    small_batches: int = 60
    small_steady: int = 40


QUICK = DefaultSizes(20_000, 5_000, 3, 2, 1_000, 4, 2)


def run(*, quick: bool, repeat: int, progress: Tick) -> Report:
    """Measure, and compare with the goal."""
    sizes, where = QUICK if quick else DefaultSizes(), machine()
    with workspace() as work:
        progress("writing the input", 0.0)
        big, small = work / "big", work / "small"
        data.write(data.uniform(sizes.rows, sizes.batches, sizes.keys), big)
        data.write(data.uniform(sizes.small_rows, sizes.small_batches, sizes.keys, seed=4), small)
        cases = [(operator, operator, big, sizes.steady) for operator in MEASURED]
        cases.append((SMALL, "aggregate", small, sizes.small_steady))
        times: dict[str, dict[str, list[float]]] = {}
        with local_spark(CORES, work / "spark.log") as spark:
            for number in range(repeat):
                for at, (what, operator, source, steady) in enumerate(cases):
                    progress(
                        f"{what}, round {number + 1}", (number * len(cases) + at) / (repeat * len(cases))
                    )
                    measured = _measure(spark, operator, source, work / f"{what}-{number}")
                    known = times.setdefault(what, {name: [] for name in POLICIES})
                    for name, samples in measured.items():
                        known[name] += samples[-steady:]
    return report(times, where=where, quick=quick)


def _measure(spark: SparkSession, operator: str, source: Path, work: Path) -> dict[str, list[float]]:
    """The times of all batches in ms, by policy. The policies take turns in going first."""
    from headgate.spark.stage import Stage
    from headgate.stage import sinks
    from headgate.stage.settings import Routing

    stages = {
        name: Stage(
            key="user",
            operator=OPERATORS[operator],
            routing=Routing(policy=policy, channels=CORES) if policy else Routing(channels=CORES),
            checkpoint=str(work / name / "stage"),
            sink=sinks.Parquet(str(work / name / "out")),
        )
        for name, policy in POLICIES.items()
    }
    files = sorted(map(str, source.glob("*.parquet")))
    times: dict[str, list[float]] = {name: [] for name in stages}
    for batch in range(len(files) // data.FILES_PER_BATCH):
        mine = files[batch * data.FILES_PER_BATCH : (batch + 1) * data.FILES_PER_BATCH]
        for name in sorted(stages, reverse=batch % 2 == 1):
            begin = time.perf_counter()
            stages[name](spark.read.schema(data.SCHEMA).parquet(*mine), batch)
            times[name].append(1e3 * (time.perf_counter() - begin))
    return times


def report(times: dict[str, dict[str, list[float]]], *, where: dict[str, object], quick: bool) -> Report:
    """Times of a batch, and the median of their ratios, batch by batch."""
    results, goals = [], []
    ours, rival = POLICIES
    for what, samples in times.items():
        mine, other = samples[ours], samples[rival]
        results.append(Result(f"batch of {what}", "ms", median(mine), rival, median(other), samples))
        ratio = median([a / b for a, b in zip(mine, other, strict=True)])
        goals.append(Goal(f"{what}: batch time over static routing's", DEAREST, ratio, at_most=True))
    return Report("default", tuple(results), tuple(goals), machine=where, quick=quick)
