"""Sticky channels: the same channel on the same executor, batch after batch, without any code in the JVM.

An *anchor* is a cached DataFrame of one row per channel, partitioned as the exchange partitions. Joining the
routed batch to it on the channel adds no shuffle, and gives every task the executor that holds its anchor
block as preferred location. With one executor there is nothing to stick to, and no anchor. The anchor's own
tasks hold their slot for a moment, so that no executor takes two waves while another takes none; when the
executors change, or channels lie unevenly, the stage anchors again.
"""

from __future__ import annotations

from collections import Counter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

CHANNEL = "__headgate_channel"
HOLD_MS = 250


def executors(spark: SparkSession) -> int:
    """Executors of the application, at least one (in local mode the driver is the executor)."""
    infos = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    return max(1, len(infos) - 1)


class Anchor:
    """The anchor in force, if any."""

    def __init__(self) -> None:
        self._frame: DataFrame | None = None
        self._channels = 0
        self._executors = 1
        self._uneven = False
        self.casts = 0

    def prepare(self, spark: SparkSession, channels: int) -> DataFrame | None:
        """The anchor for this many channels, cast anew if need be; None where there is one executor."""
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
        """Where the channels ran; if that is uneven, the next batch anchors again."""
        if self._frame is None:
            return
        counts = Counter(places)
        spread = max(counts.values()) - min(
            [*counts.values(), *([0] if len(counts) < self._executors else [])]
        )
        self._uneven = spread > 1 and self._channels >= self._executors
