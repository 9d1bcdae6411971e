"""Files that are not what was committed: swapped, damaged, missing. Each is named, and nothing is computed or shown from it."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.spark.test_stage import forget_cached_bins

import headgate as hg
from headgate import agg, errors

COUNT = {"n": agg.count(), "total": agg.sum("v")}


def batches(count: int) -> list[list[tuple[int, int]]]:
    return [[(i % 40, i + b) for i in range(200)] for b in range(count)]


def swap(first: Path, second: Path) -> None:
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)


def test_state_files_that_were_swapped_are_named(make_stage: Any, feed: Any, tmp_path: Path) -> None:
    data = batches(3)
    feed(make_stage(hg.Aggregate(**COUNT)), data[:2])
    first, second = sorted((tmp_path / "ckpt/state").iterdir())[:2]
    swap(first, second)
    forget_cached_bins()
    with pytest.raises(errors.CorruptState, match=r"was written as .*it was put in another's place; restore"):
        feed(make_stage(hg.Aggregate(**COUNT)), data[2:], start=2)
    swap(first, second)
    feed(make_stage(hg.Aggregate(**COUNT)), data[2:], start=2)


def test_backlog_files_that_were_swapped_are_named(make_stage: Any, feed: Any, tmp_path: Path) -> None:
    stage = make_stage(hg.HistoryWindow(4, "mean", of="v"), memory="1kB", turn_ms=3_600_000)
    feed(stage, batches(3))
    first, second = sorted((tmp_path / "ckpt/backlog").iterdir())[:2]
    swap(first, second)
    with pytest.raises(errors.CorruptState, match=r"backlog file .*it was put in another's place"):
        stage.drain()


def test_output_that_waits_is_shown_as_it_was_committed_or_not_at_all(
    make_stage: Any, feed: Any, tmp_path: Path
) -> None:
    """Every eighth byte flipped, before a failed sink gets its rows again."""
    seen = []

    def sink(rows: Any, batch: int) -> None:
        seen.append(sorted(map(tuple, rows.collect())))
        if len(seen) == 1:
            raise ConnectionError("away")

    data = batches(1)
    with pytest.raises(errors.SinkFailed):
        feed(make_stage(hg.Aggregate(**COUNT), sink=sink), data)
    (victim,) = list((tmp_path / "ckpt/output").glob("*/*"))[:1]
    whole = victim.read_bytes()
    for at in range(0, len(whole), len(whole) // 20):
        victim.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(errors.CorruptState, match=f"{victim.name} is damaged.*so it is not published"):
            feed(make_stage(hg.Aggregate(**COUNT), sink=sink), data)
    assert len(seen) == 1
    victim.write_bytes(whole)
    feed(make_stage(hg.Aggregate(**COUNT), sink=sink), data)
    assert seen[0] == seen[1]


class _Stopped(RuntimeError):
    pass


@pytest.fixture
def halfway(make_stage: Any, feed: Any) -> Any:
    """A stage that stopped after the first of two waves; returns how to go on."""
    options = {"operator": hg.HistoryWindow(4, "mean", of="v"), "gate": hg.Gate(in_flight=1, batch=100)}
    data = batches(1)

    def stop(name: str) -> None:
        if name == "commit":
            raise _Stopped

    stage = make_stage(**options)
    stage.on_step = stop
    with pytest.raises(_Stopped):
        feed(stage, data)

    def go_on() -> Any:
        again = make_stage(**options)
        feed(again, data)
        return again.sink.table().num_rows

    return go_on


@pytest.mark.parametrize("what", ["damaged", "missing", "no JSON"])
def test_a_damaged_index_of_rows_at_the_gate_is_named(halfway: Any, tmp_path: Path, what: str) -> None:
    (index,) = (tmp_path / "ckpt/waves").glob("*/staged.json")
    whole = index.read_bytes()
    if what == "missing":
        index.unlink()
    else:
        index.write_bytes(whole[:-3] if what == "damaged" else b"?")
    with pytest.raises(errors.CorruptState, match=r"staged\.json is .*restore it from a backup"):
        halfway()
    index.write_bytes(whole)
    assert halfway() == 200


@pytest.mark.parametrize("what", ["flipped", "cut", "missing", "another's"])
def test_damaged_rows_at_the_gate_are_named(halfway: Any, tmp_path: Path, what: str) -> None:
    files = sorted((tmp_path / "ckpt/waves").glob("*/input/*.parquet"))
    victim = max(files, key=os.path.getsize)
    whole = victim.read_bytes()
    middle = len(whole) // 2
    damaged = {
        "flipped": whole[:middle] + bytes([whole[middle] ^ 4]) + whole[middle + 1 :],
        "cut": whole[:middle],
        "another's": whole + b"PAR1",
    }
    if what == "missing":
        victim.unlink()
    else:
        victim.write_bytes(damaged[what])
    for crc in victim.parent.glob(".*.crc"):  # Hadoop's own checksums, which are not there on other stores
        crc.unlink()
    with pytest.raises(errors.CorruptState, match=f"rows that wait at the gate, .*{victim.name}, is "):
        halfway()
    victim.write_bytes(whole)
    assert halfway() == 200


def test_an_output_column_named_as_the_sinks_own_is_refused_before_the_first_batch(
    make_stage: Any, feed: Any, tmp_path: Path, spark: Any
) -> None:
    for name in ("batch", "Batch"):
        stage = make_stage(hg.Aggregate(**{name: agg.count()}), sink=hg.sinks.Parquet(str(tmp_path / "out")))
        with pytest.raises(errors.ConfigError, match=f"the output has a column '{name}'.*batch_column="):
            feed(stage, batches(1))
        assert not (tmp_path / "out" / "batch=0").exists()
    sink = hg.sinks.Parquet(str(tmp_path / "out"), batch_column="number")
    feed(make_stage(hg.Aggregate(batch=agg.count()), sink=sink), batches(2))
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert {(row.number, row.batch) for row in rows} == {(0, 5), (1, 10)}
    with pytest.raises(errors.ConfigError, match="must be a plain name"):
        hg.sinks.Parquet("out", batch_column="a/b")
