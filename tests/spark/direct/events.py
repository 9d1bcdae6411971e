"""Rows, files and answers for tests of direct streams."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import headgate as hg

SCHEMA = "user long, amount double, at timestamp"
STATIC = hg.Routing(policy="static", channels=3, bins=16)


def events(count: int, seed: int, keys: int = 20) -> pa.Table:
    """Rows of few users; amounts are whole, so that sums do not depend on their order."""
    draw = np.random.default_rng(seed)
    at = np.datetime64("2026-01-01T00:00:00", "us") + np.sort(draw.integers(0, 3600_000_000, count)).astype(
        "timedelta64[us]"
    )
    columns = {
        "user": pa.array(draw.zipf(1.5, count) % keys, pa.int64()),
        "amount": pa.array(draw.integers(-5, 100, count).astype(float), pa.float64()),
        "at": pa.array(at, pa.timestamp("us", "UTC")),
    }
    return pa.table(columns)


def put(folder: Path, number: int, table: pa.Table, *, row_group: int = 300) -> None:
    """One file, which appears whole."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / f".{number:04}", row_group_size=row_group)
    os.rename(folder / f".{number:04}", folder / f"{number:04}.parquet")


def latest(spark: SparkSession, sink: hg.sinks.Parquet, *key: str) -> list[Any]:
    """The last row of each key, without the number of its batch."""
    rows = spark.read.parquet(sink.path)
    newest = rows.groupBy(*key).agg(F.max_by(F.struct(*rows.columns), "batch").alias("row")).select("row.*")
    return sorted(tuple(row) for row in newest.drop("batch").collect())


def native(df: DataFrame) -> list[Any]:
    return sorted(tuple(row) for row in df.collect())
