"""The pushed events as a stream of the loop, on Spark."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from headgate.service.batch.ranges import PlannedRows, reader_of
from headgate.service.push_source import PUSHED, PushSource, columns_of_ranges
from headgate.service.service import Service
from headgate.sources.source import Range


class PushStream:
    """What was pushed to all sources."""

    name = PUSHED

    def __init__(self, spark: SparkSession, service: Service, tasks: int) -> None:
        """`spark` must be in UTC. `tasks` is how many tasks may read at a time."""
        self._spark, self._tasks = spark, tasks
        self.source = PushSource(
            service.push_log, None, service.pace, lambda tenant: service.grants.granting(tenant)
        )
        self.max_rows = service.settings.flow.batch_rows

    def nothing(self) -> PlannedRows:
        """No rows, for a batch that only computes what waits."""
        return self.rows(())

    def rows(self, ranges: Sequence[Range]) -> PlannedRows:
        """The rows of some ranges, in slots. Tasks read only the slots that have values."""
        source = self.source.only(columns_of_ranges(ranges))
        return PlannedRows(self._spark, (reader_of(source, ranges, self._tasks),))
