"""A stage behind a gate: micro-batches in waves."""

import datetime as dt
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import headgate as hg
from headgate import agg
from headgate.errors import BatchOrder, ConfigError

BATCHES = [
    [(i % 5, i) for i in range(40)],
    [],
    [(i % 3, 100 + i) for i in range(25)],
]


class _Stopped(RuntimeError):
    pass


def means(batches: list[list[tuple[int, int]]]) -> list[tuple[int, int, float]]:
    """Key, value and mean of the key's last four, row by row."""
    counts: dict[int, list[int]] = {}
    found = []
    for key, value in (row for batch in batches for row in batch):
        counts.setdefault(key, []).append(value)
        window = counts[key][-4:]
        found.append((key, value, round(sum(window) / len(window), 6)))
    return sorted(found)


def windowed(table: pa.Table) -> list[tuple[int, int, float]]:
    return sorted((row["k"], row["v"], round(row["mean"], 6)) for row in table.to_pylist())


@pytest.mark.parametrize("gate", [hg.Gate(in_flight=1, batch=15), hg.Gate(in_flight=2, batch="auto")])
def test_order_within_a_key_is_kept_over_waves(
    make_stage: Callable[..., Any], feed: Callable[..., None], gate: hg.Gate
) -> None:
    stage = make_stage(hg.HistoryWindow(4, "mean", of="v"), gate=gate)
    feed(stage, BATCHES)
    assert windowed(stage.sink.table()) == means(BATCHES)


def fanned_out(rows: DataFrame) -> DataFrame:
    return rows.select("k", F.explode(F.sequence(F.lit(1), F.col("v") + 1)).alias("v")).withColumn(
        "v", F.col("v").cast("long")
    )


def test_what_expands_is_cut_before_it(
    make_stage: Callable[..., Any], feed: Callable[..., None], spark: Any
) -> None:
    operator = hg.Aggregate(n=agg.count(), total=agg.sum("v"))
    stage = make_stage(operator, gate=hg.Gate(in_flight=2, batch=10), step=fanned_out)
    feed(stage, BATCHES)
    assert sorted(stage.sink.batches) == [0, 1, 2, 3, 4, 5, 6, 7]  # 4 waves, an empty batch, 3 waves
    every = [row for batch in BATCHES for row in batch]
    wanted = {
        (row.k,): (row.n, row.total)
        for row in fanned_out(spark.createDataFrame(every, "k long, v long"))
        .groupBy("k")
        .agg(F.count("*").alias("n"), F.sum("v").alias("total"))
        .collect()
    }
    assert {key: (row["n"], row["total"]) for key, row in stage.sink.latest("k").items()} == wanted
    assert stage.takes(seconds=2.0) > 0
    assert not list(Path(stage.store.path("waves")).iterdir())


def drawn(row: dict[str, Any]) -> Any:
    """A row becomes v % 4 rows."""
    yield from ((row["k"], 10 * row["v"] + n) for n in range(row["v"] % 4))


def parts(rows: DataFrame) -> DataFrame:
    """Outputs lo to hi of each row, of which there are three."""
    outputs = F.explode(F.sequence(F.col("lo"), F.col("hi") - 1)).alias("i")
    return rows.select("k", "v", outputs).select("k", (F.col("v") * 10 + F.col("i")).alias("v"))


