"""Hypothesis strategies for Arrow columns of every type that headgate keeps in state, and
a way to compare them exactly.

Needs hypothesis, which the package doesn't depend on.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

_DAY_US = 86_400_000_000
_INSTANTS = st.integers(-50_000 * _DAY_US, 50_000 * _DAY_US)
_DOUBLES = st.sampled_from([0.0, -0.0, float("inf"), float("-inf"), float("nan")])


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    """Decimals of any size that the type holds."""
    limit = 10**precision - 1
    whole = st.integers(-limit, limit) | st.integers(-99, 99) | st.sampled_from([limit, -limit])
    return whole.map(lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)))


VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32) | _DOUBLES,
    pa.float64(): st.floats() | _DOUBLES,
    pa.decimal128(7, 2): decimals(7, 2),
    pa.decimal128(38, 10): decimals(38, 10),
    pa.decimal128(38, 38): decimals(38, 38),
    pa.string(): st.text(max_size=12) | st.text("ab", max_size=2),
    pa.binary(): st.binary(max_size=20),
    pa.date32(): st.integers(-50_000, 50_000),
    pa.timestamp("us"): _INSTANTS,
    pa.timestamp("us", tz="UTC"): _INSTANTS,
    pa.timestamp("us", tz="Europe/Amsterdam"): _INSTANTS,
    pa.duration("us"): _INSTANTS,
}
"""For each Arrow type, the values from which `column` makes an array; instants, dates
and durations are whole numbers.
"""

kinds = st.sampled_from(list(VALUES))


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An Arrow array from plain values.

    >>> column([0, None], pa.date32()).to_pylist()
    [datetime.date(1970, 1, 1), None]
    """
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).view(kind)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.array(values, pa.int64()).view(kind)
    return pa.array(values, kind)


@st.composite
def columns(draw: st.DrawFn, kind: pa.DataType, *, min_size: int = 0, max_size: int = 20) -> pa.Array:
    """A column with nulls, which may begin and end in the middle of its buffers."""
    values = draw(st.lists(st.none() | VALUES[kind], min_size=min_size, max_size=max_size))
    before, after = draw(st.integers(0, 9)), draw(st.integers(0, 2))
    filler = draw(st.lists(st.none() | VALUES[kind], min_size=before + after, max_size=before + after))
    return column([*filler[:before], *values, *filler[before:]], kind).slice(before, len(values))


def printed(data: pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table) -> list[Any]:
    """Values in a form in which equal means identical: NaN equals NaN, and zero differs from minus zero."""
    if isinstance(data, pa.RecordBatch | pa.Table):
        return list(zip(*(printed(c) for c in data.columns), strict=True))
    return [repr(v) if isinstance(v, float) else v for v in data.to_pylist()]
