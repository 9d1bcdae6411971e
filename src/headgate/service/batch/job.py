"""The job of a batch on Spark: rows to the servers that want them, one task for each server, one report from each.

Planned rows are read and sent in Arrow (`sending`). With one executor that is a job on RDDs, which needs no query plan.
With several, a server has to return to its executor (`anchor`), and the job is on DataFrames of blobs. Rows that Spark
computes, those of a stream with a `select`, go through a query plan as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import RDD, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.errors import HeadgateError, TaskFailed
from headgate.service.batch.careful import WorkerDied
from headgate.service.batch.ranges import PlannedRows
from headgate.service.batch.report import JobReport, ServerReport
from headgate.service.batch.sending import Sender, received
from headgate.service.batch.task import ServerTask
from headgate.service.snapshot import HostingSnapshot
from headgate.spark.anchor import CHANNEL, Anchor, Seating, executors
from headgate.spark.groups import BLOBS, REPORT
from headgate.spark.inside import stage_name
from headgate.spark.job import failed, reports
from headgate.spark.shuffle import carried


class SparkJob:
    """Runs the tasks of a batch. Where there are several executors, a server stays on the one it was on."""

    def __init__(self) -> None:
        self._anchor = Anchor()
        self._numbers: dict[int, RDD[int]] = {}
        """The numbers of tasks as an RDD, by how many there are."""

    def __call__(
        self, rows: DataFrame | PlannedRows, snapshot: HostingSnapshot, task: ServerTask
    ) -> JobReport:
        """Run one job; the reports are in the order of the servers."""
        spark = rows.sparkSession
        group = f"headgate-{task.run}-{task.batch}"
        spark.sparkContext.setJobGroup(group, f"headgate service, batch {task.batch}")
        task = replace(task, killable=True)
        try:
            bodies = self._bodies(spark, rows, snapshot, task)
        except TaskFailed as error:
            if _worker_died(error.__cause__):
                raise WorkerDied(str(error)) from error.__cause__
            raise
        servers = sorted(map(ServerReport.from_json, bodies), key=lambda report: report.server)
        self._anchor.observe([report.executor for report in servers])
        shuffle = carried(spark, group)
        planned = isinstance(rows, PlannedRows)  # then the shuffle carries blobs
        return JobReport(servers, sum(one.rows for one in servers) if planned else shuffle.rows, shuffle.size)

    def _bodies(
        self,
        spark: SparkSession,
        rows: DataFrame | PlannedRows,
        snapshot: HostingSnapshot,
        task: ServerTask,
    ) -> list[dict[str, Any]]:
        if not isinstance(rows, PlannedRows):
            return self._on_frames(
                spark, snapshot, task, lambda anchor: _answered(deliver(rows, snapshot, anchor), task)
            )
        reads = [partial(reader.read, n) for reader in rows.readers for n in range(len(reader.tasks))]
        sender = Sender.of(reads, snapshot.servers_of_source, snapshot.servers, task.row_schema)
        if executors(spark) == 1:
            return self._on_rdds(spark, snapshot, task, sender)

        def blobs(anchor: Seating | None) -> DataFrame:
            count = max(1, len(reads))
            sent = spark.range(0, count, 1, count).mapInArrow(BlobsOfNumbers(sender), BLOBS)
            routed = sent.repartitionById(snapshot.servers, F.col(CHANNEL))
            placed = routed if anchor is None else anchor.joined(routed)
            return placed.select("blob").mapInArrow(ReportOfBlobs(task), REPORT)

        return self._on_frames(spark, snapshot, task, blobs)

    def _on_frames(
        self, spark: SparkSession, snapshot: HostingSnapshot, task: ServerTask, tasks: Any
    ) -> list[dict[str, Any]]:
        return reports(spark, self._anchor, snapshot.servers, tasks, batch=task.batch, again="service")

    def _on_rdds(
        self, spark: SparkSession, snapshot: HostingSnapshot, task: ServerTask, sender: Sender
    ) -> list[dict[str, Any]]:
        context, count = spark.sparkContext, max(1, len(sender.reads))
        if count not in self._numbers:
            self._numbers[count] = context.parallelize(range(count), count)
        try:
            with stage_name(spark, f"headgate: rows of batch {task.batch}", building=True):
                sent = self._numbers[count].mapPartitionsWithIndex(
                    lambda number, _: sender.sent(number), preservesPartitioning=True
                )
                routed = sent.partitionBy(snapshot.servers, _server)
            with stage_name(spark, f"headgate: servers of batch {task.batch}"):
                every = list(range(snapshot.servers))
                return list(context.runJob(routed, partial(_answers, task), every))
        except HeadgateError:
            raise
        except Exception as error:
            raise failed(task.batch, error, "service") from error


@dataclass(frozen=True)
class BlobsOfNumbers:
    """The function of `mapInArrow` that sends: each number stands for the ranges of a task."""

    sender: Sender

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in [number for batch in numbers for number in batch.column(0).to_pylist()]:
            for server, blob in self.sender.sent(number):
                columns = [pa.array([server], pa.int32()), pa.array([blob], pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, [CHANNEL, "blob"])


@dataclass(frozen=True)
class ReportOfBlobs:
    """The function of `mapInArrow` that runs the task of a partition's server."""

    task: ServerTask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        blobs = (blob.as_buffer() for batch in batches for blob in batch.column(0))
        yield _report(_worked(self.task, received(blobs)))


@dataclass(frozen=True)
class ReportOfRows:
    """The same for rows that were not packed."""

    task: ServerTask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield _report(_worked(self.task, batches))


def _answers(task: ServerTask, pairs: Iterable[tuple[int, bytes]]) -> Iterator[dict[str, Any]]:
    yield _worked(task, received(blob for _, blob in pairs))


def _answered(sent: DataFrame, task: ServerTask) -> DataFrame:
    return sent.mapInArrow(ReportOfRows(task), REPORT)


def _worked(task: ServerTask, rows: Iterable[pa.RecordBatch]) -> dict[str, Any]:
    """Do the work of this partition's server."""
    context = TaskContext.get()
    assert context is not None
    return task.run_server(rows, context.partitionId(), context.taskAttemptId())


def _report(body: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"report": [json.dumps(body)]})


def _server(server: int) -> int:
    return server


def _worker_died(error: BaseException | None) -> bool:
    """Whether a job failed because a Python worker ended, or the executor around it: so Spark words it."""
    text = str(error)
    return any(words in text for words in ("Python worker exited unexpectedly", "ExecutorLostFailure"))


def deliver(df: DataFrame, snapshot: HostingSnapshot, anchor: Seating | None = None) -> DataFrame:
    """Send each row once to every server that hosts a computation over its source; drop rows that nobody reads."""
    columns = ["source", "time", *snapshot.slots]
    lists = json.dumps([list(servers) for servers in snapshot.servers_of_source])
    servers = F.get(F.from_json(F.lit(lists), "array<array<int>>"), F.col("source"))
    sent = df.select(*columns, F.explode(servers).alias(CHANNEL))
    sent = sent.repartitionById(snapshot.servers, F.col(CHANNEL))
    if anchor is not None:
        sent = anchor.joined(sent)  # a server is on the seat of its number
    return sent.select(*columns)
