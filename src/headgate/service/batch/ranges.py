"""Ranges of a source on Spark: the driver plans them, and tasks read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headgate.sources.source import Range, Source
from headgate.spark.arrow_types import from_arrow_schema
from headgate.state.payload import plain_type
from headgate.streams.planned import InputRange, split_tasks


def rows_of_ranges(spark: SparkSession, source: Source, ranges: Sequence[Range], tasks: int) -> DataFrame:
    """The rows of some ranges, which at most so many tasks read."""
    parts = [InputRange(0, part.what, part.rows, part.parts) for part in ranges]
    reader = RangeReader(source, split_tasks(parts, tasks) if parts else [])
    count = max(1, len(reader.tasks))
    return spark.range(0, count, 1, count).mapInArrow(reader, from_arrow_schema(_plain(source.schema())))


@dataclass(frozen=True)
class RangeReader:
    """The function of `mapInArrow`: each number stands for the ranges of a task."""

    source: Source
    tasks: list[list[tuple[int, InputRange]]]

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = _plain(self.source.schema())
        for number in [number for batch in numbers for number in batch.column(0).to_pylist()]:
            for _, part in self.tasks[number] if self.tasks else ():
                for rows in self.source.read(part.what):
                    yield from pa.Table.from_batches([rows]).cast(schema).to_batches()


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of several streams."""
    return reduce(DataFrame.union, frames)


def in_utc(spark: SparkSession) -> SparkSession:
    """The same Spark with a session of its own: event times carry no zone on their way, and are UTC."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def _plain(schema: pa.Schema) -> pa.Schema:
    """The columns in their Arrow types, as Spark takes them."""
    return pa.schema([pa.field(field.name, plain_type(field.type)) for field in schema])
