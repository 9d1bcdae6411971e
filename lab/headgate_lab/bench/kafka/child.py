"""The process that runs tasks: `python -m headgate_lab.bench.kafka.child`. It has one session, ours or native."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headgate.errors import HeadgateError
from headgate.operators import agg
from headgate.sources.source import Demand, Ranges, Source
from headgate.spark.local import failure_of, local_spark
from headgate.stage import sinks
from headgate.stage.settings import Routing
from headgate.stage.sink import Output
from headgate.storage.parquet_folder import RECORDS, Owner
from headgate.storage.store import Store
from headgate_lab.bench.job import CORES, serve
from headgate_lab.bench.kafka.broker import CONNECTOR, jars
from headgate_lab.bench.kafka.latency import Ends, appeared, ends_of, latencies
from headgate_lab.bench.kafka.task import Task
from headgate_lab.bench.native import STORES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Say = Callable[[dict[str, Any]], None]
SCHEMA = "user long, amount double"
CATCH_UP_S = 300.0
"""How long a way may take to show all records after the last was sent."""


class Noted(Source):
    """A source that notes where each batch ends."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.ends: list[Any] = []

    def __repr__(self) -> str:
        return repr(self.source)

    def __getstate__(self) -> dict[str, Any]:
        return {"source": self.source, "ends": []}

    def schema(self) -> pa.Schema:
        return self.source.schema()

    def identity(self) -> dict[str, Any]:
        return self.source.identity()

    def check(self) -> None:
        self.source.check()

    def open(self, store: Store) -> None:
        self.source.open(store)

    def plan(self, offset: Any, demand: Demand) -> Ranges:
        planned = self.source.plan(offset, demand)
        if planned.ranges:
            self.ends.append(planned.offset["at"])
        return planned

    @property
    def rows_read_again(self) -> int:
        return self.source.rows_read_again

    def read(self, what: Any) -> Iterator[pa.RecordBatch]:
        return self.source.read(what)

    def only(self, columns: Sequence[str]) -> Noted:
        return Noted(self.source.only(columns))


# -- ours


def _ours(spark: SparkSession, task: Task, **trigger: Any) -> tuple[Any, Noted]:
    from headgate.spark.direct.read import read

    source = Noted(read(spark).kafka(task.servers, task.source, schema=SCHEMA).source)  # type: ignore[arg-type]
    keyed = read(spark).source(source).key_by("user", routing=Routing(channels=CORES))
    counted = keyed.aggregate(n=agg.count(), total=agg.sum("amount"))
    written = counted.write(sinks.Parquet(f"{task.work}/out"))
    return written.start(checkpoint=f"{task.work}/direct", **trigger), source


def _our_backlog(spark: SparkSession, task: Task) -> list[float]:
    query, _ = _ours(spark, task, available_now=True, max_rows=task.rows)
    query.await_end()
    return [p.batch_ms for p in query.progress if p.rows]


def _our_batches(task: Task, source: Noted) -> tuple[list[Ends], list[Path]]:
    shown = sorted((Path(task.work) / "out" / RECORDS).glob("*.json"), key=lambda file: int(file.stem))
    ends = [ends_of(end[task.source]) for end in source.ends[: len(shown)]]
    return ends, shown[: len(ends)]


# -- native


def _native(spark: SparkSession, task: Task, **trigger: Any) -> Any:
    from pyspark.sql import functions as F

    for name, value in STORES[task.store].items():
        spark.conf.set(f"spark.sql.streaming.stateStore.{name}", value)
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", task.servers)
    reader = reader.option("subscribe", task.source).option("startingOffsets", "earliest")
    if task.rows:
        reader = reader.option("maxOffsetsPerTrigger", task.rows)
    rows = reader.load().select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("v")).select("v.*")
    counted = rows.groupBy("user").agg(F.count(F.lit(1)).alias("n"), F.sum("amount").alias("total"))
    writer = counted.writeStream.outputMode("update").option("checkpointLocation", f"{task.work}/spark")
    return (
        writer.foreachBatch(
            lambda batch, number: batch.write.mode("overwrite").parquet(f"{task.work}/out/batch={number}")
        )
        .trigger(**trigger)
        .start()
    )


def _native_backlog(spark: SparkSession, task: Task) -> list[float]:
    query = _native(spark, task, availableNow=True)
    query.awaitTermination()
    done = [p for p in query.recentProgress if p["numInputRows"]]
    return [float(p["durationMs"]["triggerExecution"]) for p in done]


