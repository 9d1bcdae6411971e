"""Laws 2 and 3 on a live stage: whatever is moved, pinned, split, spilled, slowed or rescaled, in any order, every row is answered once,
in the order of its key, as by one channel.
"""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.spark.test_flow import HISTORY, answers, drain, modelled, rows_of
from tests.spark.test_pins import OPEN, Pinner

import headgate as hg
from headgate import agg
from headgate.control.plan import Plan
from headgate.routing.table import Move, Pin, Table


class Whim(Pinner):
    """Any plan that applies: moves, pins, unpins, and (if the operator can) splits."""

    name = "whim"

    def __init__(self, seed: int, *, splits: bool) -> None:
        self.seed, self.splits = seed, splits

    def propose(self, view: Any, table: Table) -> Plan | None:
        draw = random.Random(f"{self.seed} {view.reports}")
        moves = []
        pieces = {pin.bin for pins in table.splits.values() for pin in pins}
        for bin in draw.sample(table.bins, min(3, len(table.bins))):
            if bin not in pieces:
                moves.append(Move(bin, table.channel_of[bin], draw.randrange(table.channels)))
        unpins = [pin.bin for pin in table.pins if draw.random() < 0.3]
        moves = [move for move in moves if move.source != move.target and move.bin not in unpins]
        keys = [key for key in view.hot_keys if key.hash not in table.pinned]
        pins: list[Pin] = []
        for key in draw.sample(keys, min(2, len(keys))):
            home = table.channel_of[table.home_bin(key.hash)]
            ways = draw.randint(1, table.channels) if self.splits else 1
            places = [home, *draw.sample([c for c in range(table.channels) if c != home], ways - 1)]
            free = [b for b in table.free_bins(40) if b not in [p.bin for p in pins] and b not in unpins]
            for bin, channel in zip(free, places, strict=False):
                pins.append(Pin(key.hash, bin, key.label))
                if channel != home:
                    moves.append(Move(bin, home, channel))
        return Plan(
            policy=self.name,
            from_version=table.version,
            moves=tuple(moves),
            pins=tuple(pins),
            unpins=tuple(unpins),
            gain=1.0,
        )


def live(stage: Any, feed: Any, data: list[Any], seed: int) -> None:
    """Feed a stage while its memory, its pace and its channels change at whim."""
    draw = random.Random(seed)
    modelled(stage)
    for batch, rows in enumerate(data):
        feed(stage, [rows], start=batch)
        if draw.random() < 0.4:
            stage.rescale(draw.randint(1, 5))
        if draw.random() < 0.5:
            stage.grant(2000) if draw.random() < 0.5 else stage.reclaim(400)
        hg.testing.pace(stage, {channel: draw.choice([0.0, 0.0, 300.0]) for channel in range(5)})
    hg.testing.pace(stage, 0.0)
    drain(stage, feed, len(data))


SETTINGS = {"memory": "4kB", "turn_ms": 0, "buffer": "20kB", "arrivals": "2kB", "guard": OPEN}


@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.full) for s in range(2, 12))])
def test_histories(seed: int, make_stage: Any, feed: Any, tmp_path: Path) -> None:
    data = rows_of(8, rows=200)
    plain = make_stage(HISTORY, checkpoint=str(tmp_path / "plain"), channels=1)
    feed(plain, data)
    stage = make_stage(HISTORY, policy=Whim(seed, splits=False), **SETTINGS)
    live(stage, feed, data, seed)
    assert answers(stage) == answers(plain)
    assert not [e.decision.refusal for e in stage.journal() if e.decision.refusal and not e.decision.asked]


@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.full) for s in range(2, 12))])
def test_aggregates_with_split_keys(seed: int, make_stage: Any, feed: Any) -> None:
    data = rows_of(8, rows=200, keys=20)
    operator = hg.Aggregate(n=agg.count(), total=agg.sum("v"), top=agg.max("v"))
    stage = make_stage(operator, policy=Whim(seed, splits=True), **SETTINGS)
    live(stage, feed, data, seed)
    counts: Counter[int] = Counter(k for batch in data for k, _ in batch)
    totals = {k: sum(v for batch in data for key, v in batch if key == k) for k in counts}
    tops = {k: max(v for batch in data for key, v in batch if key == k) for k in counts}
    found = {k: (row["n"], row["total"], row["top"]) for (k,), row in stage.sink.latest("k").items()}
    assert found == {k: (counts[k], totals[k], tops[k]) for k in counts}
