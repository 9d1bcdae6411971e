"""Spark as the engine of a direct stream: rows are planned ranges, which map tasks read."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from headgate.errors import MissingColumn, UnsupportedType
from headgate.operators.base import BoundOperator
from headgate.routing.column_hash import key_hashes
from headgate.spark.clock import RealTime
from headgate.spark.direct.job import DirectJob
from headgate.spark.engine import SparkEngine
from headgate.spark.job_names import JobNames
from headgate.stage.answer import Answer
from headgate.stage.engine import Watch
from headgate.stage.settings import Expansion
from headgate.stage.sinks import Output
from headgate.stage.task import Task
from headgate.stage.waves import Waves
from headgate.state.keys import KeySpec
from headgate.state.lanes import PLAIN
from headgate.state.payload import Payload
from headgate.storage.store import Store
from headgate.streams.held_rows import HeldRows
from headgate.streams.map_task import MapTask, read_schema, sent_schema
from headgate.streams.planned import Planned, read_by_channels, split_tasks


class DirectEngine:
    """Runs the work of a stage on planned ranges (`headgate.stage.engine.Engine`). The build side of a
    join is a DataFrame, which goes the way of DataFrames.
    """

    def __init__(self, spark: SparkSession, tasks: int, watch: Watch | None = None) -> None:
        """`tasks` is how many map tasks may run at a time."""
        self.watch: Watch = watch or RealTime()
        self._spark, self._tasks = spark, tasks
        self._frames = SparkEngine(self.watch, spark)
        self._job, self._names = DirectJob(spark), JobNames(spark)

    def now(self) -> float:
        """Seconds since an arbitrary moment, on the driver."""
        return time.perf_counter()

    def columns(self, rows: Planned | DataFrame, key: tuple[str, ...]) -> pa.Schema:
        """The columns as operators see them."""
        if isinstance(rows, Planned):
            check_key(rows.schema, key)
            return rows.schema
        return self._frames.columns(rows, key)

    def describe(self, rows: Planned | DataFrame) -> str:
        """The schema in Arrow's form, as text."""
        assert isinstance(rows, Planned)
        return base64.b64encode(rows.schema.serialize().to_pybytes()).decode()

    def nothing(self, columns: str) -> Planned:
        """No ranges."""
        return Planned(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(columns))))

    def count(self, rows: Planned | DataFrame) -> int | None:
        """Unknown: only a stage's own output is delivered again, and its files have checksums."""
        return None

    def hashes(self, keys: pa.RecordBatch, key: KeySpec) -> NDArray[np.int64]:
        """Spark's hash of each of these keys."""
        return key_hashes(keys, key)

    def prepared(self, operator: BoundOperator) -> BoundOperator:
        """The operator that takes rows which map tasks have combined, if it can be combined."""
        return operator.combined() or operator

    def routed(self, operator: BoundOperator, columns: pa.Schema, rows: Planned | DataFrame) -> pa.Schema:
        """The columns that a channel's task receives."""
        if not isinstance(rows, Planned):
            return self._frames.routed(operator, columns, rows)
        return sent_schema(operator, columns)

    def run(self, rows: Planned | DataFrame, task: Task) -> list[Answer]:
        """One job: map tasks, then a task for each channel."""
        if not isinstance(rows, Planned):
            return self._frames.run(rows, task)
        self._names.batch(task, rows.rows)
        operator = task.operator
        pruned = rows.only(frozenset(read_schema(operator, rows.schema).names))
        holds = HeldRows.of(task)
        map_task = MapTask(pruned.inputs, rows.schema, operator, task.rows, task.table, task.clock, holds)
        if read_by_channels(pruned, task.table.channels):
            return self._job.run_alone(map_task, rows.ranges, task, self.watch)
        split = split_tasks(rows.ranges, self._tasks, rows.worth_a_task)
        return self._job.run(map_task, split, task, self.watch)

    def places(self, near: Sequence[str]) -> list[str]:
        """The executors of the channels, for which an anchor is made; empty if there is only one."""
        return self._job.anchor.places(self._spark, near)

    def emitted(self, schema: pa.Schema) -> pa.Schema:
        """The schema of output files."""
        return self._frames.emitted(schema)

    def frame(self, output: Output) -> DataFrame:
        """The rows of output files."""
        return self._frames.frame(output)

    def waves(self, gates: Sequence[Expansion], store: Store) -> Waves[Any]:
        """A gate cuts DataFrames, so a stage with a gate has another engine (`SparkEngine`)."""
        raise NotImplementedError("a direct stream with a gate runs on DataFrames")

    def build_rows(self, rows: DataFrame, on: tuple[str, ...], key: tuple[str, ...]) -> DataFrame:
        """Build rows with the stage's names for the key columns."""
        return self._frames.build_rows(rows, on, key)

    def save(self, rows: DataFrame, store: Store, folder: str) -> None:
        """Write build rows."""
        self._frames.save(rows, store, folder)

    def load(self, store: Store, folder: str) -> DataFrame | None:
        """Read what `save` wrote; None if it did not finish."""
        return self._frames.load(store, folder)


def check_key(schema: pa.Schema, key: tuple[str, ...]) -> None:
    """Refuse a key column that is missing, or whose type cannot be a key."""
    for name in key:
        if name not in schema.names:
            raise MissingColumn(
                f"key column {name!r} is not in the stream, which has {', '.join(map(repr, schema.names))}; name one of these in key_by"
            )
        kind = schema.field(name).type
        if isinstance(kind, Payload) or pa.types.is_null(kind):
            raise UnsupportedType(
                f"key column {name!r} has type {kind}, which cannot be a key; take a part of it, or cast it to {PLAIN}"
            )
