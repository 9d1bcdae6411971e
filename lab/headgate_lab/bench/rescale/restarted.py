"""The native twin: an aggregate with state in RocksDB, which is stopped, whose checkpoint is repartitioned, and which is
started again with another number of partitions.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.errors import HeadgateError
from headgate_lab.bench import data
from headgate_lab.bench.rescale.drawn import Drawn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEADY = 6
"""Batches before the restart, and batches after it."""
ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


def pause(
    spark: SparkSession, source: Drawn, partitions: tuple[int, int], work: Path
) -> tuple[float, list[float]]:
    """Seconds from the stop to the end of the first batch after the restart, and the times of batches in ms without one."""
    folder, checkpoint = work / "rows", str(work / "checkpoint")
    batches = source.loading + STEADY
    tables = (_rows(source, number) for number in range(batches + 1))
    data.write(tables, folder)
    late = sorted(folder.iterdir())[-data.FILES_PER_BATCH :]
    for file in late:
        file.rename(work / file.name)
    for name, value in ROCKSDB.items():
        spark.conf.set(name, value)
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions[0]))
    query = _start(spark, folder, checkpoint)
    query.processAllAvailable()
    times = [float(p["durationMs"]["triggerExecution"]) for p in query.recentProgress if p["numInputRows"]]
    if len(times) < STEADY:
        raise HeadgateError(f"native: {batches} batches were to run, and {len(times)} are known")
    for file in late:
        (work / file.name).rename(file)
    began = time.perf_counter()
    query.stop()
    manager: Any = spark._streamingCheckpointManager
    manager.repartition(checkpoint, partitions[1])
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions[1]))
    query = _start(spark, folder, checkpoint)
    query.processAllAvailable()
    seconds = time.perf_counter() - began
    query.stop()
    return seconds, times[-STEADY:]


def _rows(source: Drawn, number: int) -> Any:
    import pyarrow as pa

    load = number < source.loading
    first = number * source.load if load else 0
    end = min(first + source.load, source.keys) if load else source.rows
    return pa.Table.from_batches(source.read([number, first, end]))


def _start(spark: SparkSession, folder: Path, checkpoint: str) -> Any:
    from pyspark.sql import functions as F

    rows = data.stream(spark, str(folder), data.SCHEMA)
    found = rows.groupBy("user").agg(F.count("*"), F.sum("amount"), F.max("amount"))
    writer = found.writeStream.outputMode("update").format("noop")
    return writer.option("checkpointLocation", checkpoint).start()
