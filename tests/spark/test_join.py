"""A stream joined with a table that lives in the stage's state: as native Spark joins them, whatever is moved or refreshed."""

import datetime as dt
import runpy
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.spark.test_random_flow import SETTINGS, Whim, live

import headgate as hg
from headgate import errors
from headgate.policies import Guard

BUILD = "id long, name string, price decimal(10,2), day date, score double"


def build_rows(count: int) -> list[tuple[Any, ...]]:
    """None to three build rows for each key, with nulls among values and keys."""
    rows: list[tuple[Any, ...]] = []
    for i in range(count):
        for n in range(i % 4):
            name = None if i % 5 == 0 else f"name {i} " + "x" * (i % 30)
            rows.append(
                (i, name, Decimal(i) / 4, dt.date(2024, 1, 1) + dt.timedelta(days=n), None if n else i / 3)
            )
    return [*rows, (None, "nobody", None, None, None)]


def probe_rows(batches: int, rows: int = 150, keys: int = 50) -> list[list[tuple[Any, Any]]]:
    return [
        [(None if i % 31 == 0 else (i * 7 + b) % keys, i + 1000 * b) for i in range(rows)]
        for b in range(batches)
    ]


def joined(stage: Any) -> list[str]:
    return sorted(str(tuple(row.values())) for row in stage.sink.table().to_pylist())


def natively(spark: Any, batches: list[Any], build: Any, how: str) -> list[str]:
    probe = spark.createDataFrame([row for batch in batches for row in batch], "k long, v long")
    rows = probe.join(build, probe.k == build.id, how).select("k", "v", "name", "price", "day", "score")
    return sorted(str(tuple(row)) for row in rows.collect())


@pytest.mark.parametrize("how", ["inner", "left"])
def test_it_equals_the_native_join(how: Any, make_stage: Any, feed: Any, spark: Any) -> None:
    build = spark.createDataFrame(build_rows(40), BUILD)
    data = probe_rows(4)
    stage = make_stage(hg.HashJoin(build=build, on="id", how=how))
    feed(stage, data[:2])
    again = make_stage(hg.HashJoin(build=build, on="id", how=how), sink=stage.sink)
    feed(again, data[2:], start=2)
    assert joined(again) == natively(spark, data, build, how)
    written = [sum(one.delta_bytes for one in e.report.channels) for e in again.journal()]
    assert written[1:] == [0, 0, 0], "probing writes no state"
    assert sum(one.rebuilt_bins for one in again.journal()[1].report.channels) == 0, "and finds it in memory"


def test_moves_pins_spills_bursts_and_rescales_change_no_answer(
    make_stage: Any, feed: Any, spark: Any
) -> None:
    build = spark.createDataFrame(build_rows(40), BUILD)
    data = probe_rows(6)
    stage = make_stage(
        hg.HashJoin(build=build, on="id", how="left"), policy=Whim(3, splits=False), **SETTINGS
    )
    live(stage, feed, data, 3)
    assert joined(stage) == natively(spark, data, build, "left")


def test_the_build_side_is_refreshed_by_rows(make_stage: Any, feed: Any, spark: Any) -> None:
    def rows(*values: tuple[Any, ...]) -> Any:
        return spark.createDataFrame(list(values), "id long, name string")

    def names(batch: int) -> list[tuple[int, str]]:
        return sorted((row["k"], row["name"]) for row in stage.sink.batches[batch].to_pylist())

    stage = make_stage(hg.HashJoin(build=rows((1, "a"), (1, "b"), (2, "c")), on="id"))
    probe = [(1, 0), (2, 0), (3, 0)]
    feed(stage, [probe])
    assert names(0) == [(1, "a"), (1, "b"), (2, "c")]
    stage.refresh(rows((1, "new"), (3, "d")))
    stage.refresh(rows((2, "more")), mode="append")
    feed(stage, [probe], start=1)
    assert names(1) == [(1, "new"), (2, "c"), (2, "more"), (3, "d")]
    stage = make_stage(hg.HashJoin(build=rows((9, "not loaded again")), on="id"), sink=stage.sink)
    stage.refresh(rows((2, "")), mode="delete")
    feed(stage, [[*probe, (9, 0)]], start=2)
    assert names(2) == [(1, "new"), (3, "d")]
    assert not list((Path(stage.store.path()) / "refresh").iterdir())


