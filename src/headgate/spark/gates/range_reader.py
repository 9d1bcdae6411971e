"""Ranges of staged files, read by Python tasks.

A wave is a small job, so what counts is the time until it starts. Spark's own scan lists each file, plans a
filter for each range, and compiles the code of the job anew, since the bounds of the range are part of it. A
task that gets the ranges as data needs none of that: the plan of every wave is the same. It reads whole files,
though, so it is for small ones; and it is for types whose values do not depend on who reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types as T

from headgate.flow.fan_out import FanOut
from headgate.flow.row_ranges import RowRange
from headgate.storage.store import Store

LARGEST_BYTES = 4_000_000
"""Larger files are read by Spark, which skips the pages that a range does not need."""
_ROWS_AT_ONCE = 10_000
_TYPES = (
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.FloatType,
    T.DoubleType,
    T.DateType,
    T.BinaryType,
)


def is_readable(schema: T.StructType) -> bool:
    """Whether all columns are of types that Arrow reads as Spark wrote them."""
    plain_text = T.StringType()
    return all(isinstance(f.dataType, _TYPES) or f.dataType == plain_text for f in schema.fields)


@dataclass(frozen=True)
class RangeReader:
    """The function of `mapInArrow` on the numbers of ranges: the rows of each, as the guarded step gets them."""

    store: Store
    names: tuple[str, ...]
    """The file of each range."""
    ranges: Sequence[RowRange]
    at: str
    """The column with the position of a row."""
    schema: pa.Schema
    """The columns of the rows, without it."""
    fan_out: FanOut | None

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in numbers for number in batch.column(0).to_pylist()):
            with self.store.fs.open(self.store.path(self.names[number]), "rb") as file:
                table = pq.ParquetFile(file).read()
            yield from self._chosen(table, self.ranges[number]).to_batches(max_chunksize=_ROWS_AT_ONCE)

    def _chosen(self, table: pa.Table, piece: RowRange) -> pa.Table:
        at = table.column(self.at).to_numpy()
        rows = table.select(self.schema.names).cast(self.schema)
        if self.fan_out is None or not self.fan_out.splits:  # a row belongs to the wave in which it begins
            return rows.take(pa.array(np.flatnonzero((at >= piece.start) & (at < piece.stop))))
        widths = table.column(self.fan_out.column).to_numpy().astype(np.int64)
        chosen = np.flatnonzero((at < piece.stop) & (at + widths > piece.start))
        at, widths = at[chosen], widths[chosen]
        first, last = np.maximum(0, piece.start - at), np.minimum(widths, piece.stop - at)
        rows = rows.take(pa.array(chosen))
        return rows.append_column(self.fan_out.first, pa.array(first)).append_column(
            self.fan_out.last, pa.array(last)
        )
