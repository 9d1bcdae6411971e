"""A stage over its life: restarts, redelivery, rescaling, sinks, and what it says when something is wrong."""

import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headgate as hg
from headgate import agg, errors
from headgate.control import journal
from headgate.control.plan import Plan
from headgate.policies import Guard, Policy
from headgate.routing.table import Move, Table
from headgate.state.layout import HEAD_SLOTS
from headgate.storage.bin_cache import TAG, cache_root

COUNT = {"n": agg.count(), "total": agg.sum("v")}


def batches(count: int, rows: int = 200, keys: int = 23, start: int = 0) -> list[list[tuple[int, int]]]:
    return [[((i * 7 + b) % keys, i + b) for i in range(rows)] for b in range(start, start + count)]


def answer(rows: list[list[tuple[int, int]]]) -> dict[tuple[int], tuple[int, int]]:
    n: Counter[int] = Counter()
    total: Counter[int] = Counter()
    for batch in rows:
        for k, v in batch:
            n[k] += 1
            total[k] += v
    return {(k,): (n[k], total[k]) for k in n}


def latest(stage: Any) -> dict[tuple[int], tuple[int, int]]:
    return {k: (r["n"], r["total"]) for k, r in stage.sink.latest("k").items()}


def forget_cached_bins() -> None:
    """No cache: all state must come from the files. Workers hold on to what they have mapped, so the tables' tags are
    struck out and not only their names removed.
    """
    root = Path(cache_root()) / f"headgate-{os.getuid()}"
    for path in root.glob("*/*/bin-*"):
        if path.stat().st_size >= 8 * HEAD_SLOTS:
            np.memmap(path, np.int64, "r+", shape=HEAD_SLOTS)[TAG] = 0
    shutil.rmtree(root, ignore_errors=True)


def test_a_restart_goes_on_where_the_last_run_stopped(make_stage: Any, feed: Any) -> None:
    data = batches(4)
    feed(make_stage(hg.Aggregate(**COUNT)), data[:2])
    again = make_stage(hg.Aggregate(**COUNT))
    feed(again, data[2:], start=2)
    assert latest(again) == answer(data)
    assert [e.report.batch for e in again.journal()] == [0, 1, 2, 3]


def test_a_redelivered_batch_is_published_again_and_not_counted_twice(make_stage: Any, feed: Any) -> None:
    data = batches(2)
    stage = make_stage(hg.Aggregate(**COUNT))
    feed(stage, data)
    before = stage.sink.batches[1]
    feed(stage, [data[1]], start=1)
    assert latest(stage) == answer(data)
    again = make_stage(hg.Aggregate(**COUNT))
    feed(again, [data[1]], start=1)
    assert again.sink.batches[1].equals(before)
    assert len(again.journal()) == 2


@pytest.mark.parametrize(
    "start, message", [(0, "committed up to batch 1"), (3, "rows in between would be missing")]
)
def test_batches_out_of_order_are_refused(start: int, message: str, make_stage: Any, feed: Any) -> None:
    feed(make_stage(hg.Aggregate(**COUNT)), batches(2))
    with pytest.raises(errors.BatchOrder, match=message):
        feed(make_stage(hg.Aggregate(**COUNT)), batches(1), start=start)


def test_rescaling_and_moving_change_no_answer(make_stage: Any, feed: Any) -> None:
    data = batches(8)
    stage = make_stage(hg.Aggregate(**COUNT), policy=Shuffle(), guard=Guard(min_gain=0, cool_down_batches=0))
    for b, rows in enumerate(data):
        if b in (2, 5):
            stage.rescale({2: 7, 5: 2}[b])
        feed(stage, [rows], start=b)
    assert latest(stage) == answer(data)
    seen = [
        (e.decision.base.channels, bool(e.decision.plan and e.decision.plan.moves)) for e in stage.journal()
    ]
    assert [channels for channels, _ in seen] == [3, 3, 3, 7, 7, 7, 2, 2]
    assert all(moved for _, moved in seen)
    assert {c.rebuilt_bins for e in stage.journal()[1:] for c in e.report.channels} == {0}, (
        "moved bins came from the shared cache"
    )


