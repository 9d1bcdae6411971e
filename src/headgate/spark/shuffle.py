"""The bytes and rows that the shuffles of a job carried, as counted by Spark."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

WAIT_MS = 2_000


@dataclass(frozen=True)
class Carried:
    """Bytes written (compressed), and rows."""

    size: int
    rows: int


def carried(spark: SparkSession, group: str) -> Carried:
    """The shuffle writes of all jobs of a job group, from Spark's status store, which
    is updated with a short delay.
    """
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
