"""The Spark job of a batch: the exchange, then one task for each channel, which returns its answer."""

from __future__ import annotations

import json
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession

from headgate import errors
from headgate.errors import HeadgateError, TaskFailed
from headgate.spark.anchor import Anchor, Seating, this_executor
from headgate.spark.engine_error import gist, raised_in_task
from headgate.spark.exchange import Exchange
from headgate.spark.groups import BLOBS, REPORT, by_groups, packed_rows, unpacked_rows
from headgate.spark.inside import EMPTY_RELATION_RULE, EXCLUDED_RULES, can_place, task_attempt
from headgate.spark.session import conf
from headgate.stage.answer import Answer
from headgate.stage.engine import Watch
from headgate.stage.parcel import Parcel
from headgate.stage.task import Attempt, Task
from headgate.storage.bin_cache import BinCache

_one_task = threading.Lock()
"""A worker of Spark runs one task at a time. Other engines run them as threads, which would share one cache."""


@dataclass(frozen=True)
class ChannelWork:
    """The function of `mapInArrow`, which runs in a Python worker."""

    task: Task
    watch: Watch
    seats: tuple[int, ...] = ()
    """The partition of each channel; empty if it has the same number."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        answer = worked(self.task, self.watch, map(Parcel.of, batches), seats=self.seats)
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(answer)]})

    def of_group(self, channel: int, blobs: Iterable[bytes]) -> dict[str, Any]:
        """The same for a channel whose rows came as blobs."""
        return worked(self.task, self.watch, map(Parcel.of, unpacked_rows(blobs)), channel)


def worked(
    task: Task,
    watch: Watch,
    parcels: Iterator[Parcel],
    channel: int | None = None,
    seats: tuple[int, ...] = (),
) -> dict[str, Any]:
    """Do a channel's work in a Spark task; the answer, or the error that was raised, as JSON values. If
    no `channel` is given, it is the one whose seat is the task's partition.
    """
    partition, name = task_attempt()
    mine = channel
    if mine is None:
        assert partition is not None
        mine = seats.index(partition) if seats else partition
    try:
        with _one_task:
            cache = BinCache.of(task.stage, task.operator.layout)
            attempt = Attempt(task, mine, name, cache, watch, this_executor())
            return attempt.work(parcels).to_json()
    except HeadgateError as error:  # returned as data, so that the driver raises the same error
        return {"error": type(error).__name__, "message": str(error), "trace": traceback.format_exc()}


class ChannelJob:
    """Runs the tasks of the channels, each on the executor that it ran on before."""

    def __init__(self) -> None:
        self.anchor = Anchor()

    def run(self, df: DataFrame, exchange: Exchange, task: Task, watch: Watch) -> list[Answer]:
        """The answers of the channels, in order. An error that a task raised is raised here
        with the same type and message.
        """
        channels = task.table.channels

        def tasks(anchor: Seating | None) -> DataFrame:
            work = ChannelWork(task, watch, () if anchor is None else anchor.seats)
            return exchange.routed(df, task.table, anchor).mapInArrow(work, REPORT)

        def grouped() -> DataFrame:
            blobs = exchange.sent(df, task.table).mapInArrow(packed_rows, BLOBS)
            return by_groups(blobs, channels, ChannelWork(task, watch).of_group)

        received = reports(df.sparkSession, self.anchor, channels, tasks, batch=task.batch, grouped=grouped)
        answers = answered(received, task)
        self.anchor.observe([answer.executor for answer in answers])
        return answers


def answered(received: list[dict[str, Any]], task: Task) -> list[Answer]:
    """The answers of all channels in order; an error that a task returned is raised."""
    for report in received:
        if "error" in report:
            raise getattr(errors, report["error"])(report["message"])
    answers = sorted(map(Answer.from_json, received), key=lambda answer: answer.channel)
    came_from, channels = [answer.channel for answer in answers], task.table.channels
    if came_from != list(range(channels)):
        raise TaskFailed(f"batch {task.batch}: {channels} channels, but reports came from {came_from}")
    return answers


def reports(
    spark: SparkSession,
    anchor: Anchor,
    count: int,
    tasks: Callable[[Seating | None], DataFrame],
    *,
    batch: int,
    again: str = "query",
    grouped: Callable[[], DataFrame] | None = None,
) -> list[dict[str, Any]]:
    """The reports of `count` tasks, each of which returns one row of JSON. `tasks` makes
    their DataFrame, given the anchor; `grouped` makes it for an engine that cannot send rows to partitions.
    """
    # Adaptive planning cannot improve the exchange, and it takes time.
    with conf(spark, {"spark.sql.adaptive.enabled": "false"}):
        try:
            bound = anchor.prepare(spark, count)
            rows = _collected(spark, lambda: tasks(bound), grouped)
            if not rows:
                # The optimizer saw that there is no input, and removed the tasks. But
                # they may have other work to do.
                excluded = filter(None, [spark.conf.get(EXCLUDED_RULES, None), EMPTY_RELATION_RULE])
                with conf(spark, {EXCLUDED_RULES: ",".join(excluded)}):
                    rows = tasks(bound).collect()
        except HeadgateError:
            raise
        except Exception as error:
            raise failed(batch, error, again) from error
    return [json.loads(row.report) for row in rows]


def _collected(
    spark: SparkSession, placed: Callable[[], DataFrame], grouped: Callable[[], DataFrame] | None
) -> list[Any]:
    if grouped is not None and not can_place(spark):
        return list(grouped().collect())
    try:
        return list(placed().collect())
    except UnsupportedOperationException:
        if grouped is None or can_place(spark, tried=True):
            raise
        return list(grouped().collect())


def failed(batch: int, error: Exception, again: str = "query") -> HeadgateError:
    """The error of a batch whose Spark job failed."""
    return raised_in_task(error) or TaskFailed(
        f"batch {batch} failed in Spark and nothing of it was committed: {gist(error)}. "
        f"Fix the cause and start the {again} again"
    )
