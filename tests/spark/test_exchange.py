"""The exchange: where the JVM sends a row is where the table says, nothing is lost, and order within a key is
kept.
"""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import headgate as hg
from headgate import agg
from headgate.routing.table import Pin, Table
from headgate.spark.exchange import Exchange, hash_of
from headgate.stage.routed_rows import hashes_of
from headgate.state.keys import KeySpec


def bound(key: KeySpec, source: pa.Schema, operator: Any = None) -> Any:
    return (operator or hg.Aggregate(n=agg.count())).bind(key, source)


def pinned_table() -> Table:
    draw = random.Random(1)
    hashes = [
        int(h)
        for h in hashes_of(
            pa.RecordBatch.from_pydict({"k": pa.array(range(20))}), KeySpec(("k",), (pa.int64(),))
        )
    ]
    pins = tuple(Pin(h, 64 + 2 * i, f"key {i}") for i, h in enumerate(hashes))
    assignment = tuple(draw.randrange(5) for _ in range(64 + len(pins)))
    return Table(version=3, from_batch=0, channels=5, hash_bins=64, assignment=assignment, pins=pins)


@pytest.mark.parametrize(
    "table", [Table.uniform(64, 5), Table.ring(64, 5), pinned_table()], ids=["uniform", "ring", "pinned"]
)
def test_rows_reach_the_channel_that_the_table_names(table: Table, spark: Any) -> None:
    key = KeySpec(("k",), (pa.int64(),))
    exchange = Exchange(bound(key, pa.schema([("k", pa.int64())])))
    routed = exchange.routed(spark.range(5000).select(F.col("id").alias("k")), table)
    rows = routed.select(F.col("c0").alias("k"), F.spark_partition_id().alias("channel")).collect()
    keys = np.array([r.k for r in rows])
    hashes = hashes_of(pa.RecordBatch.from_pydict({"k": pa.array(keys)}), key)
    assert sorted(keys.tolist()) == list(range(5000))
    assert table.channel_of_hash(hashes).tolist() == [r.channel for r in rows]
    assert routed.rdd.getNumPartitions() == table.channels


def test_an_integer_is_hashed_the_same_on_both_sides(spark: Any) -> None:
    values = [0, 1, -1, 2**31 - 1, -(2**31), None]
    for kind, spark_type in [(pa.int8(), "byte"), (pa.int32(), "int"), (pa.int64(), "long")]:
        mine = [v for v in values if v is None or (kind != pa.int8() or -128 <= v < 128)]
        key = KeySpec(("k",), (kind,))
        frame = spark.createDataFrame([(v,) for v in mine], f"k {spark_type}").select(hash_of(key).alias("h"))
        rows = pa.RecordBatch.from_arrays([pa.array(mine, kind)], ["k"])
        assert [r.h for r in frame.collect()] == hashes_of(rows, key).tolist()


def test_no_python_runs_before_the_shuffle(spark: Any) -> None:
    key = KeySpec(("a", "b"), (pa.string(), pa.float64()))
    source = pa.schema([("a", pa.string()), ("b", pa.float64()), ("v", pa.float64())])
    exchange = Exchange(bound(key, source, hg.HistoryWindow(5, "mean", of="v")))
    frame = spark.createDataFrame([("x", 1.0, 2.0)], "a string, b double, v double")
    plan = exchange.routed(frame, pinned_table())._jdf.queryExecution().executedPlan().toString()
    assert "Python" not in plan
    assert plan.count("Exchange") == 1


def test_rows_of_a_key_arrive_in_the_order_of_the_source(spark: Any, make_stage: Any) -> None:
    stage = make_stage(hg.HistoryWindow(1, "mean", of="v", keep=["v"]), channels=3)
    frame = spark.range(0, 3000, 1, 4).select(
        (F.col("id") % 7).alias("k"), F.col("id").cast("double").alias("v")
    )
    stage(frame, 0)
    seen: dict[int, list[float]] = {}
    for row in stage.sink.table().to_pylist():
        seen.setdefault(row["k"], []).append(row["v"])
    assert seen == {k: [float(v) for v in range(3000) if v % 7 == k] for k in range(7)}


@pytest.mark.parametrize("name", ["user", "current_date", "c0", "c1", "__headgate_channel"])
def test_names_that_mean_something_to_spark_are_only_names(name: str, spark: Any, make_stage: Any) -> None:
    stage = make_stage(hg.Aggregate(n=agg.count(), top=agg.max("v")), key=name)
    stage(spark.createDataFrame([(1, "a", 2), (1, "b", 3)], f"v int, w string, `{name}` int").drop("w"), 0)
    assert sorted(map(str, stage.sink.table().to_pylist())) == [
        str({name: 2, "n": 1, "top": 1}),
        str({name: 3, "n": 1, "top": 1}),
    ]


def test_column_names_may_hold_anything(spark: Any, make_stage: Any) -> None:
    stage = make_stage(hg.Aggregate(n=agg.count("v.w")), key="a.b `c`")
    stage(spark.createDataFrame([(1, 2)], "`a.b ``c``` int, `v.w` int"), 0)
    assert stage.sink.table().to_pylist() == [{"a.b `c`": 1, "n": 1}]
