"""What happens to rows when they arrive: their times are noted, and rows that cannot be used are put aside.

Whether a row is late is decided once, when it arrives. The row then carries the time up to which
state was closed at that moment, so that it may wait for many batches and still find the state that it
would have found at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.far_ahead import merged, spans_of
from headgate.operators.base import BoundOperator
from headgate.operators.event_time import Clock
from headgate.state.lanes import ints

CLOSED, REASON = "__headgate_closed", "reason"


def arrived_schema(operator: BoundOperator, sent: pa.Schema) -> pa.Schema:
    """The columns of rows after their arrival, given the columns that were sent."""
    return sent.append(pa.field(CLOSED, pa.int64())) if operator.event_time is not None else sent


def aside_schema(operator: BoundOperator, sent: pa.Schema) -> pa.Schema:
    """The columns of rows that are put aside: those that the operator reads, and the reason."""
    names = dict.fromkeys([*operator.key.names, *operator.inputs])
    return pa.schema([*(sent.field(n) for n in names), pa.field(REASON, pa.string())])


def with_reason(operator: BoundOperator, rows: pa.RecordBatch, reason: str) -> pa.RecordBatch:
    """Rows in the form in which they are put aside."""
    names = dict.fromkeys([*operator.key.names, *operator.inputs])
    columns = [*(rows.column(n) for n in names), pa.array([reason] * rows.num_rows, pa.string())]
    return pa.RecordBatch.from_arrays(columns, schema=aside_schema(operator, rows.schema))


class Arrival:
    """The arriving rows of one channel in one batch."""

    def __init__(self, operator: BoundOperator, clock: Clock) -> None:
        self.operator, self.clock = operator, clock
        self.aside: list[pa.RecordBatch] = []
        self._counts: dict[str, int] = {}
        self._spans: dict[str, dict[str, tuple[int, int, int]]] = {}

    def admit(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are not late, in order; the others are put aside."""
        time = self.operator.event_time
        if time is None:
            return rows
        column = rows.column(time.column)
        if column.null_count:
            rows = self._without(rows, column.is_null().to_numpy(zero_copy_only=False), "no event time")
            column = rows.column(time.column)
        times = column.view(pa.int64()).to_numpy()
        sources = (
            np.zeros(len(times), np.int64) if time.source is None else rows.column(time.source).to_numpy()
        )
        for source, newest in enumerate(self.clock.newest):
            mine = times if time.source is None else times[sources == source]
            spans = spans_of(mine, newest, time.ahead)
            self._spans[str(source)] = merged([self._spans.get(str(source), {}), spans])
        late = self.operator.late(times, self.clock.closed)
        if late.any():
            rows = self._without(rows, late, "late")
        return rows.append_column(CLOSED, ints(np.full(rows.num_rows, self.clock.closed, np.int64)))

    def note(self, seen: Mapping[str, Any], aside: pa.RecordBatch | None) -> None:
        """Take in rows that were judged elsewhere: `seen` says how, and `aside` could not be used."""
        for source, spans in seen["spans"].items():
            self._spans[source] = merged([self._spans.get(source, {}), spans])
        for reason, count in seen["aside"].items():
            self._counts[reason] = self._counts.get(reason, 0) + count
        if aside is not None:
            self.aside.append(aside)

    def seen(self, skipped: Mapping[str, int] | None = None) -> dict[str, Any]:
        """What the driver needs to advance the clock, as JSON-native values.

        `skipped` has the number of rows that the operator put aside, by reason.
        """
        return {"spans": self._spans, "aside": {**self._counts, **(skipped or {})}}

    def _without(self, rows: pa.RecordBatch, bad: NDArray[np.bool_], reason: str) -> pa.RecordBatch:
        self.aside.append(with_reason(self.operator, rows.filter(pa.array(bad)), reason))
        self._counts[reason] = self._counts.get(reason, 0) + int(bad.sum())
        return rows.filter(pa.array(~bad))
