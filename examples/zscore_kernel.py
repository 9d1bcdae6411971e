"""How far is each payment from what its card usually pays? A kernel: a plain Python function per row, compiled.

    pip install 'headgate[spark]'
    python examples/zscore_kernel.py [ROWS]

Every card has a count, a mean and a sum of squares (Welford); each payment gets its distance from the card's mean, in standard
deviations. Rows that the function cannot digest, as one whose amount is missing, are put aside with the reason.
"""

import sys
import tempfile
from math import sqrt
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import headgate as hg


@hg.kernel(
    state={"n": int, "mean": float, "m2": float}, output={"z": float}, keep=["amount"], on_error="skip"
)
def zscore(state, row):
    """The row's distance from the mean of its card, in standard deviations."""
    state.n += 1
    d = row.amount - state.mean
    state.mean += d / state.n
    state.m2 += d * (row.amount - state.mean)
    return d / sqrt(state.m2 / state.n) if state.m2 > 0 else 0.0


def payments(spark: SparkSession, rows: int) -> DataFrame:
    """Payments of a thousand cards, some of which are unusual, and some without an amount."""
    usual = F.abs(F.xxhash64("id") % 1000) / 100
    return spark.range(rows).select(
        (F.abs(F.xxhash64("id") % 1000)).alias("card"),
        F.when(F.col("id") % 5000 == 1, F.lit(None))
        .when(F.col("id") % 997 == 0, usual * 50)
        .otherwise(usual)
        .alias("amount"),
    )


def run(spark: SparkSession, rows: int, work: Path) -> hg.Stage:
    """Run the stream to its end; the stage, for its status."""
    payments(spark, rows).repartition(2).write.parquet(str(work / "payments"))
    stream = (
        spark.readStream.schema("card long, amount double")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(work / "payments"))
    )
    stage = hg.Stage(
        key="card",
        operator=zscore,
        routing=hg.Routing(channels=4),
        checkpoint=str(work / "stage"),
        sink=hg.sinks.Parquet(str(work / "scores")),
        aside=hg.sinks.Parquet(str(work / "aside")),
    )
    query = (
        stream.writeStream.foreachBatch(stage)
        .option("checkpointLocation", str(work / "spark"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return stage


def main() -> None:
    """Score, and say what was found."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    spark = hg.configure(SparkSession.builder.master("local[2]")).getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        stage = run(spark, rows, work)
        print(stage.status())
        spark.read.parquet(str(work / "scores")).orderBy(F.desc("z")).show(5)
        spark.read.parquet(str(work / "aside")).groupBy("reason").count().show(truncate=False)


if __name__ == "__main__":
    main()