class Shuffle(Policy):
    """Moves a bin of every channel, every batch."""

    name = "shuffle"

    def propose(self, view: Any, table: Table) -> Plan:
        moves = tuple(
            Move(table.bins_of(c)[0], c, (c + 1) % table.channels)
            for c in range(table.channels)
            if table.channels > 1
        )
        return Plan(
            policy=self.name, from_version=table.version, moves=moves, gain=1.0, reason="to see what happens"
        )


def test_a_policy_that_raises_is_journaled_and_the_stream_goes_on(make_stage: Any, feed: Any) -> None:
    class Broken(Shuffle):
        def propose(self, view: Any, table: Table) -> Plan:
            raise ZeroDivisionError("no load at all")

    data = batches(3)
    stage = make_stage(hg.Aggregate(**COUNT), policy=Broken())
    feed(stage, data)
    assert latest(stage) == answer(data)
    refusals = [e.decision.refusal for e in stage.journal()]
    assert [r and r.name.value for r in refusals] == ["policy_raised"] * 3
    assert "ZeroDivisionError: no load at all" in refusals[0].detail


@pytest.mark.parametrize("mode", ["observe", "advise"])
def test_in_observe_and_advise_nothing_moves(mode: str, make_stage: Any, feed: Any) -> None:
    stage = make_stage(hg.Aggregate(**COUNT), policy=Shuffle(), mode=mode, guard=Guard(cool_down_batches=0))
    feed(stage, batches(2))
    assert {e.decision.table.version for e in stage.journal()} == {0}
    assert {e.decision.refusal.name.value for e in stage.journal()} == {f"{mode}_only"}


def test_replaying_the_journal_gives_the_same_decisions(make_stage: Any, feed: Any, tmp_path: Path) -> None:
    stage = make_stage(
        hg.Aggregate(**COUNT), policy="flux-load", guard=Guard(min_gain=0, cool_down_batches=0)
    )
    feed(stage, [[(1, 1)] * 400 + [(i, 1) for i in range(50)]] * 3)
    stage.rescale(5)
    feed(stage, [[(2, 1)] * 400 + [(i, 1) for i in range(50)]] * 2, start=3)
    lines = [
        line for f in sorted((tmp_path / "ckpt/journal").iterdir()) for line in f.read_text().splitlines()
    ]
    replayed = journal.replay(lines, stage.policy, stage.guard, "act")
    assert [json.dumps(d.to_json()) for d in replayed] == [
        json.dumps(journal.decode(x).decision.to_json()) for x in lines
    ]


def test_old_state_files_go_and_the_answer_stays(make_stage: Any, feed: Any, tmp_path: Path) -> None:
    data = batches(30, rows=60)
    stage = make_stage(hg.Aggregate(**COUNT))
    feed(stage, data)
    names = os.listdir(tmp_path / "ckpt/state")
    assert len(names) < 3 * 30 / 2, "snapshots let old files go"
    assert len(os.listdir(tmp_path / "ckpt/log")) <= 4  # a claim, two commits, and a mark
    forget_cached_bins()
    again = make_stage(hg.Aggregate(**COUNT))
    feed(again, [[(k, 0) for k in range(23)]], start=30)
    assert latest(again) == {k: (n + 1, t) for k, (n, t) in answer(data).items()}


