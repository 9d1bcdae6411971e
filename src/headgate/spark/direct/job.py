"""The Spark job of a direct batch: map tasks read ranges and send a blob to each channel, then one
task for each channel does the work. In a small batch every channel reads all ranges for itself.

With one executor it is a job on RDDs, which needs no query plan. With several, each channel has to
return to its executor (`anchor`), and Spark Connect has no RDDs: there it is a job on DataFrames.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.errors import HeadgateError
from headgate.spark.anchor import CHANNEL, Anchor, Seating, executors
from headgate.spark.groups import BLOBS, REPORT, by_groups
from headgate.spark.inside import stage_name, task_attempt
from headgate.spark.job import answered, failed, reports, worked
from headgate.spark.job_names import stage_names
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
        self._spark, self.anchor = spark, Anchor()
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
            _, name = stage_names(task, 0)
            alone = self._numbered(channels).mapPartitionsWithIndex(work.answers)
            return answered(self._collected(alone, _same, task, name), task)

        def tasks(anchor: Seating | None) -> DataFrame:
            if anchor is None:
                return spark.range(0, channels, 1, channels).mapInArrow(work.reports, REPORT)
            seats = replace(work, seats=anchor.seats)
            return anchor.frame.select(CHANNEL).mapInArrow(seats.reports, REPORT)

        return self._observed(reports(spark, self.anchor, channels, tasks, batch=task.batch), task)

    def _numbered(self, count: int) -> RDD[int]:
        if count not in self._numbers:
            self._numbers[count] = self._spark.sparkContext.parallelize(range(count), count)
        return self._numbers[count]

    def _on_rdds(self, work: MapWork, task: Task, watch: Watch) -> list[dict[str, Any]]:
        numbers = self._numbered(len(work.ranges))
        reading, working = stage_names(task, len(work.ranges))
        with stage_name(self._spark, reading, building=True):
            blobs = numbers.mapPartitionsWithIndex(work.pairs, preservesPartitioning=True)
            routed = blobs.partitionBy(task.table.channels, _channel)
        return self._collected(routed, ChannelWork(task, watch).answers, task, working)

    def _collected(
        self, rows: RDD[Any], function: Callable[[Iterable[Any]], Iterable[Any]], task: Task, name: str
    ) -> list[dict[str, Any]]:
        """What a function makes of the partition of each channel."""
        try:
            with stage_name(self._spark, name):
                return list(self._spark.sparkContext.runJob(rows, function, list(range(task.table.channels))))
        except HeadgateError:
            raise
        except Exception as error:
            raise failed(task.batch, error) from error

    def _on_frames(self, work: MapWork, task: Task, watch: Watch) -> list[Answer]:
        spark, channels, count = self._spark, task.table.channels, len(work.ranges)

        def tasks(anchor: Seating | None) -> DataFrame:
            seats = () if anchor is None else anchor.seats
            numbers = spark.range(0, count, 1, count)
            blobs = numbers.mapInArrow(replace(work, seats=seats).rows, BLOBS)
            routed = blobs.repartitionById(channels, F.col(CHANNEL))
            placed = routed if anchor is None else anchor.joined(routed)
            return placed.select("blob").mapInArrow(ChannelWork(task, watch, seats).reports, REPORT)

        def grouped() -> DataFrame:
            blobs = spark.range(0, count, 1, count).mapInArrow(work.rows, BLOBS)
            return by_groups(blobs, channels, ChannelWork(task, watch).of_group)

        received = reports(spark, self.anchor, channels, tasks, batch=task.batch, grouped=grouped)
        return self._observed(received, task)

    def _observed(self, received: list[dict[str, Any]], task: Task) -> list[Answer]:
        answers = answered(received, task)
        self.anchor.observe([answer.executor for answer in answers])
        return answers


def _same(answers: Iterable[Any]) -> Iterable[Any]:
    return answers


def _channel(channel: int) -> int:
    return channel


@dataclass(frozen=True)
class MapWork:
    """The map side in a Python worker."""

    task: MapTask
    ranges: Tasks
    seats: tuple[int, ...] = ()

    def pairs(self, number: int, _: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        """Channels and blobs."""
        return self.task.run(self.ranges[number], task_attempt()[1])

    def rows(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The channels' seats and blobs as rows."""
        for number in (number for batch in numbers for number in batch.column(0).to_pylist()):
            for channel, blob in self.task.run(self.ranges[number], task_attempt()[1]):
                seat = self.seats[channel] if self.seats else channel
                yield pa.RecordBatch.from_arrays(
                    [pa.array([seat], pa.int32()), pa.array([blob], pa.binary())], [CHANNEL, "blob"]
                )


@dataclass(frozen=True)
class ChannelWork:
    """The channel's side in a Python worker."""

    task: Task
    watch: Watch
    seats: tuple[int, ...] = ()

    def answers(self, pairs: Iterable[tuple[int, bytes]]) -> Iterator[dict[str, Any]]:
        """The answer, or the error, as JSON values."""
        yield worked(self.task, self.watch, unpacked(blob for _, blob in pairs))

    def of_group(self, channel: int, blobs: Iterable[bytes]) -> dict[str, Any]:
        """The same for a channel that is not the task's partition."""
        return worked(self.task, self.watch, unpacked(blobs), channel)

    def reports(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same as a row of JSON."""
        blobs = (blob.as_buffer() for batch in batches for blob in batch.column(0))
        answer = worked(self.task, self.watch, unpacked(blobs), seats=self.seats)
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(answer)]})


@dataclass(frozen=True)
class LoneWork:
    """The work of a channel that reads its rows itself."""

    map_task: MapTask
    ranges: tuple[InputRange, ...]
    task: Task
    watch: Watch
    seats: tuple[int, ...] = ()

    def answers(self, channel: int, _: Iterable[int]) -> Iterator[dict[str, Any]]:
        """The answer, or the error, as JSON values."""
        yield worked(self.task, self.watch, self.map_task.parcels(self.ranges, channel), channel)

    def reports(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same as a row of JSON."""
        for seat in [seat for batch in batches for seat in batch.column(0).to_pylist()]:
            for answer in self.answers(self.seats.index(seat) if self.seats else seat, ()):
                yield pa.RecordBatch.from_pydict({"report": [json.dumps(answer)]})
