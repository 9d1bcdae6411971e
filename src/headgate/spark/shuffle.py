"""What a job's shuffles really carried, as Spark counted it."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

WAIT_MS = 2_000


@dataclass(frozen=True)
class Carried:
    """Bytes as written (compressed) and rows."""

    size: int
    rows: int


def carried(spark: SparkSession, group: str) -> Carried:
    """The shuffle writes of the jobs of a group. Reads Spark's own status store, which the bus feeds a moment later."""
    context = spark.sparkContext
    inner = context._jsc.sc()
    inner.listenerBus().waitUntilEmpty(WAIT_MS)
    store, tracker = inner.statusStore(), context.statusTracker()
    size = rows = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            data = store.lastStageAttempt(stage)
            size += data.shuffleWriteBytes()
            rows += data.shuffleWriteRecords()
    return Carried(size, rows)
