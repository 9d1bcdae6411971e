"""Whether a stage's whole output equals what native Spark computes from the same rows.

Amounts are whole numbers, so that sums and means are exact in any order.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def differing_history(spark: SparkSession, rows: Path, output: Path, k: int) -> int:
    """Rows that only one of the two has, for `HistoryWindow(k, ["mean", "max"], of="amount",
    keep=["seq", "amount"])` by user.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    last = Window.partitionBy("user").orderBy("seq").rowsBetween(1 - k, 0)
    native = spark.read.parquet(str(rows)).select(
        "user",
        "seq",
        "amount",
        F.avg("amount").over(last).alias("mean"),
        F.max("amount").over(last).alias("max"),
    )
    return _differing(native, spark.read.parquet(str(output)))


def differing_aggregate(spark: SparkSession, rows: Path, output: Path) -> int:
    """The same for `Aggregate(n=count(), total=sum("amount"), top=max("amount"))`: the last answer
    of every user counts.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    native = spark.read.parquet(str(rows)).groupBy("user")
    newest = Window.partitionBy("user").orderBy(F.desc("batch"))
    ours = spark.read.parquet(str(output)).withColumn("rank", F.row_number().over(newest)).where("rank = 1")
    totals = native.agg(F.count("*").alias("n"), F.sum("amount").alias("total"), F.max("amount").alias("top"))
    return _differing(totals, ours)


def _differing(native: DataFrame, ours: DataFrame) -> int:
    ours = ours.select(*native.columns)
    return int(native.exceptAll(ours).count() + ours.exceptAll(native).count())
