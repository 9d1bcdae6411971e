"""Folders with any name: nothing in a path is a pattern or an escape, for Spark as little as for us."""

from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate import agg

NAMES = [
    "a b%20c#d[1]{y}?*",
    pytest.param("x[1]{y}?*", marks=pytest.mark.full),
    pytest.param("back\\slash é,+&='\"", marks=pytest.mark.full),
]


@pytest.fixture(params=NAMES)
def odd(request: Any, tmp_path: Path) -> Path:
    """A folder with such a name, and beside it one that the name would match as a pattern."""
    for name in (request.param, "x1yzz", "a b c"):
        (tmp_path / name).mkdir(exist_ok=True)
    return tmp_path / request.param


def test_gates_function_sinks_and_parquet_take_any_path(odd: Path, spark: Any, feed: Any) -> None:
    seen: list[tuple[int, int]] = []

    def sink(rows: Any, batch: int) -> None:
        seen.extend((row.k, row.n) for row in rows.collect())

    options: dict[str, Any] = {"key": "k", "routing": hg.Routing(channels=2, bins=8), "durable": False}
    operator = hg.Aggregate(n=agg.count())
    data = [[(k % 7, k) for k in range(50)]] * 2
    stage = hg.Stage(
        operator=operator,
        checkpoint=str(odd / "1"),
        sink=sink,
        expansion=hg.Expansion(gate=hg.Gate(in_flight=2, batch=20)),
        **options,
    )
    feed(stage, data)
    assert max(n for k, n in seen if k == 0) == 16
    out = hg.sinks.Parquet(str(odd / "out"))
    expanded = hg.Stage(
        operator=operator,
        checkpoint=str(odd / "2"),
        sink=out,
        expansion=hg.Expansion(gate=hg.Gate(in_flight=2, batch=20), step=lambda rows: rows.unionAll(rows)),
        **options,
    )
    feed(expanded, data)
    assert len(out.batches()) == 6
    assert len(out.files()) >= 6


def test_a_build_side_is_refreshed_in_any_path(odd: Path, spark: Any, feed: Any) -> None:
    table = spark.createDataFrame([(1, "a"), (2, "b")], "k long, name string")
    stage = hg.Stage(
        key="k",
        operator=hg.HashJoin(table),
        checkpoint=str(odd / "join"),
        sink=hg.sinks.Memory(),
        routing=hg.Routing(channels=2, bins=8),
        durable=False,
    )
    feed(stage, [[(1, 1)]])
    stage.refresh(spark.createDataFrame([(1, "new")], "k long, name string"))
    feed(stage, [[(1, 2), (2, 2)]], start=1)
    assert isinstance(stage.sink, hg.sinks.Memory)
    assert sorted(row["name"] for row in stage.sink.batches[1].to_pylist()) == ["b", "new"]
