"""The aggregate against pyarrow's own group-by, on seeded random input."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headgate import agg
from headgate.operators.aggregate import Aggregate
from headgate.routing.table import Table
from headgate.state.keys import KeySpec
from headgate.testing.trial import Trial

EXACT = {
    "n": (agg.count(), [], "count_all"),
    "filled": (agg.count("i"), "i", "count"),
    "total": (agg.sum("i"), "i", "sum"),
    "low": (agg.min("f"), "f", "min"),
    "high": (agg.max("t"), "t", "max"),
    "shortest": (agg.min("s"), "s", "min"),
    "longest": (agg.max("s"), "s", "max"),
    "money": (agg.sum("d"), "d", "sum"),
    "least": (agg.min("d"), "d", "min"),
    "head": (agg.first("i", ignore_nulls=True), "i", "first"),
    "tail": (agg.last("s", ignore_nulls=True), "s", "last"),
    "any": (agg.max("b"), "b", "max"),
}
CLOSE = {
    "sum_f": (agg.sum("f"), "f", "sum"),
    "mean_i": (agg.mean("i"), "i", "mean"),
    "mean_f": (agg.mean("f"), "f", "mean"),
    "var_f": (agg.var("f"), "f", "variance"),
    "std_i": (agg.std("i"), "i", "stddev"),
}
KEYS = {
    "number": KeySpec(("k",), (pa.int64(),)),
    "text": KeySpec(("s",), (pa.string(),)),
    "several": KeySpec(("k", "s", "b"), (pa.int64(), pa.string(), pa.bool_())),
    "instant": KeySpec(("t",), (pa.timestamp("us", tz="UTC"),)),
    "decimal": KeySpec(("d",), (pa.decimal128(12, 2),)),
}


def random_rows(seed, n):
    draw = np.random.default_rng(seed)

    def column(values, kind):
        return pa.array(values, mask=draw.random(n) < 0.1).cast(kind)

    words = np.array(["", "a", "b", "ab", "äöü", "longer than eight bytes"], object)
    return pa.RecordBatch.from_pydict(
        {
            "k": column(draw.zipf(1.5, n) % 50, pa.int64()),
            "s": column(words[draw.integers(0, len(words), n)], pa.string()),
            "b": column(draw.integers(0, 2, n).astype(bool), pa.bool_()),
            "t": column(draw.integers(0, 30, n), pa.timestamp("us", tz="UTC")),
            "d": column(draw.integers(-500, 500, n), pa.decimal128(21, 2)).cast(pa.decimal128(12, 2)),
            "i": column(draw.integers(-(2**40), 2**40, n), pa.int64()),
            "f": column(draw.normal(100, 5, n), pa.float64()),
        }
    )


def by_key(table, key):
    return {tuple(row[n] for n in key.names): row for row in table.to_pylist()}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("key", list(KEYS.values()), ids=list(KEYS))
def test_equal_to_pyarrow(key, seed) -> None:
    rows, wanted = random_rows(seed, 3000), EXACT | CLOSE
    channels = Trial(Aggregate(**{n: one for n, (one, _, _) in wanted.items()}).bind(key, rows.schema))
    found: dict[Any, Any] = {}
    for start in range(0, rows.num_rows, 700):
        found |= by_key(channels.batch(rows.slice(start, 700), Table.uniform(8, 3)), key)
    ddof = pc.VarianceOptions(ddof=1)
    specs = [(c, f, ddof) if f in ("variance", "stddev") else (c, f) for _, c, f in wanted.values()]
    grouped = pa.Table.from_batches([rows]).group_by(list(key.names), use_threads=False).aggregate(specs)
    names = [f"{c}_{f}" if c else f for _, c, f in wanted.values()]
    expected = by_key(grouped, key)
    assert found.keys() == expected.keys()
    for k, row in expected.items():
        for name, theirs in zip(wanted, names, strict=True):
            if name in EXACT:
                assert found[k][name] == row[theirs], (k, name)
            elif row[theirs] is None:
                assert found[k][name] is None, (k, name)
            else:
                assert found[k][name] == pytest.approx(row[theirs], rel=1e-9), (k, name)
