"""Pinning and unpinning a key on a live stage: its state leaves its hash bin and comes back, at a batch
boundary, exactly once.
"""

import math
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate import agg, errors
from headgate.control.plan import Plan
from headgate.policies import Guard, Policy
from headgate.routing.table import Move, Pin, Table

OPEN = Guard(min_gain=0, cool_down_batches=0)


class Pinner(Policy):
    """After batch b, makes the pins those of `wanted[b]` (ranks among the hot keys), each on another channel
    than its home.
    """

    name = "pinner"

    def __init__(self, wanted: list[list[int]]) -> None:
        self.wanted = wanted

    def propose(self, view: Any, table: Table) -> Plan | None:
        batch = view.reports - 1
        if batch >= len(self.wanted):
            return None
        keys = sorted(view.hot_keys, key=lambda k: k.hash)
        wanted = {keys[i].hash: keys[i].label for i in self.wanted[batch]}
        have = {pin.hash: pin.bin for pin in table.pins}
        new = [h for h in wanted if h not in have]
        free = table.free_bins(len(new))
        pins = tuple(Pin(h, b, wanted[h]) for h, b in zip(new, free, strict=True))
        unpins = tuple(b for h, b in have.items() if h not in wanted)
        return Plan(
            policy=self.name, from_version=table.version, pins=pins, unpins=unpins, gain=1.0, reason="as told"
        )


STEPS = [[0, 1], [0, 1, 2], [2], [2, 3], [], [0], [0]]


@pytest.mark.parametrize(
    "kind, operator",
    [
        ("long", "aggregate"),
        ("string", "history"),
        pytest.param("long", "history", marks=pytest.mark.full),
        pytest.param("string", "aggregate", marks=pytest.mark.full),
    ],
)
def test_pins_change_no_answer(kind: str, operator: str, make_stage: Any, feed: Any, tmp_path: Path) -> None:
    rows = [[((i * i + b) % 11, float((i * 31 + b) % 17)) for i in range(150)] for b in range(9)]
    named = [[(f"k{k}" if kind == "string" else k, v) for k, v in batch] for batch in rows]
    operators = {
        "aggregate": hg.Aggregate(n=agg.count(), total=agg.sum("v"), last=agg.last("v")),
        "history": hg.HistoryWindow(20, ["mean", "max"], of="v"),
    }
    answers = []
    for policy, folder in (("static", "plain"), (Pinner(STEPS), "pinned")):
        stage = make_stage(operators[operator], policy=policy, guard=OPEN, checkpoint=str(tmp_path / folder))
        feed(stage, named[:5], f"k {kind}, v double")
        stage = make_stage(
            operators[operator], policy=policy, guard=OPEN, checkpoint=stage.store.path(), sink=stage.sink
        )
        feed(stage, named[5:], f"k {kind}, v double", start=5)
        answers.append([sorted(map(str, t.to_pylist())) for _, t in sorted(stage.sink.batches.items())])
    assert answers[0] == answers[1]
    entries = stage.journal()
    assert [len(e.decision.base.pins) for e in entries] == [0, 2, 3, 1, 2, 0, 1, 1, 1]
    assert not [e.decision.refusal for e in entries[:4] if e.decision.refusal]
    names = (
        os.listdir(tmp_path / "pinned/ckpt/state")
        if (tmp_path / "pinned/ckpt").exists()
        else os.listdir(tmp_path / "pinned/state")
    )
    assert names


def test_reports_name_the_hot_keys_with_exact_counts(make_stage: Any, feed: Any) -> None:
    stage = make_stage(hg.Aggregate(n=agg.count()), key=["a", "b"])
    feed(
        stage,
        [[("x", None, 1)] * 70 + [("y", 2, 1)] * 30 + [(str(i), i, 1) for i in range(9)]],
        "a string, b int, v int",
    )
    hot = stage.journal()[0].report.hot_keys
    assert [(k.label, k.rows) for k in hot[:2]] == [("x, None", 70), ("y, 2", 30)]
    assert math.isclose(sum(b.rows for b in stage.journal()[0].report.bins), 109)