def _native_batches(task: Task, query: Any) -> tuple[list[Ends], list[Path]]:
    ends, files = [], []
    for progress in query.recentProgress:
        file = Path(task.work) / "out" / f"batch={progress['batchId']}" / "_SUCCESS"
        if progress["numInputRows"] and file.exists():
            end: Any = progress["sources"][0]["endOffset"]
            ends.append(ends_of((json.loads(end) if isinstance(end, str) else end)[task.source]))
            files.append(file)
    return ends, files


# -- latency


def _latency(spark: SparkSession, task: Task) -> list[float]:
    """Run a query, and send records at a fixed rate. Writes `latency.npz`; returns how many batches there were."""
    found: Callable[[], tuple[list[Ends], list[Path]]]
    if task.system == "direct":
        query, source = _ours(spark, task)
        found = lambda: _our_batches(task, source)  # noqa: E731
    else:
        query = _native(spark, task, processingTime="0 seconds")
        found = lambda: _native_batches(task, query)  # noqa: E731
    times = Path(task.work) / "sent.npy"
    command = [sys.executable, "-m", "headgate_lab.bench.kafka.producer", task.servers, task.source]
    command += [str(task.partitions), str(task.rate), str(task.seconds), str(task.keys), str(times)]
    subprocess.run(command, check=True)
    sent = np.load(times)
    deadline = time.monotonic() + CATCH_UP_S
    while True:
        ends, files = found()
        if ends and sum(ends[-1].values()) >= len(sent):
            break
        if task.system == "native" and query.exception() is not None:
            raise failure_of(query, task.name) or HeadgateError(f"{task.name} ended")
        if task.system == "direct" and not query.is_active:
            query.await_end()
        if time.monotonic() > deadline:
            raise HeadgateError(f"{task.name}: not all records were shown {CATCH_UP_S:g} s after the last")
        time.sleep(0.2)
    query.stop()
    waited = latencies(sent, task.partitions, ends, appeared(files))
    np.savez(Path(task.work) / "latency.npz", sent=sent, waited=waited)
    return [float(len(ends))]


# -- the sink


@dataclass(frozen=True)
class Rows(Output):
    """The output of a batch, of rows that are at hand."""

    rows: pa.Table | None = None

    def table(self) -> pa.Table:
        assert self.rows is not None
        return self.rows


def _results(count: int) -> pa.Table:
    users = np.arange(count)
    return pa.table({"user": users, "n": users % 1000, "total": users / 4})


def _our_sink(task: Task) -> list[float]:
    """Publish batches, each a transaction; ms of each."""
    rows, owner = _results(task.rows), Owner(task.name.replace(" ", "-"), task.work)
    sink = sinks.Kafka(task.servers, task.source, key="user")
    sink.staging(Store(f"{task.work}/checkpoint"))
    sink.own(owner)
    times = []
    for batch in range(task.batches):
        output = Rows(batch, None, (), rows.schema, None, owner=owner, rows=rows)  # type: ignore[arg-type]
        began = time.perf_counter()
        sink.publish(output)
        times.append(1e3 * (time.perf_counter() - began))
    return times


def _native_sink(spark: SparkSession, task: Task) -> list[float]:
    """Write the same records with Spark's connector, which has no transactions; ms of each write."""
    from pyspark.sql import functions as F

    rows: DataFrame = spark.createDataFrame(_results(task.rows)).repartition(CORES).cache()
    rows.count()
    key = F.col("user").cast("string").alias("key")
    records = rows.select(key, F.to_json(F.struct("user", "n", "total")).alias("value"))
    writer = records.write.format("kafka").option("kafka.bootstrap.servers", task.servers)
    times = []
    for _ in range(task.batches):
        began = time.perf_counter()
        writer.option("topic", task.source).mode("append").save()
        times.append(1e3 * (time.perf_counter() - began))
    rows.unpersist()
    return times


def measure(spark: SparkSession, task: Task) -> list[float]:
    """What a task measures."""
    Path(task.work).mkdir(parents=True, exist_ok=True)
    if task.operator == "latency":
        return _latency(spark, task)
    if task.operator == "sink":
        return _our_sink(task) if task.system == "direct" else _native_sink(spark, task)
    return _our_backlog(spark, task) if task.system == "direct" else _native_backlog(spark, task)


def run(tasks: list[Task], say: Say) -> None:
    """All tasks in one session, which is native's if the tasks are."""
    ours = tasks[0].system != "native"
    conf = {
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
        "spark.sql.shuffle.partitions": str(CORES),  # the native twin at its best
    }
    if not ours:
        conf["spark.jars"] = ",".join(jars(*CONNECTOR, alone=True))
    with local_spark(CORES, tasks[0].log, conf, ours=ours) as spark:
        for task in tasks:
            say({"job": task.name, "batch": 0})
            say({"job": task.name, "times": measure(spark, task)})


if __name__ == "__main__":
    serve(Task, run)
