"""User kernels on a live stage: as the plain loop, whatever is moved, pinned, spilled or restarted; failures by name."""

import datetime as dt
import random
import runpy
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.laws.test_kernel_laws import SCHEMA, interpreted, ledger, plainly, same, session
from tests.spark.test_random_flow import SETTINGS, Whim, live

import headgate as hg
from headgate import errors

COLUMNS = "k string, id long, x double, i int, s string"


def ledgers(batches: int, rows: int = 120) -> list[list[tuple[Any, ...]]]:
    """Rows of a few keys, one of them hot, with nulls and rows that fail."""
    draw, number, out = random.Random(1), 0, []
    for _ in range(batches):
        batch = []
        for _ in range(rows):
            k = "hot" if draw.random() < 0.3 else f"k{draw.randrange(20)}"
            x = None if draw.random() < 0.1 else draw.uniform(-9, 9)
            i = None if draw.random() < 0.05 else draw.randrange(-1, 4)
            batch.append((k, number, x, i, draw.choice([None, "", "f", "abc", "far too long"])))
            number += 1
        out.append(batch)
    return out


def test_a_plain_loop_whatever_happens_to_the_stage(make_stage: Any, feed: Any) -> None:
    data = ledgers(4)
    aside = hg.sinks.Memory()
    stage = make_stage(ledger, policy=Whim(3, splits=False), aside=aside, **SETTINGS)
    live(stage, lambda *args, **named: feed(*args, schema=COLUMNS, **named), data, 3)
    rows = pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for batch in data for row in batch], schema=SCHEMA
    )
    out, failed, _ = plainly(ledger, rows)
    assert same(stage.sink.table(), out)
    assert sorted(row["id"] for row in aside.table().to_pylist()) == failed
    assert "rows division by zero (line" in " ".join(str(stage.status()).split())


def test_timers_and_expiry_survive_a_restart(make_stage: Any, feed: Any) -> None:
    draw, minute, rows = random.Random(2), 0, []
    for _ in range(60):
        minute += draw.randrange(8)
        when = dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=minute - draw.randrange(9))
        rows.append((draw.randrange(4), when, draw.random() < 0.1, draw.random() < 0.3))
    batches = [*(rows[at : at + 15] for at in range(0, 60, 15)), [], []]
    schema = "k long, ts timestamp, stop boolean, mute boolean"
    stage = make_stage(session)
    feed(stage, batches[:2], schema)
    stage = make_stage(session, sink=stage.sink, channels=2)
    feed(stage, batches[2:], schema, start=2)
    table = pa.Table.from_pylist([dict(zip(("k", "ts", "stop", "mute"), row, strict=True)) for row in rows])
    wanted = hg.testing.run(session, table, batches=4, idle=2)
    for found, one in zip(stage.sink.batches.values(), wanted.batches, strict=True):
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, one.to_pylist()))


@hg.kernel(state={"total": float}, output={"share": float})
def share(state: Any, row: Any) -> Any:
    """The row's part of what its key has had so far."""
    state.total += row.v
    return row.v / state.total


def test_a_failure_names_the_key_and_the_line_and_commits_nothing(make_stage: Any, feed: Any) -> None:
    stage = make_stage(share)
    feed(stage, [[(1, 2)]])
    said = r"kernel share failed on a row of key k=7: division by zero, at .*test_kernel.py:\d+ \(`return row.v / state.total`\)"
    with pytest.raises(errors.KernelFailed, match=said):
        feed(stage, [[(1, 2), (7, 0)]], start=1)
    feed(stage, [[(1, 2)]], start=1)
    assert [row["share"] for row in stage.sink.table().to_pylist()] == [1.0, 0.5]


def test_a_changed_kernel_is_refused_by_name(make_stage: Any, feed: Any) -> None:
    feed(make_stage(share), [[(1, 2)]])

    @hg.kernel(state={"total": float}, output={"share": float})
    def share_(state: Any, row: Any) -> Any:
        state.total += 2 * row.v
        return row.v / state.total

    share_.name = "share"
    with pytest.raises(errors.CheckpointMismatch, match=r"source = .*share"):
        feed(make_stage(share_), [[(1, 2)]], start=1)
    feed(make_stage(interpreted(share)), [[(1, 2)]], start=1)  # the same function, not compiled, goes on


def test_what_cannot_be_compiled_is_refused_before_any_row(make_stage: Any, feed: Any) -> None:
    @hg.kernel(state={"n": int}, output={"n": int})
    def wrong(state: Any, row: Any) -> Any:
        state.n += row.v / 2
        return state.n

    with pytest.raises(
        errors.KernelRefused, match=r"test_kernel.py:\d+ .*state.n is int, but the value is float; write int"
    ):
        feed(make_stage(wrong), [[(1, 2)]])


def test_the_example(spark: Any, tmp_path: Path) -> None:
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "zscore_kernel.py"))
    stage = example["run"](spark, 20_000, tmp_path)
    scores = spark.read.parquet(str(tmp_path / "scores"))
    aside = spark.read.parquet(str(tmp_path / "aside"))
    assert (scores.count(), aside.count()) == (19_996, 4)
    assert "4 rows column 'amount' is null" in " ".join(str(stage.status()).split())
