"""What native Spark does with rows that have no event time, as docs/reference/operators.md tells it."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

SECOND = 1_000_000


@pytest.fixture
def events(spark, tmp_path):
    """Two batches; of key 1 and 2 a row without a time comes in each, of key 1 another one with a time."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name, rows in (
        ("a", [(1, None), (1, None), (2, None), (3, SECOND)]),
        ("b", [(1, None), (1, SECOND), (2, None)]),
    ):
        keys, times = zip(*rows, strict=True)
        table = pa.table({"k": pa.array(keys, pa.int64()), "t": pa.array(times, pa.timestamp("us", "UTC"))})
        pq.write_table(table, folder / f"{name}.parquet")
    stream = spark.readStream.schema("k long, t timestamp").option("maxFilesPerTrigger", 1)
    return stream.parquet(str(folder)).withWatermark("t", "10 seconds")


def ran(query, mode, tmp_path):
    found: list[Any] = []
    writer = query.writeStream.outputMode(mode).option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer = writer.foreachBatch(lambda df, batch: found.extend(tuple(row) for row in df.collect()))
    writer.trigger(availableNow=True).start().awaitTermination()
    return found


def test_native_dedup_lets_one_of_each_key_pass_and_it_counts_as_the_first(events, tmp_path) -> None:
    found = ran(
        events.dropDuplicatesWithinWatermark(["k"]).select("k", F.unix_micros("t")), "append", tmp_path
    )
    assert sorted(found, key=str) == [(1, None), (2, None), (3, SECOND)]


def test_native_windows_drop_them(events, tmp_path) -> None:
    found = ran(
        events.groupBy(F.window("t", "10 seconds"), "k").count().select("k", "count"), "update", tmp_path
    )
    assert sorted(found) == [(1, 1), (3, 1)]
