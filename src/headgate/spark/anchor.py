"""Sticky channels: a channel runs on the same executor in every batch,
without any code of ours in the JVM.

An *anchor* is a cached DataFrame of one row per channel, partitioned as the exchange partitions. Joining
the routed batch to it on the channel adds no shuffle, and makes the executor that holds its anchor block
the preferred location of every task. With one executor no anchor is needed, and none is made. The tasks
that compute the anchor sleep for a moment, so that no executor takes two rounds of tasks while another
takes none. When the executors change, or the channels are spread unevenly, the stage makes a new anchor.
"""

from __future__ import annotations

from collections import Counter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.spark.inside import executor_count
from headgate.spark.session import is_connect

CHANNEL = "__headgate_channel"
HOLD_MS = 250


def executors(spark: SparkSession) -> int:
    """The number of executors of the application, at least one (in local mode the driver is the executor)."""
    if is_connect(spark):
        return 1  # nobody can know
    return executor_count(spark)


class Anchor:
    """The anchor in force, if any."""

    def __init__(self) -> None:
        self._frame: DataFrame | None = None
        self._channels = 0
        self._executors = 1
        self._uneven = False
        self.casts = 0

    def prepare(self, spark: SparkSession, channels: int) -> DataFrame | None:
        """The anchor for this many channels, made again if necessary; None if there is only one executor."""
        count = executors(spark)
        if count == 1:
            self._drop()
        elif self._frame is None or channels != self._channels or count != self._executors or self._uneven:
            self._cast(spark, channels, count)
        return self._frame

    def _cast(self, spark: SparkSession, channels: int, count: int) -> None:
        self._drop()
        ids = spark.range(channels).select(F.col("id").cast("int").alias(CHANNEL))
        sleep = F.reflect(F.lit("java.lang.Thread"), F.lit("sleep"), F.lit(HOLD_MS).cast("long"))
        self._frame = (
            ids.repartitionById(channels, F.col(CHANNEL)).select(CHANNEL, sleep.alias("held")).persist()
        )
        self._frame.count()
        self._channels, self._executors, self._uneven = channels, count, False
        self.casts += 1

    def _drop(self) -> None:
        if self._frame is not None:
            self._frame.unpersist()
            self._frame = None

    def observe(self, places: list[str]) -> None:
        """Take note of where the channels ran; if they were spread unevenly, the
        next batch makes a new anchor.
        """
        if self._frame is None:
            return
        counts = Counter(places)
        spread = max(counts.values()) - min(
            [*counts.values(), *([0] if len(counts) < self._executors else [])]
        )
        self._uneven = spread > 1 and self._channels >= self._executors
