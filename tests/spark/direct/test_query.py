"""The life of a direct query: restarts, moves, stopping."""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.direct.events import SCHEMA, events, latest, native, put

import headgate as hg
from headgate import agg


def test_a_restart_goes_on_where_it_was(spark: SparkSession, files: Path, tmp_path: Path, run: Any) -> None:
    sink = hg.sinks.Parquet(str(tmp_path / "out"))

    def results() -> Any:
        return hg.read(spark).files(str(files), schema=SCHEMA).key_by("user").aggregate(n=agg.count())

    first = run(results(), sink)
    put(files, 9, events(500, 9))
    second = run(results(), sink)
    assert sum(p.rows for p in first.progress) == 4000
    assert sum(p.rows for p in second.progress) == 500
    assert second.progress[0].batch == first.progress[-1].batch + 1
    wanted = native(spark.read.parquet(str(files)).groupBy("user").count())
    assert latest(spark, sink, "user") == wanted


def test_the_schema_of_the_first_file_is_kept(spark: SparkSession, tmp_path: Path, run: Any) -> None:
    folder, sink = tmp_path / "in", hg.sinks.Memory()
    put(folder, 0, events(10, 0))

    def results() -> Any:
        return hg.read(spark).files(str(folder)).key_by("user").aggregate(n=agg.count())

    run(results(), sink)
    os.remove(folder / "0000.parquet")
    put(folder, 1, events(10, 1).append_column("more", pa.array(range(10))))
    run(results(), sink)
    assert sum(r["n"] for r in sink.latest("user").values()) == 20


def test_a_look_that_began_earlier_does_not_count(spark: SparkSession, tmp_path: Path) -> None:
    """`process_all_available` waits for rows that came while the source was being planned."""

    class Slow(hg.sources.Rows):
        def plan(self, offset: Any, demand: hg.sources.Demand) -> hg.sources.Ranges:
            planned = super().plan(offset, demand)
            time.sleep(0.2)
            return planned

    source, sink = Slow(schema=pa.schema([("k", pa.int64())])), hg.sinks.Memory()
    results = hg.read(spark).source(source).key_by("k").aggregate(n=agg.count())
    with results.write(sink).start(str(tmp_path / "ckpt"), durable=False) as query:
        for number in range(4):
            source.add([(1,)])
            query.process_all_available()
            assert sink.latest("k")[(1,)]["n"] == number + 1


def test_moves_pins_and_a_rescale_while_it_runs(spark: SparkSession, tmp_path: Path) -> None:
    source, sink = (
        hg.sources.Rows(schema=pa.schema([("k", pa.int64()), ("v", pa.int64())])),
        hg.sinks.Memory(),
    )
    routing = hg.Routing(
        policy="rebuild", channels=3, bins=16, guard=hg.policies.Guard(min_gain=0, cool_down_batches=0)
    )
    operator = hg.Aggregate(n=agg.count(), last=agg.last("v"))  # not combined: skew shows
    results = hg.read(spark).source(source).key_by("k", routing=routing).apply(operator)
    draw = np.random.default_rng(3)
    total: dict[int, int] = {}
    last: dict[int, int] = {}
    with results.write(sink).start(str(tmp_path / "ckpt"), durable=False) as query:
        for number in range(8):
            keys = (draw.zipf(1.2, 2000) % 50).tolist()
            for v, k in enumerate(keys):
                total[k], last[k] = total.get(k, 0) + 1, number * 2000 + v
            source.add(pa.table({"k": keys, "v": list(range(number * 2000, number * 2000 + 2000))}))
            query.process_all_available()
            if number == 3:
                query.rescale(5)
        tables = {entry.report.table_version for entry in query.journal()[0]}
        table = query.status().stages[0].table
        assert table is not None
        assert table.channels == 5
    assert len(tables) > 2, "the table has changed"
    got = {k[0]: (r["n"], r["last"]) for k, r in sink.latest("k").items()}
    assert got == {k: (total[k], last[k]) for k in total}


def test_a_stopped_query_has_finished_its_batch(spark: SparkSession, tmp_path: Path) -> None:
    sink = hg.sinks.Memory()
    stream = hg.read(spark).rate(rows_per_second=2000).select("value % 5 AS k", "value")
    query = (
        stream.key_by("k")
        .aggregate(n=agg.count(), top=agg.max("value"))
        .write(sink)
        .start(str(tmp_path / "ckpt"), every="100 ms", durable=False)
    )
    while not query.progress:
        time.sleep(0.05)
    query.stop()
    query.stop()
    assert query.state == "stopped"
    assert query.await_end(1)
    counted = {k[0]: (r["n"], r["top"]) for k, r in sink.latest("k").items()}
    rows = sum(p.rows for p in query.progress)
    assert sum(n for n, _ in counted.values()) == rows
    assert max(top for _, top in counted.values()) == rows - 1


def test_an_interrupt_stops_the_query_in_order(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = hg.read(spark).rate(rows_per_second=100).select("value % 5 AS k")
    query = (
        stream.key_by("k")
        .aggregate(n=agg.count())
        .write(hg.sinks.Memory())
        .start(str(tmp_path / "ckpt"), durable=False)
    )

    def interrupted(*_: Any) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(query, "_wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            query.await_end()
    assert query.state == "stopped"