def nested(values: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What the two make of rows, in order."""
    lazy = [(k, 10 * v + n) for k, v in values for n in range(v % 4)]
    return [(k, 10 * v + n) for k, v in lazy for n in range(3)]


@pytest.mark.parametrize("stop", [None, 3])
def test_nested_gates_draw_lazily_count_outputs_and_keep_the_order(
    make_stage: Callable[..., Any], feed: Callable[..., None], tmp_path: Path, stop: int | None
) -> None:
    expansion = [
        hg.Expansion(explode=drawn, schema="k long, v long", gate=hg.Gate(in_flight=2, batch=25)),
        hg.Expansion(step=lambda rows: rows.withColumn("n", F.lit(3))),
        hg.Expansion(step=parts, gate=hg.Gate(in_flight=2, batch=40), fan_out=hg.FanOut("n", "lo", "hi")),
    ]
    options = {"expansion": expansion, "sink": hg.sinks.Memory(), "checkpoint": str(tmp_path / "c")}
    stage = make_stage(hg.HistoryWindow(4, "mean", of="v"), **options)
    if stop is not None:
        seen: list[str] = []

        def stops(name: str) -> None:
            seen.append(name)
            if seen.count("commit") == stop:
                raise _Stopped

        stage.on_step = stops
        with pytest.raises(_Stopped):
            feed(stage, BATCHES[:1])
        stage = make_stage(hg.HistoryWindow(4, "mean", of="v"), **options)
    feed(stage, BATCHES)
    assert windowed(stage.sink.table()) == means([nested(batch) for batch in BATCHES])
    assert max(rows.num_rows for rows in stage.sink.batches.values()) <= 40
    assert len(stage.sink.batches) > 6
    assert not list(Path(stage.store.path("waves")).iterdir())


@pytest.mark.parametrize("step", ["compute", "commit"])
def test_after_a_stop_the_next_wave_goes_on(
    make_stage: Callable[..., Any], feed: Callable[..., None], tmp_path: Path, step: str, spark: Any
) -> None:
    window = hg.HistoryWindow(4, "mean", of="v")
    sink = hg.sinks.Parquet(str(tmp_path / "out"))
    gate = hg.Gate(in_flight=1, batch=12)
    stage = make_stage(window, gate=gate, sink=sink)
    seen = []

    def stop(name: str) -> None:
        seen.append(name)
        if seen.count(step) == 2:
            raise _Stopped

    stage.on_step = stop
    with pytest.raises(_Stopped):
        feed(stage, BATCHES[:1])
    # The same batch again, in another order: what was put aside counts, and the gate may be gone.
    again = make_stage(window, sink=sink, gate=gate if step == "compute" else None)
    feed(again, [list(reversed(BATCHES[0])), *BATCHES[1:]])
    rows = spark.read.parquet(sink.path)
    assert windowed(rows.toArrow()) == means(BATCHES)


def test_a_batch_that_leaves_a_gap_is_refused(
    make_stage: Callable[..., Any], feed: Callable[..., None]
) -> None:
    stage = make_stage(hg.Aggregate(n=agg.count()), gate=hg.Gate(batch=10))
    feed(stage, BATCHES[:1])
    with pytest.raises(BatchOrder, match="only up to batch 0"):
        feed(stage, BATCHES[2:], start=2)


@pytest.mark.parametrize(
    "window", [hg.tumbling("10 minutes"), hg.session("5 minutes")], ids=["tumbling", "session"]
)
def test_windows_are_the_same_in_waves_as_in_one_piece(
    make_stage: Callable[..., Any], feed: Callable[..., None], tmp_path: Path, window: Any
) -> None:
    """Rows of a batch in any order: none is late because of another wave, and no window is closed before the last."""
    draw = random.Random(5)
    start = dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC)
    batches = []
    for b in range(5):
        minutes = [20 * b + draw.uniform(-60, 20) for _ in range(60)]
        batches.append([(draw.randrange(3), start + dt.timedelta(minutes=m)) for m in minutes])
    found = []
    for name, gate in (("whole", None), ("waves", hg.Gate(in_flight=1, batch=25))):
        operator = hg.Windows(window, on="at", delay="10 minutes", n=agg.count())
        aside = hg.sinks.Memory()
        stage = make_stage(operator, gate=gate, aside=aside, checkpoint=str(tmp_path / name))
        feed(stage, batches, "k long, at timestamp")
        stage.finish()
        late = sorted((row["k"], row["at"]) for row in aside.table().to_pylist())
        rows = sorted((row["k"], row["window_start"], row["n"]) for row in stage.sink.table().to_pylist())
        found.append((rows, late))
    assert found[0] == found[1]
    assert found[0][1], "some rows are late"


def test_a_window_is_emitted_once_though_its_rows_come_in_several_waves(
    make_stage: Callable[..., Any], feed: Callable[..., None]
) -> None:
    start = dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC)
    batches = [
        [(0, start + dt.timedelta(minutes=m)) for m in some]
        for some in ([5], [6, 6, 30], [31, 7, 8, 9], [60])
    ]
    operator = hg.Windows(hg.tumbling("10 minutes"), on="at", delay="0 minutes", n=agg.count())
    stage = make_stage(operator, gate=hg.Gate(in_flight=1, batch=1))
    feed(stage, batches, "k long, at timestamp")
    stage.drain()
    found = [(row["window_start"], row["n"]) for row in stage.sink.table().to_pylist()]
    assert sorted(found) == [(start, 6), (start + dt.timedelta(minutes=30), 2)]


def test_a_gate_must_be_one(make_stage: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match=r"use hg\.Gate"):
        make_stage(hg.Aggregate(n=agg.count()), gate=3)
    with pytest.raises(ConfigError, match="step=3"):
        make_stage(hg.Aggregate(n=agg.count()), step=3)
