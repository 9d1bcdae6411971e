"""Ranges of a source on Spark: the driver plans them, and tasks read them.

Streams whose ranges have the row that all sources share stay *planned* until the job of the batch, which reads them and
sends them to the servers without a query plan (`job`). Rows that Spark computes first are DataFrames.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.service.batch.streams import SPARK_TYPES
from headgate.service.push_source import ROW
from headgate.sources.source import Range, Source
from headgate.spark.arrow_types import from_arrow_schema
from headgate.state.payload import plain_type
from headgate.streams.planned import InputRange, split_tasks


@dataclass(frozen=True)
class RangeReader:
    """The ranges of some tasks, and the source that reads them."""

    source: Source
    tasks: list[list[tuple[int, InputRange]]]

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns in their Arrow types, as Spark takes them."""
        return pa.schema([pa.field(field.name, plain_type(field.type)) for field in self.source.schema()])

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        for _, part in self.tasks[number]:
            for rows in self.source.read(part.what):
                yield from pa.Table.from_batches([rows]).cast(self.schema).to_batches()

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function of `mapInArrow`: each number stands for the ranges of a task."""
        for number in [number for batch in numbers for number in batch.column(0).to_pylist()]:
            if self.tasks:
                yield from self.read(number)


@dataclass(frozen=True)
class PlannedRows:
    """Rows in slots that tasks read. Slots that a reader lacks are null."""

    spark: SparkSession
    readers: tuple[RangeReader, ...]

    @property
    def sparkSession(self) -> SparkSession:
        """The session that reads them."""
        return self.spark

    def frame(self) -> DataFrame:
        """The rows as a DataFrame."""
        return reduce(DataFrame.union, [_padded(_frame(self.spark, reader)) for reader in self.readers])


def reader_of(source: Source, ranges: Sequence[Range], tasks: int) -> RangeReader:
    """Some ranges of a source, which at most so many tasks read."""
    parts = [InputRange(0, part.what, part.rows, part.parts) for part in ranges]
    return RangeReader(source, split_tasks(parts, tasks) if parts else [])


def rows_of_ranges(spark: SparkSession, source: Source, ranges: Sequence[Range], tasks: int) -> DataFrame:
    """The rows of some ranges, which at most so many tasks read."""
    return _frame(spark, reader_of(source, ranges, tasks))


def union(rows: Sequence[DataFrame | PlannedRows]) -> DataFrame | PlannedRows:
    """The rows of several streams. They stay planned if all are."""
    planned = [some for some in rows if isinstance(some, PlannedRows)]
    if len(planned) == len(rows):
        return PlannedRows(planned[0].spark, tuple(reader for some in planned for reader in some.readers))
    return reduce(DataFrame.union, [some.frame() if isinstance(some, PlannedRows) else some for some in rows])


def in_utc(spark: SparkSession) -> SparkSession:
    """The same Spark with a session of its own: event times carry no zone on their way, and are UTC."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def _frame(spark: SparkSession, reader: RangeReader) -> DataFrame:
    count = max(1, len(reader.tasks))
    return spark.range(0, count, 1, count).mapInArrow(reader, from_arrow_schema(reader.schema))


def _padded(frame: DataFrame) -> DataFrame:
    """The row that all sources share."""
    return frame.select(
        *(
            F.col(name) if name in frame.columns else F.lit(None).cast(SPARK_TYPES[name[0]]).alias(name)
            for name in ROW.names
        )
    )