def test_rebuild_pins_the_hot_keys_of_a_live_stage(make_stage: Any, feed: Any) -> None:
    def batch(b: int, hot: list[int]) -> list[tuple[int, float]]:
        return [(hot[i % len(hot)], 1.0) if i % 5 < 4 else (1000 + i * 7 + b, 1.0) for i in range(2000)]

    stage = make_stage(hg.HistoryWindow(5, "mean", of="v"), policy="rebuild", channels=4, bins=32, guard=OPEN)
    feed(stage, [batch(b, [1, 2, 3, 4, 5, 6, 7]) for b in range(3)], "k long, v double")
    feed(stage, [batch(b, [11, 12, 13, 14, 15, 16, 17]) for b in range(3, 7)], "k long, v double", start=3)
    imbalance = [e.report.row_imbalance for e in stage.journal()]
    assert imbalance[0] > 1.3
    assert imbalance[2] <= 1.1, "two batches after the start"
    assert min(imbalance[4:7]) <= 1.1, "within three batches after the hot set shifted"
    assert {pin.label for pin in stage.status().table.pins} >= {"11", "12"}


class Splitter(Policy):
    """After batch b, spreads the hottest key over `ways[b]` channels; 0 unpins it, 1 is a plain pin."""

    name = "splitter"

    def __init__(self, ways: list[int]) -> None:
        self.ways = ways

    def propose(self, view: Any, table: Table) -> Plan | None:
        batch = view.reports - 1
        if batch >= len(self.ways):
            return None
        key = min((k for k in view.hot_keys if k.label in ("5", "k5")), key=lambda k: k.hash)
        have, ways = table.pinned.get(key.hash, ()), self.ways[batch]
        unpins = tuple(pin.bin for pin in have[ways:])
        pins = tuple(Pin(key.hash, bin, key.label) for bin in table.free_bins(max(0, ways - len(have))))
        taken = {table.channel_of[pin.bin] for pin in have[:ways]}
        free = [c for c in range(table.channels) if c not in taken]
        home = table.channel_of[table.home_bin(key.hash)]
        moves = tuple(Move(pin.bin, home, to) for pin, to in zip(pins, free, strict=False) if to != home)
        return Plan(
            policy=self.name, from_version=table.version, moves=moves, pins=pins, unpins=unpins, gain=1.0
        )


WAYS = [2, 3, 1, 3, 0, 3, 2, 2]


@pytest.mark.parametrize("kind", [pytest.param("long", marks=pytest.mark.full), "string"])
def test_splitting_a_key_changes_no_answer(kind: str, make_stage: Any, feed: Any, tmp_path: Path) -> None:
    rows = [[(5 if i % 2 else i % 11, (i * 31 + 7 * b) % 97) for i in range(300)] for b in range(10)]
    named = [[(f"k{k}" if kind == "string" else k, v) for k, v in batch] for batch in rows]
    exact = hg.Aggregate(
        n=agg.count(), total=agg.sum("v"), low=agg.min("v"), high=agg.max("v"), mean=agg.mean("v")
    )
    answers = []
    for policy in ("static", Splitter(WAYS)):
        stage = make_stage(exact, policy=policy, guard=OPEN, checkpoint=str(tmp_path / str(policy)[:8]))
        feed(stage, named[:6], f"k {kind}, v int")
        stage = make_stage(exact, policy=policy, guard=OPEN, checkpoint=stage.store.path(), sink=stage.sink)
        feed(stage, named[6:], f"k {kind}, v int", start=6)
        answers.append([sorted(map(str, t.to_pylist())) for _, t in sorted(stage.sink.batches.items())])
    assert answers[0] == answers[1]
    entries = stage.journal()
    assert [len(e.decision.base.pins) for e in entries] == [0, *WAYS, 2]
    assert not [e.decision.refusal for e in entries[: len(WAYS) - 1] if e.decision.refusal]
    three = entries[2].report
    pieces = {pin.bin for pin in entries[2].decision.base.pins}
    assert all(one.rows > 20 for one in three.bins if one.bin in pieces), (
        "every piece has its part of the rows"
    )
    assert max(k.rows for k in three.hot_keys) == sum(k == 5 for k, _ in rows[2]), "its counts are added up"


