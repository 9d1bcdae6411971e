"""Bounded memory, the skew buffer and moves with a budget, on a live stage: rows wait, and the answer is the same to the last row."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.spark.test_pins import OPEN, Pinner

import headgate as hg
from headgate import agg, errors
from headgate.flow.rotation import TURN
from headgate.policies import Guard
from headgate.routing.key_hash import hash_ints
from headgate.testing import ModelledTime

HISTORY = hg.HistoryWindow(50, ["mean", "max"], of="v", keep=["v"])


def rows_of(batches: int, *, keys: int = 60, rows: int = 400) -> list[list[tuple[int, int]]]:
    return [[((i * 7 + b) % keys, i + 1000 * b) for i in range(rows)] for b in range(batches)]


def bins_of(keys: Any, table: Any) -> dict[int, int]:
    """The bin of each key, as Spark hashes it."""
    return dict(zip(keys, table.bin_of_hash(hash_ints(np.array(keys, np.int64))).tolist(), strict=True))


def answers(stage: Any) -> dict[int, list[tuple[Any, ...]]]:
    """What each key's rows were answered, in order."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for batch in sorted(stage.sink.batches):
        for row in stage.sink.batches[batch].to_pylist():
            found.setdefault(row["k"], []).append((row["v"], row["mean"], row["max"]))
    return found


def modelled(stage: Any) -> Any:
    """A stage whose rows take the time that its pace says, on any machine, and nothing else takes any."""
    stage.engine.watch = ModelledTime(getattr(stage.engine.watch, "us", 0.0))
    return stage


def drain(stage: Any, feed: Any, start: int) -> int:
    """Empty batches until nothing waits; the number of the next one."""
    for batch in range(start, start + 60):
        if not sum(one.backlog_rows for one in stage.journal()[-1].report.channels):
            return batch
        feed(stage, [[]], start=batch)
    raise AssertionError("rows wait for ever")


