"""The published results as a stream of the loop, on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from headgate.service.batch.streams import SPARK_TYPES
from headgate.service.delivery.published import PUBLISHED, ROW, PublishedSource
from headgate.service.service import Service
from headgate.service.sources import ALL_SLOTS
from headgate.sources.source import Range
from headgate.sql.source_schema import TIME

MAX_ROWS = 200_000
"""How many rows a batch takes; it takes whole batches of results, at least one."""
COLUMNS = T.StructType(
    [
        T.StructField("source", T.IntegerType()),
        T.StructField(TIME, T.TimestampNTZType()),
        *(T.StructField(slot, SPARK_TYPES[slot[0]]) for slot in ALL_SLOTS),
    ]
)


class PublishedStream:
    """What queries over the results of queries read."""

    name = PUBLISHED

    def __init__(self, spark: SparkSession, service: Service) -> None:
        self._spark, self.max_rows = spark, MAX_ROWS
        self.source = PublishedSource(service)

    def rows(self, ranges: Sequence[Range]) -> DataFrame:
        """The rows of some ranges, in slots."""
        reader = Carried(self.source, [part.what for part in ranges])
        return self._spark.range(0, len(ranges), 1, len(ranges)).mapInArrow(reader, COLUMNS)


@dataclass(frozen=True)
class Carried:
    """The function of `mapInArrow`: each number stands for a range, which carries its rows."""

    source: PublishedSource
    ranges: list[bytes]

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in [number for batch in numbers for number in batch.column(0).to_pylist()]:
            for rows in self.source.read(self.ranges[number]):
                yield from pa.Table.from_batches([rows]).cast(ROW).to_batches()