TIMED = {
    "session": hg.Windows(
        hg.session("2 seconds"), on="t", delay="20 seconds", n=agg.count(), total=agg.sum("v")
    ),
    "hopping": hg.Windows(
        hg.hopping("60 seconds", every="25 seconds"),
        on="t",
        delay="20 seconds",
        n=agg.count(),
        low=agg.min("v"),
    ),
    "topk": hg.TopK(4, by="v"),
    "dedup": hg.Dedup(on="t", delay="30 seconds"),
}


@pytest.mark.parametrize(
    "name", ["session", *(pytest.param(n, marks=pytest.mark.full) for n in ("hopping", "topk", "dedup"))]
)
def test_splitting_a_key_of_any_operator_changes_no_answer(
    name: str, make_stage: Any, feed: Any, tmp_path: Path
) -> None:
    start = datetime(2026, 1, 1)
    rows = [
        [
            (
                f"k{5 if i % 4 else i % 11}",
                i * 31 % 40,
                start + timedelta(seconds=100 * b + i * 37 % 100 - 70 * (i % 50 == 3)),
            )
            for i in range(200)
        ]
        for b in range(6)
    ]
    answers = []
    for policy in ("static", Splitter([2, 3, 0, 3, 1])):
        stage = make_stage(TIMED[name], policy=policy, guard=OPEN, checkpoint=str(tmp_path / str(policy)[:8]))
        feed(stage, rows, "k string, v int, t timestamp")
        stage.finish()
        answers.append([sorted(map(str, t.to_pylist())) for _, t in sorted(stage.sink.batches.items())])
    assert answers[0] == answers[1]
    assert sum(map(len, answers[0])) > 5
    assert [len(e.decision.base.pins) for e in stage.journal()][:6] == [0, 2, 3, 0, 3, 1]


def test_rebuild_splits_a_key_too_hot_for_one_channel(make_stage: Any, feed: Any) -> None:
    rows = [[(0 if i % 5 < 3 else i, i + b) for i in range(2000)] for b in range(6)]
    stage = make_stage(
        hg.Aggregate(total=agg.sum("v"), spread=agg.std("v")), policy="rebuild", channels=4, bins=64
    )
    feed(stage, rows)
    table = stage.journal()[-1].decision.table
    assert [len(pins) for pins in table.splits.values()] == [3]
    assert stage.journal()[-1].report.row_imbalance < 1.15
    values = [v for batch in rows for k, v in batch if k == 0]
    mean = sum(values) / len(values)
    found = stage.sink.latest("k")[(0,)]
    assert found["total"] == sum(values)
    assert math.isclose(found["spread"], math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1)))


def test_what_cannot_be_split_is_refused_by_name(make_stage: Any, feed: Any) -> None:
    rows = [[(0 if i % 5 < 4 else i, i + b) for i in range(500)] for b in range(4)]
    stage = make_stage(hg.HistoryWindow(5, "mean", of="v"), policy="rebuild", channels=2, bins=64, guard=OPEN)
    feed(stage, rows)
    refusals = [e.decision.refusal for e in stage.journal() if e.decision.refusal]
    assert refusals[-1].name == "key_too_hot"
    assert "HistoryWindow cannot split a key" in refusals[-1].detail
    strict = hg.policies.Rebuild(split=True)
    stage = make_stage(
        hg.Aggregate(v0=agg.first("v")), policy=strict, checkpoint=f"{stage.store.path()}-other"
    )
    with pytest.raises(errors.ConfigError, match=r"v0=first\('v'\) depends on the order"):
        feed(stage, rows[:1])
