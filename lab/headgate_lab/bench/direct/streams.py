"""The direct way: the works of the bench as direct streams, durable, writing Parquet.

Operators and kernels are those of the `foreachBatch` way. Queries 7 and 8 compute the start of their window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headgate.operators import agg
from headgate.sources.source import Demand, Ranges, Source
from headgate.stage import sinks
from headgate.stage.settings import Routing
from headgate.storage.store import Store
from headgate_lab.bench import data
from headgate_lab.bench.direct.task import Task
from headgate_lab.bench.job import CORES
from headgate_lab.bench.nexmark import events, ours
from headgate_lab.bench.nexmark.events import LONGEST_US
from headgate_lab.bench.nexmark.queries import CATEGORY, DELAY, LOCAL, PROPORTIONS, QUERIES, SIZE
from headgate_lab.bench.ours import OPERATORS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headgate.spark.direct.query import Query
    from headgate.spark.direct.stream import Keyed, Stream

WINDOW_S = 10


def schema_of(task: Task) -> str:
    """The columns of a task's files."""
    found = data.TIMED if task.timed else data.SCHEMA
    return found.replace("user long", "user string") if task.strings else found


def start(spark: SparkSession, task: Task) -> Query:
    """The direct stream of a task, over all of its input."""
    from headgate.spark.direct.read import read

    if task.operator in QUERIES:
        results, most = NEXMARK[task.operator](_nexmark_streams(spark, task)), None
    else:
        rows = read(spark).files(task.source, schema=schema_of(task), format="parquet")
        results, most = _by(rows, "user").apply(OPERATORS[task.operator]), task.rows
    written = results.write(sinks.Parquet(f"{task.work}/out"))
    return written.start(checkpoint=f"{task.work}/direct", available_now=True, max_rows=most)


def _by(rows: Stream, *key: str) -> Keyed:
    return rows.key_by(*key, routing=Routing(channels=CORES))


class Portions(Source):
    """Files of which each batch takes as many rows as are listed, and afterwards one row: the streams
    of a join have batches of different sizes, and `max_rows` gives all the same.
    """

    def __init__(self, files: Source, rows: Sequence[int]) -> None:
        self.files, self.rows = files, tuple(rows)

    def __repr__(self) -> str:
        return repr(self.files)

    def __copy__(self) -> Portions:
        import copy

        return Portions(copy.copy(self.files), self.rows)

    def schema(self) -> pa.Schema:
        return self.files.schema()

    def identity(self) -> dict[str, Any]:
        return self.files.identity()

    def open(self, store: Store) -> None:
        self.files.open(store)

    def plan(self, offset: Any, demand: Demand) -> Ranges:
        number = 0 if offset is None else offset["file"] // data.FILES_PER_BATCH
        rows = self.rows[number] if number < len(self.rows) else 1
        return self.files.plan(offset, replace(demand, rows=rows))

    @property
    def rows_read_again(self) -> int:
        return self.files.rows_read_again

    def read(self, what: Any) -> Iterator[pa.RecordBatch]:
        return self.files.read(what)

    def only(self, columns: Sequence[str]) -> Portions:
        return Portions(self.files.only(columns), self.rows)


Streams = dict[str, "Stream"]


def _nexmark_streams(spark: SparkSession, task: Task) -> Streams:
    from headgate.spark.direct.read import read

    streams = {}
    batches = task.batches - task.closing
    for name, schema in events.SCHEMAS.items():
        files = read(spark).files(f"{task.source}/{name}", schema=schema, format="parquet").source
        assert isinstance(files, Source)
        rows = QUERIES[task.operator].rows(events.EPOCH)
        portion = task.rows // rows * PROPORTIONS[name]
        streams[name] = read(spark).source(Portions(files, [portion] * batches))
    return streams


WINDOW_START = (
    f"timestamp_micros(unix_micros(time) - unix_micros(time) % {WINDOW_S * 1_000_000}) AS window_start"
)


def _q3(streams: Streams) -> Stream:
    states = ", ".join(f"'{state}'" for state in LOCAL)
    local = streams["person"].where(f"state IN ({states})")
    persons = local.select("id AS seller", "name", "city", "state", "time")
    sold = streams["auction"].where(f"category = {CATEGORY}").select("seller", "id", "time")
    bound = {"before": ours.FOR_EVER, "after": ours.FOR_EVER, "delay": DELAY}
    return _by(persons, "seller").join(sold.key_by("seller"), time="time", **bound)


def _q4(streams: Streams) -> Stream:
    opened = streams["auction"].select("id AS auction", "category", "time", "expires")
    bids = streams["bid"].select("auction", "price", "time")
    bound = {"after": f"{LONGEST_US} us", "delay": DELAY}
    pairs = _by(opened, "auction").join(bids.key_by("auction"), time="time", **bound)
    best = _by(pairs.where("right_time <= left_expires"), "auction").apply(ours.winning)
    return _by(best, "category").aggregate(mean=agg.mean("price"))


def _q7(streams: Streams) -> Stream:
    bids = streams["bid"].select("auction", "bidder", "price", "time", WINDOW_START)
    return _by(bids, "window_start").apply(ours.highest)


def _q8(streams: Streams) -> Stream:
    key = ("id", "window_start")
    persons = streams["person"].select("id", "name", "time", WINDOW_START)
    sellers = streams["auction"].select("seller AS id", "time", WINDOW_START)
    bound = {"before": SIZE, "after": SIZE, "delay": DELAY}
    return _by(persons, *key).join(sellers.key_by(*key), "semi", time="time", **bound)


def _of_bids(query: str) -> Callable[[Streams], Stream]:
    """The steps of a query that begins with bids as they are."""

    def results(streams: Streams) -> Stream:
        rows: Stream = streams["bid"]
        for step in ours.STEPS[query]:
            key = (step.key,) if isinstance(step.key, str) else step.key
            rows = found = _by(rows, *key).apply(step.operator)
        return found

    return results


NEXMARK: dict[str, Callable[[Streams], Stream]] = {
    "q3": _q3,
    "q4": _q4,
    "q5": _of_bids("q5"),
    "q7": _q7,
    "q8": _q8,
    "q11": _of_bids("q11"),
    "q12": _of_bids("q12"),
    "q18": _of_bids("q18"),
}
