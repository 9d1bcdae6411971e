"""Hashes of columns against Spark's own: every type of key, nulls, odd floats, long text."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from headgate.routing.column_hash import hash_columns, key_hashes
from headgate.spark.exchange import hash_of
from headgate.spark.types import arrow_type
from headgate.state.keys import KeySpec

NAN, INF = float("nan"), float("inf")
DAY = dt.datetime(2024, 2, 29, 12, 30, 1, 999_999, tzinfo=dt.UTC)
VALUES: dict[str, list[Any]] = {
    "boolean": [True, False, None, True],
    "byte": [1, -128, None, 127],
    "short": [1, -(2**15), None, 2**15 - 1],
    "int": [1, -(2**31), None, 2**31 - 1],
    "long": [1, -(2**63), None, 2**63 - 1],
    "float": [0.0, -0.0, None, NAN, 1.5, -INF],
    "double": [0.0, -0.0, None, NAN, 1.5, -INF],
    "string": ["", "gate", None, "žlutý kůň 🐎", "x" * 31, "x" * 32, "x" * 33, "long " * 50],
    "binary": [b"", b"\x00\xff", None, bytes(range(256))],
    "date": [dt.date(1969, 12, 31), dt.date(2024, 2, 29), None],
    "timestamp": [DAY, DAY - dt.timedelta(days=30_000), None],
    "timestamp_ntz": [DAY.replace(tzinfo=None), None],
    "interval day to second": [dt.timedelta(days=-3, microseconds=1), dt.timedelta(0), None],
    "decimal(7,2)": [Decimal("0.00"), Decimal("-12345.67"), None],
    "decimal(18,0)": [Decimal(10**18 - 1), Decimal(-(10**18) + 1), None],
    "decimal(19,3)": [Decimal("0.000"), Decimal("0.127"), Decimal("0.128"), Decimal("-0.128"), None],
    "decimal(38,10)": [Decimal("1234567890123456789012345678.0123456789"), Decimal("-0.0000000129"), None],
}


def test_columns_are_hashed_as_spark_hashes_them(spark: Any) -> None:
    n = max(map(len, VALUES.values()))
    filled = [[values[i % len(values)] for i in range(n)] for values in VALUES.values()]
    names = [f"c{i}" for i in range(len(VALUES))]
    schema = ", ".join(f"{name} {kind}" for name, kind in zip(names, VALUES, strict=True))
    frame = spark.createDataFrame(list(zip(*filled, strict=True)), schema).coalesce(1)
    keys = [KeySpec((f.name,), (arrow_type(f.dataType, f.name),)) for f in frame.schema]
    every = KeySpec(tuple(names), tuple(key.types[0] for key in keys))
    plain = [F.xxhash64(name).alias(f"h{i}") for i, name in enumerate(names)]
    stage = [hash_of(key).alias(f"s{i}") for i, key in enumerate(keys)]
    found = frame.select(*names, *plain, *stage, hash_of(every).alias("all")).collect()
    rows = pa.RecordBatch.from_arrays(
        [pa.array(v, t) for v, t in zip(filled, every.types, strict=True)], names
    )
    for i, key in enumerate(keys):
        array = rows.column(i)
        assert hash_columns([array], key.types).tolist() == [r[f"h{i}"] for r in found], key
        assert key_hashes(rows, key).tolist() == [r[f"s{i}"] for r in found], key
        assert hash_columns([array.slice(1)], key.types).tolist() == [r[f"h{i}"] for r in found][1:], key
    assert key_hashes(rows, every).tolist() == [r["all"] for r in found]
    assert key_hashes(rows.slice(3), every).tolist() == [r["all"] for r in found][3:]