@pytest.fixture(scope="module")
def plain(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The answer of a stage that does everything at once."""
    stage = hg.Stage(
        key="k",
        operator=HISTORY,
        routing=hg.Routing(channels=3, bins=16),
        durable=False,
        sink=hg.sinks.Memory(),
        checkpoint=str(tmp_path_factory.mktemp("plain")),
    )
    for batch, rows in enumerate(rows_of(8)):
        stage(spark.createDataFrame(rows, "k long, v long").coalesce(1), batch)
    return answers(stage)


def test_short_of_memory_bins_take_turns_on_disk_and_the_answer_stays(
    make_stage: Any, feed: Any, plain: Any
) -> None:
    data = rows_of(8)
    stage = make_stage(HISTORY, memory="6kB", turn_ms=0)
    feed(stage, data[:5])
    assert "on disk" in str(stage.status())
    again = make_stage(HISTORY, memory="6kB", turn_ms=0, sink=stage.sink)
    feed(again, data[5:], start=5)
    drain(again, feed, 8)
    assert answers(again) == plain
    reports = [entry.report for entry in again.journal()]
    spilled = [one for report in reports for one in report.channels if one.disk_bytes]
    assert spilled
    assert sum(one.backlog_rows for report in reports for one in report.channels)
    # what was decided to be in memory is within the limit, by the sizes before the batch
    assert all(one.resident_bytes <= 2 * 6000 for one in spilled)
    assert not list((Path(again.store.path()) / "backlog").iterdir()), (
        "what was taken from the backlog is removed"
    )


def test_memory_taken_back_and_granted_while_running(make_stage: Any, feed: Any, plain: Any) -> None:
    data = rows_of(8)
    stage = make_stage(HISTORY, memory="1MB", turn_ms=0)
    feed(stage, data[:3])
    stage.reclaim(995_000, channel=1)
    feed(stage, data[3:6], start=3)
    disk = [[one.disk_bytes > 0 for one in entry.report.channels] for entry in stage.journal()]
    assert disk[:3] == [[False] * 3] * 3
    assert disk[5] == [False, True, False]
    stage.grant("995kB", channel=1)
    feed(stage, data[6:], start=6)
    assert not any(one.disk_bytes for one in stage.journal()[-1].report.channels)
    drain(stage, feed, 8)
    assert answers(stage) == plain
    with pytest.raises(errors.ConfigError, match=r"channel 0 has 1.0 MB, 2.0 MB cannot be taken"):
        stage.reclaim("2MB")
    with pytest.raises(errors.ConfigError, match="there is no channel 7"):
        stage.grant("2MB", channel=7)


def test_pins_and_rescales_while_rows_wait(make_stage: Any, feed: Any, plain: Any) -> None:
    stage = make_stage(
        HISTORY, memory="2kB", turn_ms=0, policy=Pinner([[0, 1], [0, 1, 2], [2], []]), guard=OPEN
    )
    data = rows_of(8)
    feed(stage, data[:5])
    assert sum(one.backlog_rows for one in stage.journal()[2].report.channels)
    stage.rescale(5)
    feed(stage, data[5:], start=5)
    stage.rescale(2)
    drain(stage, feed, 8)
    assert answers(stage) == plain


SECOND = 1e6
"""A pace beside which a batch's real time is nothing."""


def test_a_late_channel_leaves_rows_in_the_buffer_and_order_is_kept(
    make_stage: Any, feed: Any, plain: Any
) -> None:
    data = rows_of(8)
    stage = modelled(make_stage(HISTORY, buffer="1MB", pace_us=SECOND))
    feed(stage, data[:2])
    stage.engine.watch = ModelledTime({0: SECOND, 1: 20 * SECOND, 2: SECOND})
    feed(stage, data[2:4], start=2)
    waiting = [[one.backlog_rows for one in entry.report.channels] for entry in stage.journal()]
    assert waiting[2][1] > 50
    assert waiting[2][0] < 20
    assert waiting[2][2] < 20
    assert sum(one.backlog_bytes for one in stage.journal()[3].report.channels) <= 1_000_000
    stage.engine.watch = ModelledTime(SECOND)
    feed(stage, data[4:], start=4)
    drain(stage, feed, 8)
    assert answers(stage) == plain


def test_a_full_buffer_holds_the_source_back(make_stage: Any, feed: Any, plain: Any) -> None:
    stage = modelled(make_stage(HISTORY, buffer=300, pace_us={0: SECOND, 1: 20 * SECOND, 2: SECOND}))
    feed(stage, rows_of(8))
    waiting = [sum(one.backlog_bytes for one in entry.report.channels) for entry in stage.journal()]
    assert 0 < max(waiting) <= 300
    drain(stage, feed, 8)
    assert answers(stage) == plain


def test_a_lone_key_does_not_wait_for_ever_beside_near_empty_batches(make_stage: Any, feed: Any) -> None:
    """Late at once, its state on disk, and no time passes that could make a gap of an hour end."""
    stage = modelled(
        make_stage(HISTORY, memory=1, buffer="1MB", turn_ms=3.6e6, channels=2, bins=8, pace_us=SECOND)
    )
    feed(stage, [[(k, k) for k in range(24)], [(k, k) for k in range(24)]])
    drained = drain(stage, feed, 2)
    table = stage.journal()[-1].decision.table
    on_disk = {one.bin for one in stage.journal()[-1].report.bins if one.on_disk}
    bins = bins_of(range(24), table)
    lone = next(k for k in range(24) if bins[k] in on_disk)
    other = next(
        k
        for k in range(24)
        if bins[k] not in on_disk and table.channel_of[bins[k]] == table.channel_of[bins[lone]]
    )
    feed(stage, [[(lone, 1000), (other, 1000)]], start=drained)
    for batch in range(drained + 1, drained + 1 + TURN):
        feed(stage, [[(other, batch)]], start=batch)
    served = [v for v, _, _ in answers(stage)[lone]]
    assert served[-1] == 1000


WINDOWS = hg.Windows(hg.tumbling("10 s"), on="t", delay="1 s", n=agg.count())


def at(seconds: int) -> datetime:
    return datetime(2024, 1, 1, 12, 0, 0) + timedelta(seconds=seconds)


def closed(stage: Any) -> dict[tuple[int, datetime], int]:
    """The rows of every window that was closed, by key and start."""
    rows = [row for batch in stage.sink.batches.values() for row in batch.to_pylist()]
    return {(row["k"], row["window_start"]): row["n"] for row in rows}


def test_windows_close_though_rows_always_wait(make_stage: Any, feed: Any) -> None:
    stage = modelled(make_stage(WINDOWS, buffer="1MB", channels=2, bins=4, pace_us=SECOND))
    feed(stage, [[(0, at(10 * b))] * 40 for b in range(8)], "k long, t timestamp")
    waiting = [sum(one.backlog_rows for one in entry.report.channels) for entry in stage.journal()]
    assert min(waiting[1:]) > 0
    found = closed(stage)
    assert len(found) >= 3
    assert set(found.values()) == {40}


def test_windows_close_though_their_bins_are_on_disk(make_stage: Any, feed: Any) -> None:
    stage = make_stage(WINDOWS, memory=1, turn_ms=0, channels=1, bins=4)
    feed(stage, [[(k, at(0)) for k in range(16)]], "k long, t timestamp")
    feed(stage, [[(0, at(20 * b))] for b in range(1, 10)], "k long, t timestamp", start=1)
    found = closed(stage)
    first = min(start for _, start in found)
    assert {k for k, start in found if start == first} == set(range(16))


def test_moved_state_arrives_by_its_budget_and_rows_wait_for_it(
    make_stage: Any, feed: Any, plain: Any
) -> None:
    stage = make_stage(
        HISTORY, arrivals="3kB", policy="rebuild", guard=Guard(min_gain=0, cool_down_batches=0)
    )
    data = rows_of(8)
    feed(stage, data[:3])
    stage.rescale(5)
    feed(stage, data[3:], start=3)
    drain(stage, feed, 8)
    assert answers(stage) == plain
    assert any(one.backlog_rows for entry in stage.journal() for one in entry.report.channels)


def test_an_aggregate_spills_and_splits_at_once(make_stage: Any, feed: Any) -> None:
    rows = [[(0 if i % 5 < 3 else i, i + b) for i in range(900)] for b in range(6)]
    operator = hg.Aggregate(n=agg.count(), total=agg.sum("v"))
    stage = make_stage(operator, policy="rebuild", channels=4, bins=64, memory="4kB", turn_ms=0, guard=OPEN)
    feed(stage, rows)
    assert stage.journal()[-1].decision.table.splits
    drain(stage, feed, 6)
    expected: dict[int, list[int]] = {}
    for k, v in (row for batch in rows for row in batch):
        expected.setdefault(k, []).append(v)
    found = {k: (row["n"], row["total"]) for (k,), row in stage.sink.latest("k").items()}
    assert found == {k: (len(v), sum(v)) for k, v in expected.items()}


def test_a_disk_that_fills_up_while_rows_are_put_aside_stops_the_batch_and_nothing_is_lost(
    make_stage: Any, feed: Any, small_disk: Any
) -> None:
    folder, enlarge = small_disk
    data = [[((i * 7 + b) % 60, i + 10_000 * b) for i in range(4000)] for b in range(6)]
    stage = make_stage(HISTORY, memory=1, turn_ms=1e9, checkpoint=str(folder / "ckpt"))
    with pytest.raises(errors.StorageFull, match="no room left while writing"):
        feed(stage, data)
    done = len(stage.sink.batches)
    assert 0 < done < len(data)
    enlarge()
    other = make_stage(HISTORY, memory="1MB", checkpoint=str(folder / "ckpt"), sink=stage.sink)
    feed(other, data[done:], start=done)
    drain(other, feed, len(data))
    assert {k: [v for v, _, _ in found] for k, found in answers(other).items()} == {
        k: [v for batch in data for key, v in batch if key == k] for k in range(60)
    }


def test_explain_says_why(make_stage: Any, feed: Any) -> None:
    stage = make_stage(HISTORY, policy="flux-load", guard=OPEN)
    assert stage.explain() == "no batch has been processed yet"
    feed(stage, [[(i % 2 * i, i) for i in range(600)]])
    text = stage.explain()
    assert text.startswith("batch 0: 600 rows in ")
    assert "was busiest" in text
    assert "carried out: table 1 is in force from batch 1" in text or "nothing to change" in text


@pytest.mark.parametrize(
    "options, text",
    [
        ({"memory": "lots"}, "memory='lots' is not an amount of memory"),
        ({"memory": 0}, "memory=0 is not an amount"),
        ({"buffer": "-1MB"}, "buffer='-1MB' is not an amount"),
        ({"turn_ms": -1.0}, "turn_ms=-1.0 must be a time in ms"),
        ({"pace_us": {0: -1.0}}, "cannot be negative"),
    ],
    ids=str,
)
def test_bad_settings_are_refused_by_name(make_stage: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(errors.ConfigError, match=text):
        make_stage(HISTORY, **options)


def test_without_a_budget_there_is_none_to_change(make_stage: Any) -> None:
    with pytest.raises(errors.ConfigError, match="no memory budget to change"):
        make_stage(HISTORY).grant("1MB")


@pytest.mark.parametrize("policy", ["flux-load", "mpc", "lqr"])
def test_a_slow_channel_gets_less_and_the_answer_stays(
    policy: str, make_stage: Any, feed: Any, plain: Any
) -> None:
    pace = {0: 2000.0, 1: 500.0, 2: 500.0}
    stage = modelled(
        make_stage(
            HISTORY, policy=policy, pace_us=pace, guard=Guard(min_gain=0, cool_down_batches=0), bins=64
        )
    )
    feed(stage, rows_of(8))
    first, last = (stage.journal()[at].report for at in (0, -1))
    assert last.channels[0].rows < 0.75 * first.channels[0].rows
    assert answers(stage) == plain