def test_the_parquet_sink_shows_each_batch_once_and_whole(
    make_stage: Any, feed: Any, spark: Any, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    stage = make_stage(hg.Aggregate(**COUNT), sink=hg.sinks.Parquet(str(out)))
    data = batches(3)
    feed(stage, data)
    feed(stage, [data[2]], start=2)
    rows = spark.read.parquet(str(out)).collect()
    newest = {(r.k,): (r.n, r.total) for r in sorted(rows, key=lambda r: r.batch)}
    assert newest == answer(data)
    assert len(rows) == 3 * 23
    assert sorted(os.listdir(out)) == [
        "_batches",
        "_headgate.json",
        "_staging",
        "batch=0",
        "batch=1",
        "batch=2",
    ]
    assert os.listdir(out / "_staging") == []


def test_a_function_sink_gets_the_same_rows_again_after_it_failed(make_stage: Any, feed: Any) -> None:
    calls: list[tuple[int, list[Any]]] = []

    def sink(rows: Any, batch: int) -> None:
        calls.append((batch, sorted(map(tuple, rows.collect()))))
        if len(calls) == 1:
            raise ConnectionError("the warehouse is away")

    data = batches(1)
    with pytest.raises(
        errors.SinkFailed, match=r"batch 0 is committed.*ConnectionError: the warehouse is away"
    ):
        feed(make_stage(hg.Aggregate(**COUNT), sink=sink), data)
    feed(make_stage(hg.Aggregate(**COUNT), sink=sink), data)
    assert calls[0] == calls[1]
    assert calls[0][1] == sorted((k, n, t) for (k,), (n, t) in answer(data).items())


def test_empty_batches_and_empty_channels_are_fine(make_stage: Any, feed: Any, spark: Any) -> None:
    stage = make_stage(hg.Aggregate(**COUNT), channels=16)
    feed(stage, [[], [(1, 1)]])
    stage(
        spark.createDataFrame([(1, 1)], "k long, v long").limit(0), 2
    )  # the optimizer knows that it is empty
    assert latest(stage) == {(1,): (1, 1)}
    assert [e.report.rows for e in stage.journal()] == [0, 1, 0]
    assert "batch 2" in str(stage.status())
    assert "<table>" in stage.status()._repr_html_()


WRONG = [
    (
        "a missing key column",
        {"key": "nobody"},
        "k long, v long",
        errors.MissingColumn,
        "'nobody' is not in the stream",
    ),
    ("a key of no groupable type", {}, "k map<int,int>, v long", errors.UnsupportedType, "map<int,int>"),
    (
        "a missing value column",
        {"operator": hg.Aggregate(n=agg.sum("w"))},
        "k long, v long",
        errors.MissingColumn,
        "'w'",
    ),
    (
        "a sum of text",
        {"operator": hg.Aggregate(n=agg.sum("v"))},
        "k long, v string",
        errors.UnsupportedType,
        "needs a number",
    ),
    ("a collated key", {}, "k string collate UTF8_LCASE, v long", errors.UnsupportedType, "UTF8_LCASE"),
]


@pytest.mark.parametrize("options, schema, kind, text", [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_bad_columns_are_named(
    options: Any, schema: str, kind: Any, text: str, make_stage: Any, feed: Any
) -> None:
    stage = make_stage(**{"operator": hg.Aggregate(**COUNT), **options})
    with pytest.raises(kind, match=text):
        feed(stage, [[]], schema)


CHANGED = [
    ("the operator", {"operator": hg.Aggregate(n=agg.count())}, "k long, v long", "operator"),
    ("the key", {"key": "v"}, "k long, v long", "key"),
    ("the key's type", {}, "k string, v long", "key"),
    ("a value's type", {}, "k long, v double", "inputs"),
    ("the bins", {"bins": 32}, "k long, v long", "bins"),
]


@pytest.mark.parametrize("options, schema, text", [c[1:] for c in CHANGED], ids=[c[0] for c in CHANGED])
def test_a_changed_stage_is_refused_and_the_old_one_goes_on(
    options: Any, schema: str, text: str, make_stage: Any, feed: Any
) -> None:
    data = batches(2)
    feed(make_stage(hg.Aggregate(**COUNT)), data[:1])
    with pytest.raises(errors.CheckpointMismatch, match=f"was made with {text} = "):
        feed(make_stage(**{"operator": hg.Aggregate(**COUNT), **options}), [[]], schema, start=1)
    mended = make_stage(hg.Aggregate(**COUNT))
    feed(mended, data[1:], start=1)
    assert latest(mended) == answer(data)


def test_other_channels_on_restart_rescale_and_keep_the_bins(make_stage: Any, feed: Any) -> None:
    data = batches(4)
    feed(make_stage(hg.Aggregate(**COUNT), bins=None, channels=2), data[:2])
    again = make_stage(hg.Aggregate(**COUNT), bins=None, channels=9)
    feed(again, data[2:], start=2)
    assert latest(again) == answer(data)
    assert again.bins == 128
    assert [e.decision.table.channels for e in again.journal()] == [2, 2, 9, 9]


def test_a_schema_that_changes_while_running_is_refused(make_stage: Any, feed: Any) -> None:
    stage = make_stage(hg.Aggregate(**COUNT))
    feed(stage, batches(1))
    with pytest.raises(errors.CheckpointMismatch, match="column 'v' was int64 and is now double"):
        feed(stage, [[(1, 1.0)]], "k long, v double", start=1)
    with pytest.raises(errors.MissingColumn, match="'v'"):
        feed(stage, [[(1,)]], "k long", start=1)


def test_damaged_state_is_named_and_nothing_is_committed(make_stage: Any, feed: Any, tmp_path: Path) -> None:
    data = batches(2)
    feed(make_stage(hg.Aggregate(**COUNT)), data[:1])
    forget_cached_bins()
    victim = sorted((tmp_path / "ckpt/state").iterdir())[0]
    whole = victim.read_bytes()
    victim.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    with pytest.raises(errors.CorruptState, match=victim.name):
        feed(make_stage(hg.Aggregate(**COUNT)), data[1:], start=1)
    victim.write_bytes(whole)
    mended = make_stage(hg.Aggregate(**COUNT))
    feed(mended, data[1:], start=1)
    assert latest(mended) == answer(data)


def test_a_full_disk_stops_the_batch_and_a_larger_one_goes_on(
    make_stage: Any, feed: Any, small_disk: Any
) -> None:
    folder, enlarge = small_disk
    data = [[(i, b) for i in range(3000)] for b in range(8)]
    stage = make_stage(hg.Aggregate(**COUNT), checkpoint=str(folder / "ckpt"))
    with pytest.raises(errors.StorageFull, match="no room left while"):
        feed(stage, data)
    done = len(stage.sink.batches)
    assert 0 < done < len(data)
    enlarge()
    feed(stage, data[done:], start=done)
    assert latest(stage) == answer(data)


def test_an_overflowing_sum_stops_the_batch_and_nothing_is_committed(make_stage: Any, feed: Any) -> None:
    stage = make_stage(hg.Aggregate(**COUNT))
    feed(stage, [[(1, 2**62)]])
    with pytest.raises(errors.ArithmeticOverflow, match=r"sum\(v\)"):
        feed(stage, [[(1, 2**62)]], start=1)
    feed(stage, [[(1, 5)]], start=1)
    assert latest(stage) == {(1,): (2, 2**62 + 5)}


def test_a_failing_source_is_a_task_failure_with_its_cause(make_stage: Any, spark: Any) -> None:
    stage = make_stage(hg.Aggregate(**COUNT))
    broken = spark.range(10).selectExpr("id as k", "cast('x' || id as long) as v")
    with pytest.raises(
        errors.TaskFailed, match="batch 0 failed in Spark and nothing of it was committed"
    ) as caught:
        stage(broken, 0)
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    "options, text",
    [
        ({"key": []}, "name one column"),
        ({"channels": 0}, "at least one channel"),
        ({"channels": 64}, "at least one channel and a bin for each channel"),
        ({"policy": "flux_laod"}, "did you mean 'flux-load'"),
        ({"mode": "maybe"}, "maybe"),
        ({"sink": 5}, "not a sink"),
        ({"operator": "sum"}, "not an operator"),
    ],
)
def test_misuse_is_a_config_error(options: Any, text: str, make_stage: Any) -> None:
    with pytest.raises(errors.ConfigError, match=text):
        make_stage(**{"operator": hg.Aggregate(**COUNT), **options})
