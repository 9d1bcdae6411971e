"""The bytes and rows that the shuffles of a job carried, as counted by Spark."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from headgate.spark.inside import shuffle_writes


@dataclass(frozen=True)
class Carried:
    """Bytes written (compressed), and rows."""

    size: int
    rows: int


def carried(spark: SparkSession, group: str) -> Carried:
    """The shuffle writes of all jobs of a job group; zero where Spark does not tell."""
    return Carried(*(shuffle_writes(spark, group) or (0, 0)))
