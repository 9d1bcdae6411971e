"""The rows of a channel as a group, for an engine behind Connect that cannot send a row to a given partition
(`headgate.spark.inside.can_place`).

Blobs are grouped by channel, and each group is the input of one channel's task. A row without a blob makes a group for
every channel, because a task has work to do even without rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headgate.spark.anchor import CHANNEL

REPORT = "report string"
BLOBS = f"{CHANNEL} int, blob binary"


def by_groups(
    blobs: DataFrame, channels: int, work: Callable[[int, Iterable[bytes]], dict[str, Any]]
) -> DataFrame:
    """The reports of the channels, each from the channel's number and its blobs."""

    def task(rows: pa.Table) -> pa.Table:
        channel = rows.column(CHANNEL)[0].as_py()
        mine = [blob.as_buffer() for blob in rows.column("blob").drop_null()]
        return pa.table({"report": [json.dumps(work(channel, mine))]})

    numbers = blobs.sparkSession.range(0, channels, 1, 1)
    every = numbers.select(F.col("id").cast("int").alias(CHANNEL), F.lit(None).cast("binary").alias("blob"))
    return blobs.unionAll(every).groupBy(CHANNEL).applyInArrow(task, REPORT)


def packed_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows as blobs, one for each channel in a batch; the last column is the channel. The function of `mapInArrow`."""
    for batch in batches:
        channels, rows = batch.column(batch.num_columns - 1), batch.select(batch.schema.names[:-1])
        for channel in channels.unique():
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as stream:
                stream.write_batch(rows.filter(pc.equal(channels, channel)))
            blob = pa.array([bytes(sink.getvalue())], pa.binary())
            yield pa.RecordBatch.from_arrays(
                [pa.array([channel.as_py()], pa.int32()), blob], [CHANNEL, "blob"]
            )


def unpacked_rows(blobs: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    """The rows of `packed_rows`."""
    for blob in blobs:
        yield from pa.ipc.open_stream(pa.py_buffer(blob))
