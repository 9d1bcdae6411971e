# mypy: allow-untyped-defs, allow-untyped-calls
"""Flux's windowed group-by (FLUX-46): the last k rows of each key, and for every row statistics over them.

It cannot combine rows before the exchange, so skew affects it most. The result equals SQL's `stat(x)
OVER (PARTITION BY key ORDER BY arrival ROWS BETWEEN k-1 PRECEDING AND CURRENT ROW)`: a null takes a
place in the window and is ignored by the statistic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.compiled import compiled
from headgate.errors import ConfigError
from headgate.operators import accumulators as acc
from headgate.operators.base import BoundOperator, Chunk, Operator, column_type
from headgate.operators.columns import column_name, column_names
from headgate.state.kernels import ring_push
from headgate.state.keys import KeySpec
from headgate.state.lanes import LaneColumn, to_lane
from headgate.state.layout import Kind, StateColumn, StateLayout
from headgate.state.table import BinTable

STATS = ("mean", "std", "min", "max", "median")
NULL_BITS = 0x7FF8DEADBEEF0000
NULL = np.array([NULL_BITS], np.int64).view(np.float64)[0]
"""A NaN with this payload is a null in a ring; ordinary NaNs are written with another payload."""


class HistoryWindow(Operator):
    """The last `k` values of column `of` per key, and for every row one or more statistics over them.

    Emits one row per input row: the key columns, the columns to `keep` (by default `of`), and each
    statistic under its name.

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
        self.k, self.stats, self.of = k, stats, column_name(of, "of")
        self.keep = (self.of,) if keep is None else column_names(keep, "keep")

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
                f"{self!r} would emit column {twice[0]!r} twice; omit it from keep or rename the input"
            )
        return BoundHistory(self, key, schema)


class BoundHistory(BoundOperator):
    """A history window bound to the key and schema of a stream."""

    ordered = True
    whole = "HistoryWindow cannot split a key, because each result needs the earlier rows of the key"
    resources = "CLL"  # at most k rows are kept; a row costs at most O(k), whatever the key's frequency

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
        return {"value": to_lane(rows.column(self.config.of).cast(pa.float64(), safe=False))}

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
            null = values.view(np.int64) == NULL_BITS
            arrays.append(pa.array(values, mask=null if null.any() else None))
        return pa.RecordBatch.from_arrays(arrays, schema=self.output)


@compiled
def is_null(value):
    """Whether a NaN is our null (a NaN differs from itself, so its bits are compared)."""
    return np.float64(value).view(np.int64) == NULL_BITS


@compiled
def total_of(x, j, n):
    """Sum of x[j:n] in eight fixed lanes: fast, and the same bits on every machine."""
    a = b = c = d = e = f = g = h = 0.0
    while j + 8 <= n:
        a += x[j]
        b += x[j + 1]
        c += x[j + 2]
        d += x[j + 3]
        e += x[j + 4]
        f += x[j + 5]
        g += x[j + 6]
        h += x[j + 7]
        j += 8
    while j < n:
        a += x[j]
        j += 1
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@compiled
def squares_of(x, j, n, mean):
    """Sum of squared deviations of x[j:n], in eight fixed lanes."""
    a = b = c = d = e = f = g = h = 0.0
    while j + 8 <= n:
        a += (x[j] - mean) ** 2
        b += (x[j + 1] - mean) ** 2
        c += (x[j + 2] - mean) ** 2
        d += (x[j + 3] - mean) ** 2
        e += (x[j + 4] - mean) ** 2
        f += (x[j + 5] - mean) ** 2
        g += (x[j + 6] - mean) ** 2
        h += (x[j + 7] - mean) ** 2
        j += 8
    while j < n:
        a += (x[j] - mean) ** 2
        j += 1
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@compiled
def without_nulls(x, lo, hi, out):
    """Copy the values that are not null; return their number."""
    kept = 0
    for j in range(lo, hi):
        if not is_null(x[j]):
            out[kept] = x[j]
            kept += 1
    return kept


@compiled
def roll(header, heap64, off, length, cap, at, fresh, slots, order, lo, data, valid, k, wanted, scratch, out):
    """Append each row's value and compute the wanted statistics over its history; resumable from `lo`."""
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
        x = heap64
        first = (off[s] >> 3) + at[s]
        end = first + length[s]
        total = total_of(x, first, end)
        if total != total:
            end = without_nulls(x, first, end, scratch)
            x = scratch
            first = 0
            total = total_of(x, first, end)
        n = end - first
        if n == 0:
            continue
        mean = total / n
        if wanted[0]:
            out[0, r] = mean
        if wanted[1] and n > 1:
            out[1, r] = np.sqrt(squares_of(x, first, end, mean) / (n - 1))
        if wanted[2] or wanted[3]:
            low, high = extremes(x, first, end)
            out[2, r] = low
            out[3, r] = high
        if wanted[4]:
            out[4, r] = median(x[first:end])
    return len(slots)


@compiled
def extremes(x, lo, hi):
    """Smallest and largest of x[lo:hi], with NaN above all numbers, as Spark orders them."""
    low, high, nans = np.inf, -np.inf, 0
    for j in range(lo, hi):
        if x[j] != x[j]:
            nans += 1
        else:
            low = min(low, x[j])
            high = max(high, x[j])
    return (low if nans < hi - lo else np.nan), (np.nan if nans else high)


@compiled
def median(values):
    """The median, with NaN above all numbers, as Spark orders them."""
    ordered = np.sort(values)
    n = len(ordered)
    if n % 2:
        return ordered[n // 2]
    return (ordered[n // 2 - 1] + ordered[n // 2]) / 2
