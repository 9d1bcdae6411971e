"""The published results as a stream of the loop, on Spark."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from headgate.service.batch.ranges import PlannedRows, reader_of
from headgate.service.delivery.published import PUBLISHED, PublishedSource
from headgate.service.service import Service
from headgate.sources.source import Range

MAX_ROWS = 200_000
"""How many rows a batch takes; it takes whole batches of results, at least one."""


class PublishedStream:
    """What queries over the results of queries read."""

    name = PUBLISHED

    def __init__(self, spark: SparkSession, service: Service) -> None:
        self._spark, self.max_rows = spark, MAX_ROWS
        self.source = PublishedSource(service)

    def rows(self, ranges: Sequence[Range]) -> PlannedRows:
        """The rows of some ranges, in slots: each range carries its rows."""
        return PlannedRows(self._spark, (reader_of(self.source, ranges, max(1, len(ranges))),))
