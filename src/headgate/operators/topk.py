# mypy: allow-untyped-defs, allow-untyped-calls
"""The k rows of each key with the largest values of a column.

A key has a state row for each row in its list; the part is the row's number. Of equal values
the earlier row stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.compiled import compiled
from headgate.errors import ConfigError, UnsupportedType
from headgate.operators.aggregate import emitted
from headgate.operators.base import BoundOperator, Chunk, Operator, column_type
from headgate.operators.columns import column_name, column_names
from headgate.operators.groups import by_key, state_rows, store_packed
from headgate.state.keys import KeySpec, pack, unpack
from headgate.state.lanes import Lane, LaneColumn, carrier_of, to_lane
from headgate.state.layout import Kind, StateColumn, StateLayout
from headgate.state.payload import Payload
from headgate.state.section import Extract
from headgate.state.table import BinTable

if TYPE_CHECKING:
    from headgate.operators.combine import Combined

BY, ROW, RANK = "by", "row", "rank"


class TopK(Operator):
    """The `k` rows of each key with the largest values of `by`: numbers, dates or times.

    Null is below every value and NaN above every number. Each batch emits the whole list of every
    key whose list it changed: the key columns, `rank` (1 is the largest), and the columns to
    `keep` (by default all).

    >>> TopK(3, by="amount")
    TopK(3, by='amount')
    """

    def __init__(self, k: int, *, by: str, keep: Sequence[str] | None = None) -> None:
        if not isinstance(k, int) or k < 1:
            raise ConfigError(f"k={k!r}: a list has at least one row")
        self.k, self.by = k, column_name(by, "by")
        self.keep = None if keep is None else column_names(keep, "keep")

    def __repr__(self) -> str:
        keep = "" if self.keep is None else f", keep={list(self.keep)}"
        return f"TopK({self.k}, by={self.by!r}{keep})"

    def bind(self, key: KeySpec, schema: pa.Schema) -> BoundTopK:
        """Check the columns."""
        kind = column_type(schema, self.by, repr(self))
        if isinstance(kind, Payload) or carrier_of(kind, f"column {self.by!r}") not in (Lane.I64, Lane.F64):
            raise UnsupportedType(
                f"{self!r}: column {self.by!r} has type {kind}, which it cannot put in order; "
                "cast it, or a part of it, to a number, a date or a timestamp"
            )
        keep = [n for n in (schema.names if self.keep is None else self.keep) if n not in key.names]
        for name in keep:
            carrier_of(column_type(schema, name, repr(self)), f"column {name!r}")
        return BoundTopK(self, key, schema, tuple(keep))


class BoundTopK(BoundOperator):
    """A top-k list bound to the key and schema of a stream."""

    ordered = True  # of equal values the earlier row stays
    probes = False
    counts_rows = True  # a row that enters no list touches nothing
    answers_by_key = True
    resources = "CLL"  # k rows per key; a row is compared with them

    def __init__(self, config: TopK, key: KeySpec, schema: pa.Schema, keep: tuple[str, ...]) -> None:
        self.config, self.key, self.keep = config, key, keep
        self.inputs = tuple(dict.fromkeys([*keep, config.by]))
        self.types = [schema.field(n).type for n in keep]
        columns = (StateColumn(BY, Kind.I64), StateColumn(ROW, Kind.BYTES))
        self.layout = StateLayout(key.is_fixed, columns, parts=True, grouped=True)
        self.output = emitted(key, [(RANK, pa.int32()), *zip(keep, self.types, strict=True)], "TopK")
        self._types = {n: str(schema.field(n).type) for n in self.inputs}

    def fingerprint(self) -> dict[str, Any]:
        return {"operator": repr(self.config), "inputs": self._types, "state": self.layout.fingerprint()}

    def lanes(self, rows: pa.RecordBatch) -> dict[str, LaneColumn]:
        return {BY: to_lane(rows.column(self.config.by))}

    def begin(self, chunk: Chunk) -> None:
        offsets, data = pack([chunk.rows.column(n) for n in self.keep], len(chunk))
        chunk.results |= {"offsets": offsets, "data": data, BY: in_order(chunk.lanes[BY])}

    def update(
        self, table: BinTable, slots: NDArray[np.int64], order: NDArray[np.int64], chunk: Chunk
    ) -> None:
        rows, keys = by_key(chunk.keys, order, fixed_key=self.layout.fixed_key)
        chunk.groups.append((rows[keys[:-1]], np.diff(keys)))
        listed, starts = state_rows(table, chunk.keys, rows[keys[:-1]], by="part")
        values, packed = chunk.results[BY], (chunk.results["offsets"], chunk.results["data"])
        taken, gone = largest(self.config.k, rows, keys, values, listed, starts, table.arrays[BY])
        table.remove(gone)
        slots = table.probe(chunk.keys, taken, chunk.serial + taken)
        table.arrays[BY][slots] = values[taken]
        store_packed(table, ROW, slots, taken, packed)

    def combined(self) -> Combined | None:
        from headgate.operators.combine_rows import CombinedTopK

        return CombinedTopK(self)

    def answering(self, table: BinTable) -> NDArray[np.int64]:
        return np.asarray(_whole_lists(table.touched, table.arrays["next"], table.arrays["prev"]))

    def key_output(self, touched: Extract) -> pa.RecordBatch | None:
        n = len(touched)
        best_first = np.lexsort((touched.keys.parts, ~np.asarray(touched.columns[BY])))
        rows, starts = by_key(touched.keys, best_first, fixed_key=self.layout.fixed_key)
        rank = np.arange(n) - np.repeat(starts[:-1], np.diff(starts)) + 1
        offsets, data = touched.columns[ROW]
        order = pa.array(rows)
        columns = [column.take(order) for column in unpack(offsets[:-1], data, self.types)]
        keys = [column.take(order) for column in self.key.decode(touched.keys)]
        return pa.RecordBatch.from_arrays([*keys, pa.array(rank, pa.int32()), *columns], schema=self.output)


def in_order(lane: LaneColumn) -> NDArray[np.int64]:
    """Values as integers in the same order, with null below everything and NaN above.

    >>> in_order(to_lane(pa.array([2.0, None, float("nan"), -1.0]))).argsort().tolist()
    [1, 3, 0, 2]
    """
    if lane.lane is Lane.F64:
        plain = np.where(np.isnan(lane.data), np.nan, lane.data + 0.0)  # one NaN, one zero
        bits = plain.view(np.int64)
        values = bits ^ ((bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))
    else:
        values = np.maximum(lane.data, -(2**63) + 1)
    return values if len(lane.valid) == 0 else np.where(lane.valid == 1, values, np.int64(-(2**63)))


@compiled
def largest(k, rows, keys, values, listed, starts, kept):
    """(new rows that enter a list, state rows that leave one), over all keys.

    The rows of a key come in the order of their numbers.
    """
    taken = np.empty(len(rows), np.int64)
    gone = np.empty(len(listed), np.int64)
    t = 0
    d = 0
    ids = np.empty(k, np.int64)  # the list, best first: n for a state row, -1 - n for a new row
    best = np.empty(k, np.int64)
    for g in range(len(keys) - 1):
        mine = listed[starts[g] : starts[g + 1]]
        n = 0
        for i in range(len(mine) + keys[g + 1] - keys[g]):
            old = i < len(mine)
            r = mine[i] if old else rows[keys[g] + i - len(mine)]
            value = kept[r] if old else values[r]
            if n == k and value <= best[k - 1]:
                continue
            if n == k:
                if ids[k - 1] >= 0:
                    gone[d] = ids[k - 1]
                    d += 1
                n -= 1
            at = n
            while at > 0 and best[at - 1] < value:
                best[at], ids[at] = best[at - 1], ids[at - 1]
                at -= 1
            best[at], ids[at] = value, (r if old else -1 - r)
            n += 1
        for i in range(n):
            if ids[i] < 0:
                taken[t] = -1 - ids[i]
                t += 1
    return taken[:t].copy(), gone[:d].copy()


@compiled
def _whole_lists(touched, following, prev):
    """All rows of the keys of the touched rows, without duplicates."""
    seen = np.zeros(len(following), np.uint8)
    out = np.empty(len(following), np.int64)
    n = 0
    for row in touched:
        while prev[row] > 0:
            row = prev[row] - 1
        while row >= 0 and seen[row] == 0:
            seen[row] = 1
            out[n] = row
            n += 1
            row = following[row] - 1
    return out[:n].copy()
