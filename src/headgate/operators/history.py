"""Flux's windowed group-by (FLUX-46): per key the last k rows, and for every row a statistic over that history.

It cannot combine rows before the exchange, so it is the operator on which skew shows. The answer equals SQL's
`stat(x) OVER (PARTITION BY key ORDER BY arrival ROWS BETWEEN k-1 PRECEDING AND CURRENT ROW)`: a null takes a place in the window and
is left out of the statistic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.errors import ConfigError
from headgate.operators import accumulators as acc
from headgate.operators.base import BoundOperator, Chunk, column_type
from headgate.state.keys import KeySpec
from headgate.state.kernels import compiled, ring_push
from headgate.state.lanes import LaneColumn, to_lane
from headgate.state.layout import Kind, StateColumn, StateLayout
from headgate.state.table import BinTable

STATS = ("mean", "std", "min", "max", "median")
NULL = np.array([0x7FF8DEADBEEF0000], np.int64).view(np.float64)[0]
"""A NaN with a payload of our own stands for null in a ring; ordinary NaNs are written with another payload."""


class HistoryWindow:
    """The last `k` values of column `of` per key, and for every row one or more statistics over them.

    Emits one row per input row: the key columns, the columns to `keep` (by default `of`), and each statistic under its own name.

    >>> HistoryWindow(100, ["mean", "std"], of="amount")
    HistoryWindow(100, ['mean', 'std'], of='amount')
    """

    def __init__(
        self, k: int, stat: str | Sequence[str], *, of: str, keep: Sequence[str] | None = None
    ) -> None:
        stats = (stat,) if isinstance(stat, str) else tuple(stat)
        unknown = [s for s in stats if s not in STATS]
        if unknown or not stats:
            raise ConfigError(
                f"statistic {unknown[0] if unknown else '(none)'!r} is not one of {', '.join(STATS)}"
            )
        if not isinstance(k, int) or k < 1:
            raise ConfigError(f"a history window keeps at least one row, not k={k!r}")
        self.k, self.stats, self.of = k, stats, of
        self.keep = (of,) if keep is None else tuple(keep)

    def __repr__(self) -> str:
        keep = "" if self.keep == (self.of,) else f", keep={list(self.keep)}"
        return f"HistoryWindow({self.k}, {list(self.stats)}, of={self.of!r}{keep})"

    def bind(self, key: KeySpec, schema: pa.Schema) -> BoundHistory:
        """Check the window against the stream's columns."""
        acc.numeric(column_type(schema, self.of, repr(self)), "HistoryWindow", self.of)
        for name in self.keep:
            column_type(schema, name, repr(self))
        names = [*key.names, *self.keep, *self.stats]
        twice = [n for n in names if names.count(n) > 1]
        if twice:
            raise ConfigError(
                f"{self!r} would emit column {twice[0]!r} twice; leave it out of keep or rename the input"
            )
        return BoundHistory(self, key, schema)


class BoundHistory(BoundOperator):
    """A history window that knows its types."""

    ordered = True

    def __init__(self, config: HistoryWindow, key: KeySpec, schema: pa.Schema) -> None:
        self.config, self.key = config, key
        self.layout = StateLayout(key.is_fixed, (StateColumn("history", Kind.RING, config.k),))
        self.inputs = tuple(dict.fromkeys([config.of, *config.keep]))
        fields = [*zip(key.names, key.types, strict=True)]
        fields += [(n, schema.field(n).type) for n in config.keep]
        fields += [(s, pa.float64()) for s in config.stats]
        self.output = pa.schema([pa.field(n, t) for n, t in fields])
        self._type = str(schema.field(config.of).type)
        self._wanted = np.array([s in config.stats for s in STATS])

    def fingerprint(self) -> dict[str, Any]:
        return {
            "operator": repr(self.config),
            "inputs": {self.config.of: self._type},
            "state": self.layout.fingerprint(),
        }

    def lanes(self, rows: pa.RecordBatch) -> dict[str, LaneColumn]:
        return {"value": to_lane(rows.column(self.config.of).cast(pa.float64()))}

    def begin(self, chunk: Chunk) -> None:
        chunk.results["stats"] = np.full((len(STATS), len(chunk)), NULL)

    def update(
        self, table: BinTable, slots: NDArray[np.int64], order: NDArray[np.int64], chunk: Chunk
    ) -> None:
        lane, out, k = chunk.lanes["value"], chunk.results["stats"], self.config.k
        scratch = np.empty(k)
        table.run(
            lambda at: roll(
                table.header, table.heap64, *table.ring_parts("history"),
                slots, order, at, lane.data, lane.valid, k, self._wanted, scratch, out,
            ),
            len(slots),
        )  # fmt: skip

    def row_output(self, chunk: Chunk) -> pa.RecordBatch | None:
        arrays = [chunk.rows.column(n) for n in (*self.key.names, *self.config.keep)]
        for stat in self.config.stats:
            values = chunk.results["stats"][STATS.index(stat)]
            null = values.view(np.int64) == np.float64(NULL).view(np.int64)
            arrays.append(pa.array(values, mask=null if null.any() else None))
        return pa.RecordBatch.from_arrays(arrays, schema=self.output)


@compiled
def same_bits(a, b):
    """Bit equality of doubles (a NaN differs from itself)."""
    return np.float64(a).view(np.int64) == np.float64(b).view(np.int64)


@compiled
def roll(header, heap64, off, length, cap, at, fresh, slots, order, lo, data, valid, k, wanted, scratch, out):
    """Push each row's value and compute the wanted statistics over its ring; resumable from `lo`."""
    for i in range(lo, len(slots)):
        r = order[i]
        s = slots[i]
        value = data[r]
        if len(valid) > 0 and valid[r] == 0:
            value = NULL
        elif value != value:
            value = np.nan
        if not ring_push(header, heap64, off, length, cap, at, fresh, s, value, k):
            return i
        a = off[s] >> 3
        n = 0
        total = 0.0
        low = np.inf
        high = -np.inf
        nans = 0
        for j in range(length[s]):
            v = heap64[a + j]
            if v != v:
                if same_bits(v, NULL):
                    continue
                nans += 1
            else:
                low = min(low, v)
                high = max(high, v)
            scratch[n] = v
            total += v
            n += 1
        if n == 0:
            continue
        mean = total / n
        if wanted[0]:
            out[0, r] = mean
        if wanted[1] and n > 1:
            squares = 0.0
            for j in range(n):
                squares += (scratch[j] - mean) ** 2
            out[1, r] = np.sqrt(squares / (n - 1))
        if wanted[2]:
            out[2, r] = low if nans < n else np.nan
        if wanted[3]:
            out[3, r] = np.nan if nans else high
        if wanted[4]:
            out[4, r] = middle(scratch[:n])
    return len(slots)


@compiled
def middle(values):
    """The median, with NaN above all numbers, as Spark orders them."""
    ordered = np.sort(values)
    n = len(ordered)
    if n % 2:
        return ordered[n // 2]
    return (ordered[n // 2 - 1] + ordered[n // 2]) / 2
