"""`headgate bench nexmark`: queries of the Nexmark suite, each beside its native twin on the
same files and batches.

Both are durable and write Parquet; the native twin runs on the faster of its state stores. Every
answer is compared, row by row. A query that Spark refuses to run as a stream is compared with its
answer for a batch of all events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table as Grid
from rich.text import Text

from headgate.cli.console import Tick
from headgate.errors import HeadgateError
from headgate.spark.local import local_spark
from headgate_lab.bench import data, versus
from headgate_lab.bench.job import CORES, Job, workspace
from headgate_lab.bench.nexmark import answers, events
from headgate_lab.bench.nexmark.queries import QUERIES, REFUSED
from headgate_lab.bench.result import Goal, Report, Result, machine
from headgate_lab.bench.rounds import Times, folder_of, run_rounds
from headgate_lab.bench.versus import job_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class NexmarkSizes:
    """Events a batch; the last `steady` batches count, before those that close what is open.

    RocksDB with changelog is omitted from the native twin's stores, as in
    `headgate_lab.bench.operators`.
    """

    events: int = 300_000
    batches: int = 6
    steady: int = 4
    stores: tuple[str, ...] = ("hdfs",)


QUICK = NexmarkSizes(10_000, 2, 1)


@dataclass(frozen=True)
class Compared:
    """A query's answers beside native's."""

    rows: int
    differing: int
    refusal: str = ""
    """Why Spark does not run it as a stream."""


def run(*, quick: bool, repeat: int, progress: Tick) -> Report:
    """Measure, compare, and set both beside the goals."""
    sizes = QUICK if quick else NexmarkSizes()
    where = machine()
    with workspace() as work:
        progress("writing the events", 0.0)
        source = work / "events"
        batches = events.write(source, events=sizes.events, batches=sizes.batches)
        groups = [[_job(query, source, batches) for query in QUERIES]]
        for store in sizes.stores:
            groups.append([_job(query, source, batches, store) for query in QUERIES if query not in REFUSED])
        steady = {job.name: sizes.steady for group in groups for job in group}
        times = run_rounds(groups, steady, repeat=repeat, work=work, progress=progress)
        progress("comparing the answers", 1.0)
        refusals = {}
        with local_spark(CORES, work / "batch.log", ours=False) as spark:
            for query in REFUSED:
                refusals[query] = refused(spark, query, source, folder_of(job_name(query, "hdfs"), work))
        compared = {query: _compare(query, work, refusals.get(query, "")) for query in QUERIES}
    return report(times, compared, sizes, where=where, quick=quick)


def start(spark: SparkSession, job: Job) -> Any:
    """The streaming query of a job."""
    from headgate_lab.bench.nexmark import native, ours

    streams = {s: data.stream(spark, f"{job.source}/{s}", schema) for s, schema in events.SCHEMAS.items()}
    return {"headgate": ours.start, "native": native.start}[job.system](streams, job)


def refused(spark: SparkSession, query: str, source: Path, work: Path) -> str:
    """Why Spark refuses a query as a stream, in its words; its answer for a batch of all events
    is in `work` afterwards.
    """
    from pyspark.errors import AnalysisException

    from headgate_lab.bench.nexmark import native

    job = _job(query, source, 0, "hdfs", str(work))
    try:
        start(spark, job).stop()
    except AnalysisException as error:
        tables = {s: spark.read.schema(d).parquet(f"{source}/{s}") for s, d in events.SCHEMAS.items()}
        native.TWINS[query](tables).write.parquet(f"{work}/out/batch=0")
        return str(error).splitlines()[0]
    raise HeadgateError(f"Spark runs {query} as a stream by now: take it out of REFUSED, and measure it")


def _job(query: str, source: Path, batches: int, store: str = "", work: str = "") -> Job:
    system = "native" if store else "headgate"
    return Job(
        job_name(query, store),
        system,
        query,
        str(source),
        batches,
        work,
        store=store,
        closing=events.CLOSING,
    )


def _compare(query: str, work: Path, refusal: str) -> Compared:
    asked = QUERIES[query]
    ours, native = (answers.read(folder_of(job_name(query, s), work) / "out", asked) for s in ("", "hdfs"))
    return Compared(native.num_rows, answers.differing(ours, native), refusal)


def report(
    times: Times,
    compared: Mapping[str, Compared],
    sizes: NexmarkSizes,
    *,
    where: dict[str, object],
    quick: bool,
) -> Report:
    """Rates, ratios against the faster native store, and rows that differ."""
    results, goals = {}, []
    for query, asked in QUERIES.items():
        title, rows = f"{query}: {asked.title}", asked.rows(sizes.events)
        results[query] = versus.result(query, title, rows, times, sizes.stores)
        goals.append(Goal(f"{title}: rows that differ", 0, compared[query].differing, at_most=True, unit=""))
    every = tuple(results.values())
    return Report(
        "nexmark",
        every,
        tuple(goals),
        machine=where,
        quick=quick,
        shown=_table(every, list(compared.values()), quick=quick),
        picture=versus.picture(results),
    )


def _table(results: Sequence[Result], compared: Sequence[Compared], *, quick: bool) -> Grid:
    grid = Grid(title=f"bench nexmark{' (quick)' if quick else ''}", title_justify="left")
    grid.add_column("query", overflow="fold")
    for head in ("rows/s", "native's", "ratio", "answers", "differ"):
        grid.add_column(head, justify="right", no_wrap=True)
    grid.add_column("native twin", overflow="fold")
    for result, same in zip(results, compared, strict=True):
        rival = ("", "") if result.ratio is None else (f"{result.rival_value:,.0f}", f"{result.ratio:.2f}x")
        twin = same.refusal or (result.rival or "").split(", native ")[-1]
        grid.add_row(
            result.name, f"{result.value:,.0f}", *rival, f"{same.rows:,}", f"{same.differing:,}", Text(twin)
        )
    return grid
