"""Pinning and unpinning a key on a live stage: its state leaves its hash bin and comes back, at a batch
boundary, exactly once.
"""

import math
import os
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate import agg
from headgate.plans.plan import Plan
from headgate.policies import Guard
from headgate.routing.table import Pin, Table

OPEN = Guard(min_gain=0, cool_down_batches=0)


class Pinner:
    """After batch b, makes the pins those of `wanted[b]` (ranks among the hot keys), each on another channel
    than its home.
    """

    name = "pinner"

    def __init__(self, wanted: list[list[int]]) -> None:
        self.wanted = wanted

    def initial(self, bins: int, channels: int) -> Table:
        return Table.uniform(bins, channels)

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


@pytest.mark.parametrize("kind", ["long", "string"])
@pytest.mark.parametrize("operator", ["aggregate", "history"])
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
