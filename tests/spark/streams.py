"""Streaming queries for tests: files in an order that does not depend on the machine, and a query that ends."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def write_file(folder: Path, number: int, table: pa.Table) -> None:
    """One file, older than those with higher numbers: Spark takes files in the order of their age."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number:04d}.parquet"
    pq.write_table(table, path)
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def run_query(spark: Any, source: Path, schema: str, stage: Any, checkpoint: Path, *, files: int = 1) -> Any:
    """All that is there, so many files a batch; returns the query, which has ended. Raises what the stage raised."""
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(source))
    query = (
        rows.writeStream.foreachBatch(stage)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query
