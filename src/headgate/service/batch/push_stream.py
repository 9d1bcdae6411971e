"""The pushed events as a stream of the loop, on Spark."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.service.batch.ranges import rows_of_ranges
from headgate.service.batch.streams import SPARK_TYPES
from headgate.service.push_source import PUSHED, ROW, PushSource, columns_of_ranges
from headgate.service.service import Service
from headgate.sources.source import Range
from headgate.spark.arrow_types import from_arrow_schema


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

    def nothing(self) -> DataFrame:
        """No rows, for a batch that only computes what waits."""
        return self._spark.createDataFrame([], from_arrow_schema(ROW))

    def rows(self, ranges: Sequence[Range]) -> DataFrame:
        """The rows of some ranges, in slots. Tasks read only the slots that have values."""
        columns = columns_of_ranges(ranges)
        read = rows_of_ranges(self._spark, self.source.only(columns), ranges, self._tasks)
        return read.select(
            *(
                F.col(name) if name in columns else F.lit(None).cast(SPARK_TYPES[name[0]]).alias(name)
                for name in ROW.names
            )
        )
