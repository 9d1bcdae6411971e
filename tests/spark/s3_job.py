"""Whole queries with all their folders on S3: run as `python s3_job.py BUCKET FOLDER`. Prints one line of JSON."""

import json
import sys
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from tests.spark.streams import run_query, write_file

import headgate as hg
from headgate import agg


def main(bucket: str, folder: Path) -> None:
    spark = (
        hg.configure(SparkSession.builder.master("local[2]"))
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    seen: list[int] = []
    sink = hg.sinks.Parquet(f"{bucket}/out")

    def stages(function_fails: bool = False) -> hg.Pipeline:
        def count(rows, batch) -> None:
            if function_fails:
                raise ConnectionError("away")
            seen.append(rows.count())

        first = hg.Stage(
            key="k",
            operator=hg.HistoryWindow(3, "mean", of="v"),
            checkpoint=f"{bucket}/first",
            routing=hg.Routing(channels=2, bins=8),
        )
        second = hg.Stage(
            key="k",
            operator=hg.Aggregate(n=agg.count()),
            checkpoint=f"{bucket}/second",
            routing=hg.Routing(channels=2, bins=8),
            sink=count,
        )
        return hg.Pipeline(first, second)

    def plain() -> hg.Stage:
        return hg.Stage(
            key="k",
            operator=hg.Aggregate(n=agg.count(), total=agg.sum("v")),
            checkpoint=f"{bucket}/plain",
            routing=hg.Routing(channels=2, bins=8),
            sink=sink,
        )

    schema = "k long, v long"
    for number in range(4):
        table = {"k": pa.array([i % 10 for i in range(100)]), "v": pa.array([number] * 100)}
        write_file(folder / "in", number, pa.table(table))
        if number % 2:
            run_query(spark, folder / "in", schema, plain(), folder / "spark-plain")
    failed = ""
    try:
        run_query(spark, folder / "in", schema, stages(True), folder / "spark-pipeline")
    except Exception as error:
        failed = type(error).__name__
    run_query(spark, folder / "in", schema, stages(), folder / "spark-pipeline")
    newest: dict[Any, dict[str, Any]] = {}
    fs = fsspec.filesystem("s3")
    for path in sink.files():
        with fs.open(path, "rb") as file:
            newest |= {row["k"]: row for row in pq.ParquetFile(file).read().to_pylist()}
    print(json.dumps({"rows": sorted(newest.values(), key=lambda r: r["k"]), "seen": seen, "failed": failed}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
