"""Spark as the engine of a stage: rows are DataFrames, a batch is one job."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from headgate.operators.base import BoundOperator
from headgate.routing.column_hash import key_hashes
from headgate.spark.clock import RealTime
from headgate.spark.exchange import Exchange, quoted
from headgate.spark.gates.waves import SparkWaveEngine
from headgate.spark.job import ChannelJob
from headgate.spark.job_names import JobNames
from headgate.spark.paths import literal
from headgate.spark.types import arrow_schema, emitted_schema, spark_schema
from headgate.stage.answer import Answer
from headgate.stage.engine import Watch
from headgate.stage.routed_rows import routed_schema
from headgate.stage.settings import Expansion
from headgate.stage.sinks import Output
from headgate.stage.task import Task
from headgate.stage.waves import Waves
from headgate.state.conform import conform_table
from headgate.state.keys import KeySpec
from headgate.storage.store import Store


class SparkEngine:
    """Runs the work of a stage as ordinary Spark jobs (`headgate.stage.engine.Engine`)."""

    def __init__(
        self,
        watch: Watch | None = None,
        spark: SparkSession | None = None,
        names: JobNames | None = None,
    ) -> None:
        """`spark` is the session; by default it is the one that is active. With `names`, jobs get names; those of a
        streaming query of Spark's have some already.
        """
        self.watch: Watch = watch or RealTime()
        self._spark, self._names = spark, names
        self._job = ChannelJob()
        self._exchange: Exchange | None = None

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self._spark or SparkSession.active()

    def now(self) -> float:
        """Seconds since an arbitrary moment, on the driver."""
        return time.perf_counter()

    def columns(self, rows: DataFrame, key: tuple[str, ...]) -> pa.Schema:
        """The columns as operators see them."""
        return arrow_schema(rows.schema, key=key)

    def describe(self, rows: DataFrame) -> str:
        """The schema in Spark's JSON form."""
        return str(rows.schema.json())

    def nothing(self, columns: str) -> DataFrame:
        """An empty DataFrame."""
        schema = T.StructType.fromJson(json.loads(columns))
        return self.spark.createDataFrame([], schema)

    def count(self, rows: DataFrame) -> int:
        """How many rows there are."""
        return int(rows.count())

    def hashes(self, keys: pa.RecordBatch, key: KeySpec) -> NDArray[np.int64]:
        """Spark's hash of each of these keys."""
        return key_hashes(keys, key)

    def prepared(self, operator: BoundOperator) -> BoundOperator:
        """The operator itself."""
        return operator

    def routed(self, operator: BoundOperator, columns: pa.Schema, rows: DataFrame) -> pa.Schema:
        """The columns that a channel's task receives."""
        return routed_schema(operator, columns)

    def run(self, rows: DataFrame, task: Task) -> list[Answer]:
        """One job: exchange, then a task for each channel."""
        if self._names is not None:
            self._names.batch(task, 0)
        if self._exchange is None or self._exchange.operator is not task.operator:
            self._exchange = Exchange(task.operator)
        return self._job.run(rows, self._exchange, task, self.watch)

    def places(self, near: Sequence[str]) -> list[str]:
        """The executors of the channels, for which an anchor is made; empty if there is only one."""
        return self._job.anchor.places(self.spark, near)

    def emitted(self, schema: pa.Schema) -> pa.Schema:
        """The schema of output files. It includes Spark's own schema where Arrow's
        types do not express everything.
        """
        return emitted_schema(schema)

    def frame(self, output: Output) -> DataFrame:
        """The rows of output files. Spark reads a local disk itself; for other stores it might need
        jars, so Python tasks read them.
        """
        spark, staged, files, schema = self.spark, output.store, output.files, output.schema
        declared = spark_schema(schema)
        if not files:
            return spark.createDataFrame([], declared)
        if staged.local:
            return spark.read.schema(declared).parquet(*(literal(staged, file.name) for file in files))

        def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number in (number for batch in numbers for number in batch.column(0).to_pylist()):
                table = pq.ParquetFile(io.BytesIO(staged.read(files[number].name))).read()
                yield from conform_table(table, schema).to_batches()

        return spark.range(0, len(files), 1, len(files)).mapInArrow(read, declared)

    def waves(self, gates: Sequence[Expansion], store: Store) -> Waves[DataFrame]:
        """The object that cuts micro-batches into waves."""
        return Waves(gates, store, SparkWaveEngine(lambda: self.spark, gates))

    def build_rows(self, rows: DataFrame, on: tuple[str, ...], key: tuple[str, ...]) -> DataFrame:
        """Build rows with the stage's names for the key columns. Rows with a null key
        are dropped: they match nothing.
        """
        values = [name for name in rows.columns if name not in on]
        renamed = [quoted(name).alias(mine) for name, mine in zip(on, key, strict=True)]
        return rows.select(*renamed, *(quoted(name) for name in values)).dropna(subset=list(key))

    def save(self, rows: DataFrame, store: Store, folder: str) -> None:
        """Write Parquet. A `_SUCCESS` file says that the folder is complete; Spark adds it, if its settings
        say so, and other engines do not.
        """
        rows.write.parquet(store.fs.unstrip_protocol(store.path(folder)))
        if not store.exists(f"{folder}/_SUCCESS"):
            store.replace(f"{folder}/_SUCCESS", b"")

    def load(self, store: Store, folder: str) -> DataFrame | None:
        """Read what `save` wrote; None if it did not finish."""
        if not store.exists(f"{folder}/_SUCCESS"):
            return None
        return self.spark.read.parquet(literal(store, folder))
