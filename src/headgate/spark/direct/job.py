"""The Spark job of a direct batch: map tasks read ranges and send a blob to each channel, then one
task for each channel does the work. In a small batch every channel reads all ranges for itself.

With one executor it is a job on RDDs, which needs no query plan. With several, each channel has to
return to its executor (`anchor`), and Spark Connect has no RDDs: there it is a job on DataFrames.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.errors import HeadgateError
from headgate.spark.anchor import CHANNEL, Anchor, executors
from headgate.spark.job import REPORT, answered, failed, reports, worked
from headgate.spark.session import is_connect
from headgate.stage.answer import Answer
from headgate.stage.engine import Watch
from headgate.stage.task import Task
from headgate.streams.map_task import MapTask, unpacked
from headgate.streams.planned import InputRange

Tasks = list[list[tuple[int, InputRange]]]
"""The ranges of each map task, with their numbers."""


class DirectJob:
    """Runs the job of a batch, in the way that fits the session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._anchor = spark, Anchor()
        self._connect = is_connect(spark)
        self._numbers: dict[int, RDD[int]] = {}
        """The numbers of map tasks as an RDD, by how many there are: making one takes calls to the JVM."""

    def run(self, map_task: MapTask, ranges: Tasks, task: Task, watch: Watch) -> list[Answer]:
        """The answers of the channels, in order. An error that a task raised is raised here
        with the same type and message.
        """
        ranges = ranges or [[]]
        if self._connect or executors(self._spark) > 1:
            return self._on_frames(MapWork(map_task, ranges), task, watch)
        return answered(self._on_rdds(MapWork(map_task, ranges), task, watch), task)

    def run_alone(
        self, map_task: MapTask, ranges: Sequence[InputRange], task: Task, watch: Watch
    ) -> list[Answer]:
        """The same without an exchange: every channel reads all ranges and keeps its own rows."""
        spark, channels, work = (
            self._spark,
            task.table.channels,
            LoneWork(map_task, tuple(ranges), task, watch),
        )
        if not self._connect and executors(spark) == 1:
            return answered(
                _collected(self._numbered(channels).mapPartitionsWithIndex(work.answers), task), task
            )

        def tasks(anchor: DataFrame | None) -> DataFrame:
            numbers = spark.range(0, channels, 1, channels) if anchor is None else anchor.select(CHANNEL)
            return numbers.mapInArrow(work.reports, REPORT)

        return self._observed(reports(spark, self._anchor, channels, tasks, batch=task.batch), task)

    def _numbered(self, count: int) -> RDD[int]:
        if count not in self._numbers:
            self._numbers[count] = self._spark.sparkContext.parallelize(range(count), count)
        return self._numbers[count]

    def _on_rdds(self, work: MapWork, task: Task, watch: Watch) -> list[dict[str, Any]]:
        numbers = self._numbered(len(work.ranges))
        blobs = numbers.mapPartitionsWithIndex(work.pairs, preservesPartitioning=True)
        routed = blobs.partitionBy(task.table.channels, _channel)
        answers = routed.mapPartitions(ChannelWork(task, watch).answers, preservesPartitioning=True)
        return _collected(answers, task)

    def _on_frames(self, work: MapWork, task: Task, watch: Watch) -> list[Answer]:
        spark, channels, count = self._spark, task.table.channels, len(work.ranges)

        def tasks(anchor: DataFrame | None) -> DataFrame:
            numbers = spark.range(0, count, 1, count)
            blobs = numbers.mapInArrow(work.rows, f"{CHANNEL} int, blob binary")
            routed = blobs.repartitionById(channels, F.col(CHANNEL))
            if anchor is not None:
                routed = routed.join(anchor.hint("shuffle_hash"), CHANNEL).select("blob")
            else:
                routed = routed.select("blob")
            return routed.mapInArrow(ChannelWork(task, watch).reports, REPORT)

        return self._observed(reports(spark, self._anchor, channels, tasks, batch=task.batch), task)

    def _observed(self, received: list[dict[str, Any]], task: Task) -> list[Answer]:
        answers = answered(received, task)
        self._anchor.observe([answer.executor for answer in answers])
        return answers


def _collected(answers: RDD[dict[str, Any]], task: Task) -> list[dict[str, Any]]:
    try:
        return list(answers.collect())
    except HeadgateError:
        raise
    except Exception as error:
        raise failed(task.batch, error) from error


def _channel(channel: int) -> int:
    return channel


@dataclass(frozen=True)
class MapWork:
    """The map side in a Python worker."""

    task: MapTask
    ranges: Tasks

    def pairs(self, number: int, _: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        """Channels and blobs."""
        return self.task.run(self.ranges[number])

    def rows(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Channels and blobs as rows."""
        for number in (number for batch in numbers for number in batch.column(0).to_pylist()):
            for channel, blob in self.task.run(self.ranges[number]):
                yield pa.RecordBatch.from_arrays(
                    [pa.array([channel], pa.int32()), pa.array([blob], pa.binary())], [CHANNEL, "blob"]
                )


@dataclass(frozen=True)
class ChannelWork:
    """The channel's side in a Python worker."""

    task: Task
    watch: Watch

    def answers(self, pairs: Iterable[tuple[int, bytes]]) -> Iterator[dict[str, Any]]:
        """The answer, or the error, as JSON values."""
        yield worked(self.task, self.watch, unpacked(blob for _, blob in pairs))

    def reports(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same as a row of JSON."""
        blobs = (blob.as_buffer() for batch in batches for blob in batch.column(0))
        answer = worked(self.task, self.watch, unpacked(blobs))
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(answer)]})


@dataclass(frozen=True)
class LoneWork:
    """The work of a channel that reads its rows itself."""

    map_task: MapTask
    ranges: tuple[InputRange, ...]
    task: Task
    watch: Watch

    def answers(self, channel: int, _: Iterable[int]) -> Iterator[dict[str, Any]]:
        """The answer, or the error, as JSON values."""
        yield worked(self.task, self.watch, self.map_task.parcels(self.ranges, channel))

    def reports(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same as a row of JSON."""
        for channel in [channel for batch in batches for channel in batch.column(0).to_pylist()]:
            for answer in self.answers(channel, ()):
                yield pa.RecordBatch.from_pydict({"report": [json.dumps(answer)]})
