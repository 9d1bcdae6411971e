"""Columns that no operator reads go through all of them, without Spark as with it: state, moves, crashes, rows put aside."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate import agg
from headgate.errors import KernelRefused, MissingColumn, UnsupportedType
from headgate.operators.base import Operator
from headgate.state.keys import KeySpec
from headgate.state.payload import Payload, plain_type

TAGS = pa.list_(pa.string())
SCHEMA = pa.schema([
    ("k", pa.string()), ("i", pa.int64()), ("t", pa.timestamp("us")), ("tags", TAGS),
    ("pos", pa.struct([("x", pa.float64()), ("y", pa.map_(pa.string(), pa.list_(pa.int8())))])),
    ("none", pa.null()), ("at", pa.time64("ns")), ("vector", Payload(pa.list_(pa.float64()), "vector", "{}")),
])  # fmt: skip
NAMES = ["tags", "pos", "none", "at", "vector"]
HARD: dict[str, Any] = {"crash": [1], "move": [1, 2], "batches": 3}


def rows() -> pa.Table:
    found: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    for i in range(12):
        found["k"].append("abcd"[i % 4])
        found["i"].append(i)
        found["t"].append(dt.datetime(2024, 1, 1, 0, i))
        found["tags"].append([None, [], ["a", None], ["b", "c"]][i % 4])
        found["pos"].append(None if i % 5 == 0 else {"x": i * 0.5, "y": [("k", [i, None]), ("l", None)]})
        found["none"].append(None)
        found["at"].append(dt.time(i))
        found["vector"].append([float(i)] if i % 3 else None)
    kinds = [f.type for f in SCHEMA]
    arrays = [
        pa.ExtensionArray.from_storage(kind, pa.array(column, kind.storage_type))
        if isinstance(kind, Payload)
        else pa.array(column, kind)
        for column, kind in zip(found.values(), kinds, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def seen(table: list[dict[str, Any]], *names: str) -> list[str]:
    return sorted(repr([row[n] for n in names or ("k", *NAMES)]) for row in table)


@hg.kernel(state={"n": int}, output={"nth": int}, keep=NAMES)
def nth(state, row):
    state.n += 1
    return state.n


@pytest.mark.parametrize(
    ("operator", "of"),
    [
        (hg.Dedup(), slice(0, 4)),
        (hg.TopK(9, by="i"), slice(0, 12)),
        (nth, slice(0, 12)),
        (hg.HistoryWindow(2, "mean", of="i", keep=NAMES), slice(0, 12)),
    ],
    ids=str,
)
def test_rows_come_out_with_all_their_columns(operator: Operator, of: slice) -> None:
    found = hg.testing.run(operator, rows(), key="k", **HARD)
    wanted = rows().to_pylist()[of]
    got = found.batches[-1] if isinstance(operator, hg.TopK) else found.table
    assert seen(got.to_pylist()) == seen(wanted)
    assert {n: got.schema.field(n).type for n in NAMES} == {
        n: plain_type(SCHEMA.field(n).type) for n in NAMES
    }


def test_first_last_and_count_of_any_type() -> None:
    aggregates = {f"{f}_{n}": getattr(agg, f)(n) for f in ("first", "last", "count") for n in NAMES}
    found = hg.testing.run(hg.Aggregate(**aggregates), rows(), key="k", **HARD).batches[-1].to_pylist()
    given = rows().to_pylist()
    for at, row in enumerate(sorted(found, key=lambda row: row["k"])):
        mine = [one for one in given if one["k"] == "abcd"[at]]
        for n in NAMES:
            assert row[f"first_{n}"] == mine[0][n]
            assert row[f"last_{n}"] == mine[-1][n]
            assert row[f"count_{n}"] == sum(one[n] is not None for one in mine)


def test_late_rows_have_all_their_columns() -> None:
    found = hg.testing.run(hg.Dedup(on="t", delay="0 s"), rows(), key="k", batches=[4, 4, 4], late={0: 2})
    assert seen(list(found.aside)) == seen(rows().to_pylist()[:1])


def reads_tags(state, row):
    if row.tags is None:
        return None
    return state.n


@pytest.mark.parametrize("compiled", [True, False])
def test_a_kernel_that_reads_such_a_column_is_told_its_type_and_what_to_do(compiled: bool) -> None:
    made = hg.kernel(state={"n": int}, output={"n": int}, compiled=compiled)(reads_tags)
    with pytest.raises(KernelRefused, match=r"column 'tags' has type list<.*keep=\['tags'\]"):
        hg.testing.run(made, rows(), key="k")


@pytest.mark.parametrize(
    ("operator", "key", "error", "said"),
    [
        (hg.Dedup(), "tags", UnsupportedType, "key column 'tags' has type list<.*, which cannot be a key; take"),
        (hg.Dedup(), "vector", UnsupportedType, "key column 'vector' has type vector, which cannot be a key"),
        (hg.Aggregate(m=agg.max("pos")), "k", UnsupportedType, r"column 'pos' has type .*max\('pos'\) cannot"),
        (hg.Aggregate(m=agg.sum("vector")), "k", UnsupportedType, "but column 'vector' has type vector"),
        (hg.TopK(1, by="vector"), "k", UnsupportedType, "column 'vector' has type vector, which it cannot"),
        (hg.Aggregate(m=agg.count("absent")), "k", MissingColumn, "reads column 'absent'"),
    ],
)  # fmt: skip
def test_what_such_a_column_cannot_be_is_refused(
    operator: Operator, key: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        hg.testing.run(operator, rows(), key=key)


def test_what_cannot_be_carried_is_refused_where_it_is_used() -> None:
    schema = pa.schema(
        [("k", pa.int64()), ("c", Payload(pa.bool_(), "interval", refusal="column 'c' cannot"))]
    )
    key = KeySpec(("k",), (pa.int64(),))
    for operator in (hg.Dedup(), hg.TopK(1, by="k"), hg.Aggregate(n=agg.count("c"))):
        with pytest.raises(UnsupportedType, match="column 'c' cannot"):
            operator.bind(key, schema)
    hg.Aggregate(n=agg.count()).bind(key, schema)
