"""Direct streams in other sessions: `python session_job.py SESSION FOLDER`. SESSION is `connect` (Spark Connect) or
`plain` (a classic session without `hg.configure`). Each needs a process of its own.
"""

import os
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import headgate as hg
from headgate import agg


def main(session: str, folder: Path) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.config("spark.ui.enabled", "false")
    builder = builder.remote("local[2]") if session == "connect" else builder.master("local[2]")
    spark = builder.getOrCreate()
    assert ("connect" in type(spark).__module__) == (session == "connect")
    source = folder / "in"
    source.mkdir()
    for number in range(3):
        ids = list(range(number * 1000, (number + 1) * 1000))
        rows = pa.table({"user": [i * i % 37 for i in ids], "amount": [float(i % 11) for i in ids]})
        pq.write_table(rows, source / f"{number}.parquet")
    sink = hg.sinks.Parquet(str(folder / "out"))
    stream = hg.read(spark).files(str(source), schema="user long, amount double").where("amount > 2")
    results = stream.key_by("user").aggregate(n=agg.count(), total=agg.sum("amount"))
    for _ in range(2):  # the second goes on from the first, and finds nothing
        query = results.write(sink).start(str(folder / "ckpt"), available_now=True, max_rows=1000)
        query.await_end()
    out = spark.read.parquet(str(folder / "out"))
    newest = (
        out.groupBy("user").agg(F.max_by(F.struct("n", "total"), "batch").alias("r")).select("user", "r.*")
    )
    rows = spark.read.parquet(str(source)).where("amount > 2")
    wanted = rows.groupBy("user").agg(F.count("*").alias("n"), F.sum("amount").alias("total"))
    assert sorted(map(tuple, newest.collect())) == sorted(map(tuple, wanted.collect()))
    print("columnar: equal", flush=True)

    seen: list[int] = []
    stream = (
        hg.read(spark)
        .files(str(source), schema="user long, amount double")
        .transform(lambda df: df.withColumn("bucket", F.col("user") % 5))
    )
    results = stream.key_by("bucket").aggregate(n=agg.count())
    query = results.write(lambda df, batch: seen.append(sum(row.n for row in df.collect()))).start(
        str(folder / "rows"), available_now=True
    )
    query.await_end()
    assert sum(seen) == 3000, seen
    print("row path and a function as sink: equal", flush=True)

    names = spark.createDataFrame([(1, "ann"), (4, "bob")], "user long, name string")
    memory = hg.sinks.Memory()
    stream = hg.read(spark).rows([{"user": 1}, {"user": 2}, {"user": 4}])
    query = (
        stream.key_by("user")
        .join(names, how="left")
        .write(memory)
        .start(str(folder / "join"), available_now=True)
    )
    query.await_end()
    assert [row["name"] for row in memory.table().sort_by("user").to_pylist()] == ["ann", None, "bob"]
    print("join with a table: equal", flush=True)
    try:
        hg.read(spark).files(str(source), schema="user long").key_by("usr").aggregate(n=agg.count()).write(
            memory
        ).start(str(folder / "bad"))
    except hg.errors.MissingColumn as error:
        print(f"refused: {error}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
