"""The rows of split keys on one channel: they are combined here, and sent to the driver with the answer.

A channel keeps no state of a split key. It makes partial rows of the rows that it gets (`operators.combine`),
and the driver applies them to the key's state (`stage.split_keys`). So these rows never wait: there is nothing
to read, and combining them costs less than putting them aside.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.operators.arrival import CLOSED, arrived_schema
from headgate.operators.base import BoundOperator
from headgate.operators.combine import Combined
from headgate.stage.routed_rows import HASH, ORDER
from headgate.state.lanes import ints

Ints = NDArray[np.int64]
WAITED = -1
"""The place of a row that waited, before all rows of the batch."""
TOGETHER = 1 << 17
"""How many rows are combined at once, so that a channel need not hold more."""


def receiver(operator: BoundOperator) -> Combined:
    """The operator that takes what the channels send: rows that map tasks have combined are sent as they are."""
    combined = operator if isinstance(operator, Combined) else operator.in_pieces()
    if combined is None:
        raise AssertionError(operator.whole)  # a policy is told why, and does not split
    return combined


def split_schema(operator: BoundOperator, rows: pa.Schema) -> pa.Schema:
    """The columns that a channel sends of the rows of split keys, if it receives `rows`."""
    schema = arrived_schema(operator, rows)
    if not isinstance(operator, Combined):
        schema = receiver(operator).partial_schema(schema)
    for name in (HASH, *([ORDER] if operator.ordered else [])):
        if name not in schema.names:
            schema = schema.append(pa.field(name, pa.int64()))
    return schema


class SplitRows:
    """The rows of split keys that reach one channel in one batch."""

    def __init__(self, operator: BoundOperator) -> None:
        self._operator = operator
        self.counts: Counter[int] = Counter()
        """The number of rows by hash of the key."""
        self._held: list[pa.RecordBatch] = []
        self._partial: list[pa.RecordBatch] = []

    def add(self, rows: pa.RecordBatch, hashes: Ints, order: Ints | None) -> None:
        """Add rows in order; `order` has their places in the source, None if they waited."""
        found, numbers = np.unique(hashes, return_counts=True)
        self.counts.update(dict(zip(found.tolist(), numbers.tolist(), strict=True)))
        rows = _with(rows, HASH, hashes)
        if self._operator.ordered:
            rows = _with(rows, ORDER, np.full(len(hashes), WAITED, np.int64) if order is None else order)
        self._held.append(rows)
        if sum(part.num_rows for part in self._held) >= TOGETHER:
            self._combine()

    def packed(self) -> bytes:
        """What the driver gets, in Arrow's stream format; nothing if no row came."""
        self._combine()
        if not self._partial:
            return b""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._partial[0].schema) as stream:
            for rows in self._partial:
                stream.write_batch(rows)
        return bytes(sink.getvalue())

    def _combine(self) -> None:
        held, self._held = self._held, []
        if not held:
            return
        rows = pa.concat_batches(held)
        if isinstance(self._operator, Combined):
            self._partial.append(rows)
            return
        combined = receiver(self._operator)
        for part in _by_closed(rows):
            partial, hashes = combined.partial(part, part.column(HASH).to_numpy())
            self._partial.append(_with(partial, HASH, hashes))


def _by_closed(rows: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Rows that arrived when the same time was closed are combined with each other."""
    if CLOSED not in rows.schema.names:
        return [rows]
    closed = rows.column(CLOSED).to_numpy()
    times = np.unique(closed)
    return [rows] if len(times) == 1 else [rows.filter(pa.array(closed == time)) for time in times]


def _with(rows: pa.RecordBatch, name: str, values: Ints) -> pa.RecordBatch:
    """The rows with a column of whole numbers, in its place if there is one."""
    at = rows.schema.get_field_index(name)
    return rows.append_column(name, ints(values)) if at < 0 else rows.set_column(at, name, ints(values))
