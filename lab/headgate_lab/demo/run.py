"""Runs the demonstration: one input, two direct streams at once, each with a checkpoint and a sink of its own.

The two share the machine but hardly disturb each other: their channels mostly sleep
(`result.pacing`). Everything is real: files, Spark jobs, a checkpoint and a Parquet folder for each.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from headgate import policies
from headgate.errors import ConfigError, HeadgateError
from headgate.policies import Guard
from headgate.spark.local import local_spark
from headgate_lab.demo.result import DemoResult, Lane, Step
from headgate_lab.demo.stream import Skew, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headgate.spark.direct.query import Query

SCHEMA = "seq long, user long, amount double"
POLL_S = 0.25
CLOSING_S, SHORTEST_S = 8.0, 10.0  # reserved for comparing and drawing; and the shortest race
MARK = ".headgate-demo"


@dataclass(frozen=True)
class Settings:
    """What to run. `seconds` includes the start of Spark: the race ends with the stream or
    when time is up.
    """

    out: Path
    policy: str = "flux-load"
    seconds: float = 110.0
    channels: int = 8
    pace_us: float = 500.0
    guard: Guard = field(default_factory=lambda: Guard(cool_down_batches=1))
    skew: Skew = field(default_factory=Skew)

    def __post_init__(self) -> None:
        """Refuse settings that would otherwise fail only after Spark has started."""
        policies.get(self.policy)
        if self.skew.batches < 1 or self.seconds <= 0 or self.channels < 2:
            raise ConfigError(
                f"batches={self.skew.batches}, seconds={self.seconds}, channels={self.channels}: "
                "a demonstration needs a batch, some time, and two channels"
            )


class Runner:
    """A query that runs."""

    def __init__(self, name: str, policy: str, query: Query) -> None:
        self.name, self.policy, self.query, self.stage = name, policy, query, query.stages[0]
        self.steps: list[Step] = []

    def look(self) -> bool:
        """Check whether a batch has ended since the last call; this is called more often than batches end."""
        status = self.stage.status()
        if status.report is None or status.decision is None:
            return False
        if self.steps and self.steps[-1].report.batch >= status.report.batch:
            return False
        self.steps.append(Step(status.report, status.decision))
        return True

    def lane(self) -> Lane:
        """The whole run, from the journal, with the times of the batches."""
        times = {progress.batch: progress.batch_ms for progress in self.query.progress}
        steps = (Step(e.report, e.decision, times.get(e.report.batch)) for e in self.stage.journal())
        return Lane(self.name, self.policy, tuple(step for step in steps if step.batch_ms is not None))


Watch = Callable[[Runner, Runner, float], None]
"""Called whenever a batch has ended in either stage, and from time to time, with the
seconds since the start.
"""


def run(settings: Settings, *, say: Callable[[str], None], watch: Watch) -> DemoResult:
    """Run both stages over the same stream, and compare their outputs at the end."""
    began = time.monotonic()
    out = fresh(settings.out)
    log = out / "spark.log"
    say("writing the stream")
    write(settings.skew, out / "input")
    write(
        replace(settings.skew, batches=2, rows_per_batch=64 * settings.channels), out / "work" / "warm-input"
    )
    say("starting Spark")
    cores = (
        2 * settings.channels + 4
    )  # every channel of both stages needs a slot to sleep in, and the exchange needs a few
    conf = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # in a minute the optimising compiler does not pay off
    }
    with local_spark(cores, log, conf) as spark:
        say("warming up")
        _warm_up(spark, settings, out / "work", log)
        fixed = _start(spark, "hash routing", "static", settings, out)
        adaptive = _start(spark, settings.policy, settings.policy, settings, out)
        until = max(began + settings.seconds - CLOSING_S, time.monotonic() + SHORTEST_S)
        _race((fixed, adaptive), until, watch, log)
        lanes = _common(fixed.lane(), adaptive.lane())
    say("comparing the answers")
    differing = first_difference(out / "fixed", out / "adaptive", len(lanes[0].steps))
    shutil.rmtree(out / "work", ignore_errors=True)
    shifts = tuple(b for b in settings.skew.shifts if b < len(lanes[0].steps))
    return DemoResult(
        *lanes,
        shifts=shifts,
        differing=differing,
        pace_us=settings.pace_us,
        channels=settings.channels,
        seconds=time.monotonic() - began,
    )


def fresh(out: Path) -> Path:
    """An empty folder for the run. Empties only a folder that a demonstration made."""
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / MARK).exists())):
        raise ConfigError(f"{out} exists and holds other things; give another folder with --out")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / ".gitignore").write_text("*\n")
    (out / MARK).write_text("made by `headgate demo`, which empties this folder when it runs again\n")
    return out


def _query(
    spark: SparkSession,
    settings: Settings,
    policy: str,
    channels: int,
    source: Path,
    checkpoint: Path,
    sink: Path,
) -> Query:
    """A query that is ready to begin; a file is a batch."""
    from headgate.spark.direct.query import Query, Trigger
    from headgate.spark.direct.read import read
    from headgate.stage import sinks
    from headgate.stage.settings import Routing
    from headgate.testing import pace

    results = (
        read(spark)
        .files(str(source), schema=SCHEMA, format="parquet")
        .key_by("user", routing=Routing(policy=policy, guard=settings.guard, channels=channels))
        .history(100, ["mean", "std"], of="amount", keep=["seq", "amount"])
    )
    trigger = Trigger(available_now=True, max_rows=1)  # the least that the source can give: one file
    query = Query.of(results.write(sinks.Parquet(str(sink))), str(checkpoint), trigger, durable=True)
    pace(query.stages[0], settings.pace_us)
    return query


def _warm_up(spark: SparkSession, settings: Settings, work: Path, log: Path) -> None:
    """Run two small batches to warm up. The first is on one channel, so that one worker compiles
    and the others find the result; the second is on as many channels as the race. Afterwards
    classes are loaded, code is generated and workers run.
    """
    places = (work / "warm-input", work / "warm-state", work / "warm-out")
    query = _query(spark, replace(settings, pace_us=0), "static", 1, *places)
    query.rescale(2 * settings.channels)  # takes effect with the second batch
    query.begin()
    while query.is_active:
        time.sleep(POLL_S)
    _check(query, "the warm-up", log)


def _start(spark: SparkSession, name: str, policy: str, settings: Settings, out: Path) -> Runner:
    work = out / "work" / ("fixed" if name == "hash routing" else "adaptive")
    places = (out / "input", work / "checkpoint", out / work.name)
    return Runner(name, policy, _query(spark, settings, policy, settings.channels, *places).begin())


def _race(runners: tuple[Runner, Runner], until: float, watch: Watch, log: Path) -> None:
    began = time.monotonic()
    try:
        while any(runner.query.is_active for runner in runners):
            for runner in runners:
                runner.look()
                _check(runner.query, f"the query with {runner.name}", log)
            watch(*runners, time.monotonic() - began)
            if time.monotonic() > until and all(runner.steps for runner in runners):
                break
            time.sleep(POLL_S)
        for runner in runners:
            runner.look()
            _check(runner.query, f"the query with {runner.name}", log)
        watch(*runners, time.monotonic() - began)
    finally:
        for runner in runners:
            runner.query.stop()


def _check(query: Query, doing: str, log: Path) -> None:
    """Raise the error of a query that has failed."""
    if query.state == "failed":
        raise HeadgateError(f"{doing} failed: {query.status().error} (Spark's log: {log})")


def _common(a: Lane, b: Lane) -> tuple[Lane, Lane]:
    """Both lanes, cut to the batches that both have finished."""
    n = min(len(a.steps), len(b.steps))
    if n == 0:
        raise HeadgateError("no batch was finished in the time given: try more --seconds or a smaller --pace")
    return replace(a, steps=a.steps[:n]), replace(b, steps=b.steps[:n])


def first_difference(a: Path, b: Path, batches: int) -> int | None:
    """The first batch whose output differs in any bit of any row; None when all are equal."""
    for number in range(batches):
        if not _rows(a, number).equals(_rows(b, number)):
            return number
    return None


def _rows(sink: Path, number: int) -> pa.Table:
    files = sorted((sink / f"batch={number}").glob("*.parquet"))
    tables = [pq.ParquetFile(file).read() for file in files]
    return pa.concat_tables(tables).sort_by("seq") if tables else pa.table({})
