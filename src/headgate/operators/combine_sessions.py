# mypy: allow-untyped-defs, allow-untyped-calls
"""Sessions whose rows are combined: one partial row for each key and session among the rows at hand.

A partial row has the start of its session and the time until which its last row keeps it open. Two sessions
are one if their spans touch, and so are all that such a one touches: the outcome is the same whether rows
are put together one by one, or as spans of rows in any order.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.compiled import compiled
from headgate.far_ahead import NEVER
from headgate.operators.base import Chunk
from headgate.operators.combine import CombinedAccumulators
from headgate.operators.combine_groups import grouped
from headgate.operators.sessions import BoundSessions
from headgate.operators.windows import END, TIME
from headgate.state.lanes import LaneColumn, to_lane
from headgate.state.layout import Kind, StateColumn
from headgate.state.table import BinTable

Ints = NDArray[np.int64]


class CombinedSessions(CombinedAccumulators, BoundSessions):
    """Sessions over partial rows."""

    parted = True

    def __init__(self, original: BoundSessions) -> None:
        super().__init__(original)
        self.columns = (StateColumn(END, Kind.I64), *self.columns)
        self.inputs = tuple(f"__headgate_p{i}" for i in range(len(self.columns) + 1))

    def _parts(self, rows: pa.RecordBatch, hashes: Ints) -> Ints:
        times = to_lane(rows.column(self.config.on)).data
        key, _ = grouped(self.key, rows, hashes)
        return np.asarray(_starts(times, key, np.lexsort((times, key)), self._gap))

    def _state(self, chunk: Chunk, group: Ints, hashes: Ints) -> BinTable:
        table = super()._state(chunk, group, hashes)
        table.arrays[END][:] = NEVER
        np.maximum.at(table.arrays[END], group, chunk.lanes[TIME].data + self._gap)
        return table

    def lanes(self, rows: pa.RecordBatch) -> dict[str, LaneColumn]:
        return {TIME: to_lane(rows.column(self.inputs[0]))}

    def ends(self, chunk: Chunk) -> Ints:
        (pieces,) = chunk.parts
        return np.asarray(pieces.columns[END])


@compiled
def _starts(times, key, order, gap):
    """The start of each row's session among the rows at hand, which `order` sorts by key and time."""
    out = np.empty(len(times), np.int64)
    for i in range(len(order)):
        r = order[i]
        q = order[i - 1]
        if i > 0 and key[q] == key[r] and times[r] - times[q] <= gap:
            out[r] = out[q]
        else:
            out[r] = times[r]
    return out
