"""Aggregates and histories equal native Spark's on the same rows: every key type, every value type, nulls
included.
"""

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

import headgate as hg
from headgate import agg

DAY = dt.date(2024, 2, 28)
NOON = dt.datetime(2024, 2, 29, 12)
KEYS: dict[str, tuple[T.DataType, list[Any]]] = {
    "boolean": (T.BooleanType(), [True, False]),
    "byte": (T.ByteType(), [-128, 0, 127]),
    "short": (T.ShortType(), [-300, 0, 300]),
    "int": (T.IntegerType(), [-(2**31), 0, 2**31 - 1]),
    "long": (T.LongType(), [-(2**63), 0, 2**63 - 1]),
    "float": (T.FloatType(), [0.0, -0.0, 1.5, float("nan"), float("inf")]),
    "double": (T.DoubleType(), [0.0, -0.0, 1e300, float("nan")]),
    "string": (T.StringType(), ["", "a", "ä", "a" * 200, "\x00"]),
    "binary": (T.BinaryType(), [b"", b"\x00", b"\xff" * 40]),
    "date": (T.DateType(), [DAY, dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "timestamp": (T.TimestampType(), [NOON, dt.datetime(1900, 1, 1, 0, 0, 0, 1)]),
    "timestamp_ntz": (T.TimestampNTZType(), [NOON, dt.datetime(1900, 1, 1, 0, 0, 0, 1)]),
    "decimal": (T.DecimalType(38, 4), [Decimal("-1.5"), Decimal("0"), Decimal("9" * 34 + ".1234")]),
}
STATS = {
    "rows": (agg.count(), "count(*)"),
    "known": (agg.count("i"), "count(i)"),
    "sum_i": (agg.sum("i"), "sum(i)"),
    "mean_i": (agg.mean("i"), "mean(i)"),
    "sum_x": (agg.sum("x"), "sum(x)"),
    "var_x": (agg.var("x"), "variance(x)"),
    "std_x": (agg.std("x"), "stddev(x)"),
    "sum_m": (agg.sum("m"), "sum(m)"),
    "mean_m": (agg.mean("m"), "mean(m)"),
    "std_m": (agg.std("m"), "stddev(m)"),
    **{f"min_{c}": (agg.min(c), f"min({c})") for c in ("i", "x", "m", "s", "b", "d", "t", "o")},
    **{f"max_{c}": (agg.max(c), f"max({c})") for c in ("i", "x", "m", "s", "b", "d", "t", "o")},
}
VALUES = "i int, x double, m decimal(12,2), s string, b binary, d date, t timestamp, o boolean"


def value_rows(count: int, seed: int) -> list[tuple[Any, ...]]:
    """Rows of every value type, a fifth of them null."""
    draw = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if draw.random() < 0.2 else value

    return [
        (
            maybe(draw.randint(-1000, 1000)),
            maybe(draw.choice([draw.uniform(-1e6, 1e6), float("nan") if seed == 3 else 0.0])),
            maybe(Decimal(draw.randint(-(10**9), 10**9)).scaleb(-2)),
            maybe("".join(draw.choices("abäzZ", k=draw.randint(0, 6)))),
            maybe(draw.randbytes(draw.randint(0, 9))),
            maybe(DAY + dt.timedelta(days=draw.randint(-5000, 5000))),
            maybe(NOON + dt.timedelta(microseconds=draw.randint(-(10**15), 10**15))),
            maybe(draw.random() < 0.5),
        )
        for _ in range(count)
    ]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return bool(a == b)


def canonical(value: Any) -> Any:
    """NaN keys compare equal, and so do the two zeros."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return bytes(value) if isinstance(value, bytearray) else value


# Of bytes and ints the tests of the exchange compare the hash, and what follows is the same as for shorts and longs.
@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=pytest.mark.full) if k in ("byte", "int") else k for k in KEYS]
)
def test_aggregates_by_a_key_of_any_type_equal_native(kind: str, spark: Any, make_stage: Any) -> None:
    key_type, keys = KEYS[kind]
    schema = T.StructType([T.StructField("k", key_type), *T.StructType.fromDDL(VALUES).fields])
    draw = random.Random(kind)
    batches = [[(draw.choice([*keys, None]), *v) for v in value_rows(60, seed=b)] for b in range(3)]
    stage = make_stage(hg.Aggregate(**{n: a for n, (a, _) in STATS.items()}))
    for b, rows in enumerate(batches):
        stage(spark.createDataFrame(rows, schema), b)
    native = spark.createDataFrame([r for rows in batches for r in rows], schema).groupBy("k")
    expected = {
        canonical(r.k): r for r in native.agg(*(F.expr(f).alias(n) for n, (_, f) in STATS.items())).collect()
    }
    table = stage.sink.table()
    path = stage.store.path("compared.parquet")
    pq.write_table(table, path)
    got = {canonical(r.k): r for r in spark.read.parquet(path).collect()}
    assert set(got) == set(expected)
    assert [f.dataType for f in spark.read.parquet(path).schema] == [key_type] + [
        f.dataType for f in native.agg(*(F.expr(f).alias(n) for n, (_, f) in STATS.items())).schema.fields[1:]
    ]
    wrong = [
        (k, n, got[k][n], expected[k][n])
        for k in expected
        for n in STATS
        if not same(got[k][n], expected[k][n])
    ]
    assert not wrong


def test_several_key_columns_with_nulls_equal_native(spark: Any, make_stage: Any) -> None:
    draw = random.Random(5)
    rows = [
        [
            (
                draw.choice([None, "", "a", "b"]),
                draw.choice([None, 0, 1]),
                draw.choice([None, DAY]),
                draw.random(),
            )
            for _ in range(80)
        ]
        for _ in range(3)
    ]
    schema = "a string, b int, c date, v double"
    stage = make_stage(hg.Aggregate(n=agg.count(), total=agg.sum("v")), key=["a", "b", "c"])
    for b, batch in enumerate(rows):
        stage(spark.createDataFrame(batch, schema), b)
    native = spark.createDataFrame([r for batch in rows for r in batch], schema).groupBy("a", "b", "c")
    expected = {
        (r.a, r.b, r.c): (r.n, r.total)
        for r in native.agg(F.count("*").alias("n"), F.sum("v").alias("total")).collect()
    }
    got = {k: (r["n"], r["total"]) for k, r in stage.sink.latest("a", "b", "c").items()}
    assert got.keys() == expected.keys()
    assert all(got[k][0] == expected[k][0] and math.isclose(got[k][1], expected[k][1]) for k in got)


def test_first_and_last_follow_the_source_order(spark: Any, make_stage: Any) -> None:
    rows = [(i % 5, None if i % 3 == 0 else i, f"s{i}") for i in range(100)]
    stage = make_stage(
        hg.Aggregate(
            first=agg.first("v"), last=agg.last("v"), first_known=agg.first("v", ignore_nulls=True),
            last_known=agg.last("v", ignore_nulls=True), word=agg.last("s"),
        )
    )  # fmt: skip
    for b in range(4):
        frame = spark.createDataFrame(rows[25 * b : 25 * b + 25], "k int, v int, s string").repartition(1)
        stage(frame, b)
    for key, row in stage.sink.latest("k").items():
        mine = [r for r in rows if r[0] == key[0]]
        known = [r[1] for r in mine if r[1] is not None]
        want = (mine[0][1], mine[-1][1], known[0], known[-1], mine[-1][2])
        assert (row["first"], row["last"], row["first_known"], row["last_known"], row["word"]) == want


def median(values: list[float]) -> float | None:
    """Spark has no median over a frame; NaN is above all numbers."""
    ordered = sorted(values, key=lambda v: (math.isnan(v), v))
    half = len(ordered) // 2
    if not ordered:
        return None
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


@pytest.mark.parametrize("k", [1, 3, 100])
def test_history_equals_a_native_window(k: int, spark: Any, make_stage: Any) -> None:
    draw = random.Random(k)
    rows = [
        (
            i,
            draw.choice(["a", "b", "c", None]),
            draw.choice([None, draw.gauss(0, 1e3), float(draw.randint(0, 5))]),
        )
        for i in range(400)
    ]
    if k == 3:
        rows[50] = (50, "a", float("nan"))
    names = ["mean", "std", "min", "max", "median"]
    stage = make_stage(hg.HistoryWindow(k, names, of="v", keep=["i", "v"]))
    for b in range(4):
        part = spark.createDataFrame(rows[100 * b : 100 * b + 100], "i int, k string, v double")
        stage(part.repartition(2).sortWithinPartitions("i").coalesce(1).sort("i"), b)
    window = Window.partitionBy("k").orderBy("i").rowsBetween(-(k - 1), 0)
    functions = {"mean": F.mean, "std": F.stddev, "min": F.min, "max": F.max, "median": F.collect_list}
    native = spark.createDataFrame(rows, "i int, k string, v double")
    columns = [functions[n]("v").over(window).alias(n) for n in names]
    expected = {
        r.i: {**r.asDict(), "median": median(r.median)} for r in native.select("i", *columns).collect()
    }
    got = {r["i"]: r for r in stage.sink.table().to_pylist()}
    assert len(got) == len(rows)
    wrong = [
        (i, n, got[i][n], expected[i][n]) for i in got for n in names if not same(got[i][n], expected[i][n])
    ]
    assert not wrong