def test_keys_of_several_columns(make_stage: Any, feed: Any, spark: Any) -> None:
    build = spark.createDataFrame(
        [("x", 1, "x1"), ("x", 2, "x2"), (None, 1, "none")], "a string, b int, what string"
    )
    stage = make_stage(hg.HashJoin(build=build, how="left"), key=["a", "b"])
    feed(stage, [[("x", 1, 5), ("x", 3, 6), (None, 1, 7)]], "a string, b int, v long")
    found = sorted((row["v"], row["what"]) for row in stage.sink.batches[0].to_pylist())
    assert found == [(5, "x1"), (6, None), (7, None)]


def test_what_cannot_be_joined_is_refused_by_name(make_stage: Any, feed: Any, spark: Any) -> None:
    build = spark.createDataFrame([(1, "a")], "id long, name string")
    rows = [[(1, 2)]]
    with pytest.raises(errors.ConfigError, match="'inner' or 'left'"):
        hg.HashJoin(build=build, on="id", how="full")  # type: ignore[arg-type]
    with pytest.raises(errors.ConfigError, match="is not a DataFrame"):
        hg.HashJoin(build="orders", on="id")
    with pytest.raises(errors.MissingColumn, match="nowhere"):
        feed(make_stage(hg.HashJoin(build=build, on="nowhere")), rows)
    with pytest.raises(errors.ConfigError, match="cast one of them"):
        feed(make_stage(hg.HashJoin(build=build, on="name")), rows)
    with pytest.raises(errors.ConfigError, match="column 'v' twice"):
        feed(make_stage(hg.HashJoin(build=build.withColumnRenamed("name", "v"), on="id")), rows)
    with pytest.raises(errors.ConfigError, match="no build side"):
        make_stage(hg.HistoryWindow(3, "mean", of="v")).refresh(build)


def test_it_adapts_while_probing(make_stage: Any, feed: Any, spark: Any) -> None:
    build = spark.createDataFrame([(i, f"n{i}") for i in range(200)], "id long, name string")
    data = [[(i % 3 if i % 2 else i % 200, i) for i in range(600)] for _ in range(5)]
    stage = make_stage(
        hg.HashJoin(build=build, on="id"),
        policy="rebuild",
        bins=32,
        guard=Guard(min_gain=0, cool_down_batches=0),
    )
    feed(stage, data)
    reports = [e.report for e in stage.journal()]
    assert reports[-1].row_imbalance < reports[0].row_imbalance
    assert stage.journal()[-1].decision.table.pins
    assert sum(t.num_rows for t in stage.sink.batches.values()) == 3000


def test_lineitem_probes_orders_as_the_example_says(spark: Any, tmp_path: Path) -> None:
    """TPC-H's tables, a slow channel, and native Spark's answer."""
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "tpch_join.py"))
    example["generate"](0.002, tmp_path / "tpch")
    stage = example["join"](spark, tmp_path / "tpch", tmp_path / "work")
    lines = spark.read.parquet(str(tmp_path / "tpch" / "lineitem"))
    orders = spark.read.parquet(str(tmp_path / "tpch" / "orders.parquet"))
    native = lines.join(orders, lines.l_orderkey == orders.o_orderkey)
    ours = spark.read.parquet(str(tmp_path / "work" / "joined")).drop("batch")
    native = native.select(*ours.columns)
    assert ours.count() == lines.count()
    assert ours.exceptAll(native).count() == 0
    assert any(entry.decision.changed for entry in stage.journal()), "the slow channel shed bins"
