"""`headgate bench observe`: what it costs to be watched. A direct stream with everything on (Prometheus on a port that is
scraped, a text file, OpenTelemetry to exporters that drop all, a listener, logs as JSON), beside the same stream with nothing on.

Both queries run in one session and get the same rows, in turns, and each batch is compared with itself: sessions differ from
each other by more than the few percent in question. The time of a batch is from the moment at which its rows are there until
the query has nothing more to do, so what listeners do after the commit is part of it.
"""

from __future__ import annotations

import logging
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import headgate as hg
from headgate import agg
from headgate.cli.console import Tick
from headgate.spark.local import local_spark
from headgate_lab.bench.job import CORES, workspace
from headgate_lab.bench.result import Goal, Report, Result, machine
from headgate_lab.bench.rounds import median

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ON, OFF = "everything on", "nothing on"
DEAREST = 1.02
SCRAPE_SECONDS = 1.0
"""A scrape of Prometheus comes every 15 seconds or so; here it is more often."""
COLUMNS = pa.schema([("user", pa.int64()), ("amount", pa.float64())])


@dataclass(frozen=True)
class Size:
    """Rows of a batch, keys, batches, and how many of the first do not count."""

    rows: int
    keys: int
    batches: int
    warm: int


SIZES = {"300,000 rows": Size(300_000, 100_000, 60, 10), "1,000 rows": Size(1_000, 1_000, 240, 40)}
QUICK = {"20,000 rows": Size(20_000, 5_000, 6, 2), "1,000 rows": Size(1_000, 1_000, 10, 2)}


def run(*, quick: bool, repeat: int, progress: Tick) -> Report:
    """Measure, and compare with the goal."""
    sizes, where = QUICK if quick else SIZES, machine()
    times: dict[str, dict[str, list[float]]] = {}
    with workspace() as work, local_spark(CORES, work / "spark.log") as spark:
        for number in range(repeat):
            for at, (what, size) in enumerate(sizes.items()):
                progress(f"batches of {what}", (number * len(sizes) + at) / (repeat * len(sizes)))
                measured = _measure(spark, size, work / f"{size.rows}-{number}")
                known = times.setdefault(what, {ON: [], OFF: []})
                for name, samples in measured.items():
                    known[name] += samples[size.warm :]
    return report(times, where=where, quick=quick)


def report(times: dict[str, dict[str, list[float]]], *, where: dict[str, Any], quick: bool) -> Report:
    """Times of a batch, and the median of their ratios, batch by batch."""
    results, goals = [], []
    for what, samples in times.items():
        on, off = samples[ON], samples[OFF]
        shown = {f"{name}, {what}": values for name, values in samples.items()}
        results.append(Result(f"batch of {what}, {ON}", "ms", median(on), OFF, median(off), shown))
        ratio = median([mine / other for mine, other in zip(on, off, strict=True)])
        goals.append(Goal(f"batch of {what}: {ON} over {OFF}", DEAREST, ratio, at_most=True))
    return Report("observe", tuple(results), tuple(goals), machine=where, quick=quick)


def _measure(spark: SparkSession, size: Size, work: Path) -> dict[str, list[float]]:
    """The times of all batches in ms. The two take turns in going first."""
    draw = np.random.default_rng(5)
    times: dict[str, list[float]] = {ON: [], OFF: []}
    with ExitStack() as stack:
        (work / ON).mkdir(parents=True)
        watching = stack.enter_context(_everything(work / ON))
        sources = {name: hg.sources.Rows(schema=COLUMNS) for name in times}
        queries = {
            OFF: stack.enter_context(_stream(spark, sources[OFF], work / OFF).start(str(work / OFF / "c"))),
            ON: stack.enter_context(
                _stream(spark, sources[ON], work / ON).start(str(work / ON / "c"), name="on", **watching)
            ),
        }
        stack.enter_context(_scraped(queries[ON]))
        logger = logging.getLogger("headgate")
        for number in range(size.batches):
            columns = {"user": draw.integers(0, size.keys, size.rows), "amount": draw.random(size.rows)}
            rows = pa.table(columns, COLUMNS)
            for name in (ON, OFF) if number % 2 else (OFF, ON):
                logger.setLevel(logging.INFO if name == ON else logging.WARNING)
                begin = time.perf_counter()
                sources[name].add(rows)
                queries[name].process_all_available()
                times[name].append(1e3 * (time.perf_counter() - begin))
    return times


def _stream(spark: SparkSession, source: Any, work: Path) -> Any:
    keyed = hg.read(spark).source(source).key_by("user", routing=hg.Routing(channels=CORES))
    return keyed.aggregate(n=agg.count(), total=agg.sum("amount")).write(hg.sinks.Parquet(str(work / "out")))


@contextmanager
def _everything(work: Path) -> Iterator[dict[str, Any]]:
    """The settings of a query that tells everything."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from headgate_lab.bench.null_exporters import NullMetrics, NullSpans

    reader = PeriodicExportingMetricReader(NullMetrics(), export_interval_millis=1e3 * SCRAPE_SECONDS)
    meters, tracers = MeterProvider(metric_readers=[reader]), TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(NullSpans()))
    heard: list[str] = []
    ours = logging.getLogger("headgate")
    with (work / "log.json").open("w") as lines:
        handler = hg.observe.json_logs(lines)
        try:
            yield {
                "metrics_port": 0,
                "listeners": [
                    hg.observe.TextFile(work / "on.prom"),
                    hg.observe.OpenTelemetry(meters, tracers),
                    lambda event: heard.append(str(event)),
                ],
            }
        finally:
            ours.removeHandler(handler)
            ours.setLevel(logging.NOTSET)
            meters.shutdown()
            tracers.shutdown()


@contextmanager
def _scraped(query: Any) -> Iterator[None]:
    """A query whose port is scraped, as Prometheus does it."""
    stopping = threading.Event()

    def scrape() -> None:
        while not stopping.wait(SCRAPE_SECONDS):
            urllib.request.urlopen(f"http://127.0.0.1:{query.metrics_port}/metrics").read()

    thread = threading.Thread(target=scrape, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
