"""Whether two ways gave the same answers: rows of their Parquet folders, floats equal to 1e-9."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headgate.errors import HeadgateError
from headgate_lab.bench.nexmark import answers as nexmark
from headgate_lab.bench.nexmark.answers import INSTANT
from headgate_lab.bench.nexmark.queries import QUERIES

CLOSE = 1e-9
CLOSING_USER = -1
"""Whose rows only close what is open; they are not compared."""
NAMES = {"start": "window_start", "end": "window_end"}
"""What native calls some columns."""


@dataclass(frozen=True)
class Shape:
    """The columns of an answer. Where `newest` names some, the last answer for each value of them counts."""

    columns: tuple[str, ...]
    newest: tuple[str, ...] = ()


_WINDOWS = Shape(("user", "window_start", "window_end", "n", "total", "top"))
SHAPES = {
    "aggregate": Shape(("user", "n", "total", "top"), newest=("user",)),
    "zscore": Shape(("user", "z")),
    "history": Shape(("user", "amount", "mean", "std")),
    "dedup": Shape(("user", "amount", "time")),
    "topk": Shape(("user", "rank", "amount", "time"), newest=("user", "rank")),
    "tumbling": _WINDOWS,
    "hopping": _WINDOWS,
    "sessions": _WINDOWS,
}


def compared(operator: str, ours: Path, native: Path) -> tuple[int, int]:
    """How many answers native has, and how many rows only one of the two has."""
    if operator in QUERIES:
        query = QUERIES[operator]
        left, right = (nexmark.read(folder / "out", query) for folder in (ours, native))
        return right.num_rows, nexmark.differing(left, right)
    shape = SHAPES[operator]
    left, right = (read(folder / "out", shape) for folder in (ours, native))
    if operator == "topk":  # Spark counts from 0
        right = right.set_column(1, "rank", pc.add(right["rank"], 1).cast(left["rank"].type))
    return right.num_rows, differing(left, right)


def read(folder: Path, shape: Shape) -> pa.Table:
    """The answers in a folder of `batch=N` folders."""
    layout = ds.partitioning(pa.schema([("batch", pa.int64())]), flavor="hive")
    rows = ds.dataset(folder, format="parquet", partitioning=layout).to_table()
    rows = rows.rename_columns([NAMES.get(name, name) for name in rows.column_names])
    rows = rows.select([*shape.columns, "batch"])
    if pa.types.is_integer(rows["user"].type):
        rows = rows.filter(pc.not_equal(rows["user"], CLOSING_USER))
    if shape.newest:
        last = (
            rows.group_by(shape.newest).aggregate([("batch", "max")]).rename_columns([*shape.newest, "batch"])
        )
        rows = rows.join(last, [*shape.newest, "batch"], join_type="inner")
    rows = rows.select(shape.columns)
    kinds = [INSTANT if pa.types.is_timestamp(field.type) else field.type for field in rows.schema]
    return rows.cast(pa.schema(list(zip(rows.column_names, kinds, strict=True))))


def differing(ours: pa.Table, native: pa.Table) -> int:
    """Rows that only one of the two has.

    >>> one, other = pa.table({"k": [1, 2], "x": [0.3, 1.0]}), pa.table({"k": [2, 1], "x": [1.5, 0.1 + 0.2]})
    >>> differing(one, one), differing(one, other)
    (0, 1)
    """
    if not native.num_rows:
        raise HeadgateError("native has no answers, so there is nothing to compare with; take more rows")
    inexact = [field.name for field in native.schema if pa.types.is_floating(field.type)]
    exact = [name for name in native.column_names if name not in inexact]
    if ours.num_rows != native.num_rows:
        return _unmatched(ours.select(exact), native.select(exact))
    order = [(name, "ascending") for name in (*exact, *inexact)]
    ours, native = ours.sort_by(order), native.sort_by(order)
    same = np.ones(native.num_rows, bool)
    for name in exact:
        equal = pc.equal(ours[name], native[name].cast(ours[name].type))
        same &= equal.to_numpy()
    for name in inexact:
        left, right = (table[name].to_numpy() for table in (ours, native))
        same &= np.isclose(left, right, rtol=CLOSE, atol=CLOSE, equal_nan=True)
    return int((~same).sum())


def _unmatched(ours: pa.Table, native: pa.Table) -> int:
    """Rows that only one of the two has, each as often as it has it more."""
    return nexmark.differing(ours.cast(native.schema), native)
