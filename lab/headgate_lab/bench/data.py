"""Input of the benchmarks: Parquet files with times in batch order, two files a batch so
that both cores scan.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES_PER_BATCH = 2
SCHEMA = "user long, amount double"
TIMED = f"{SCHEMA}, time timestamp"
BATCH_SECONDS = 60
"""Event time that a batch covers."""
_SPREAD = 2_654_435_761  # odd, so that keys stay distinct modulo a power of two
_SPACE = 1 << 40
_APART = 1 << 41  # keys at and above this are never drawn: state that no batch touches again


def zipf(rows: int, batches: int, keys: int, *, seed: int = 1) -> Iterator[pa.Table]:
    """Batches of rows whose keys follow Zipf(1.0); each is drawn anew."""
    rng = np.random.default_rng(seed)
    chances = np.cumsum(1.0 / np.arange(1, keys + 1))
    for _ in range(batches):
        rank = np.searchsorted(chances, rng.random(rows) * chances[-1])
        yield _table(rank.astype(np.int64) * _SPREAD % _SPACE, rng)


def uniform(rows: int, batches: int, keys: int, *, seed: int = 2) -> Iterator[pa.Table]:
    """Batches of rows whose keys are all as likely."""
    rng = np.random.default_rng(seed)
    for _ in range(batches):
        yield _table(rng.integers(0, keys, rows) * _SPREAD % _SPACE, rng)


def untouched(keys: int, rows: int) -> Iterator[pa.Table]:
    """Every one of `keys` keys once, in batches of at most `rows`; no other batch has these keys."""
    rng = np.random.default_rng(3)
    for start in range(0, keys, rows):
        yield _table(_APART + np.arange(start, min(start + rows, keys), dtype=np.int64), rng)


def timed(batches: Iterable[pa.Table], *, seed: int = 5) -> Iterator[pa.Table]:
    """The same with a time for each row: a minute a batch, in order but for a few seconds."""
    rng = np.random.default_rng(seed)
    start = 1_700_000_000 * 1_000_000
    for number, rows in enumerate(batches):
        even = np.linspace(0, BATCH_SECONDS, rows.num_rows, endpoint=False) + rng.normal(0, 1, rows.num_rows)
        times = start + (1e6 * (number * BATCH_SECONDS + even)).astype(np.int64)
        yield rows.append_column("time", pa.array(times).cast(pa.timestamp("us", tz="UTC")))


def stream(spark: SparkSession, source: str, schema: str) -> DataFrame:
    """A folder that `write` has made, as a stream of its batches."""
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", FILES_PER_BATCH).parquet(source)


def _table(user: NDArray[np.int64], rng: np.random.Generator) -> pa.Table:
    return pa.table({"user": user, "amount": rng.random(len(user)) * 100})


def write(batches: Iterable[pa.Table], folder: Path) -> int:
    """Write batches as files, each batch cut into `FILES_PER_BATCH`; returns how many batches there are."""
    import os

    folder.mkdir(parents=True)
    began, number = time.time() - 86_400, -1
    for number, table in enumerate(batches):
        step = -(-table.num_rows // FILES_PER_BATCH)
        for part in range(FILES_PER_BATCH):
            path = folder / f"batch-{number:05d}-{part}.parquet"
            pq.write_table(table.slice(part * step, step), path)
            when = began + 10 * number + part
            os.utime(path, (when, when))
    return number + 1
