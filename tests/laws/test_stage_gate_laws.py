"""Laws 2 and 8 for the gates of a stage: however gates are nested, and however their rows are counted, the answer is
that of a stage without gates, no gate holds more than its bound, and a driver that dies goes on where the last commit was.

Steps are functions of Arrow tables, in this process. What a wave has made is in flight until the stage has committed it.
"""

from collections import Counter
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate import agg
from headgate.flow.gated_ranges import GatedRanges
from headgate.stage import waves
from headgate.stage.stage import KeyedStage
from headgate.testing import InProcess
from headgate.testing.waves import InProcessStaged

KINDS = ("step", "fan-out", "parts", "lazy")
GROWN = pa.schema({"k": pa.int64(), "v": pa.int64()})


def fan(k: int, v: int) -> int:
    return (k + v) % 4


def grown(rows: pa.Table, first: Any = None, last: Any = None) -> pa.Table:
    """Outputs first to last of each row (all of them): the same key, and a value that says which output it is."""
    made = []
    for at, row in enumerate(rows.select(["k", "v"]).to_pylist()):
        low = 0 if first is None else first[at].as_py()
        high = fan(**row) if last is None else last[at].as_py()
        made += [{"k": row["k"], "v": 10 * row["v"] + n} for n in range(low, high)]
    return pa.Table.from_pylist(made, GROWN)


def counted(rows: pa.Table) -> pa.Table:
    widths = [fan(**row) for row in rows.select(["k", "v"]).to_pylist()]
    return rows.append_column("n", pa.array(np.array(widths, np.int64)))


def expansions(levels) -> list[hg.Expansion]:
    return [one for level in levels for one in expansion(*level)]


def expansion(kind: str, in_flight: int, batch: int) -> list[hg.Expansion]:
    """A gate of some kind around `grown`."""
    gate = hg.Gate(in_flight=in_flight, batch=batch)

    def lazy(row):
        for n in range(fan(**row)):
            yield row["k"], 10 * row["v"] + n

    if kind == "step":
        return [hg.Expansion(step=grown, gate=gate)]
    if kind == "lazy":
        return [hg.Expansion(explode=lazy, schema=GROWN, gate=gate)]
    parts = lambda rows: grown(rows, rows.column("lo"), rows.column("hi"))  # noqa: E731
    step, fan_out = (parts, hg.FanOut("n", "lo", "hi")) if kind == "parts" else (grown, "n")
    return [hg.Expansion(step=counted), hg.Expansion(step=step, gate=gate, fan_out=fan_out)]


class Killed(Exception):
    """A driver that stops at a step."""


def run(
    data, expansions, operator, kills=(), on_step=lambda name: None
) -> tuple[pa.Table, KeyedStage[pa.Table]]:
    """Deliver the batches; `kills` are the numbers of steps at which a driver dies."""
    engine, sink, steps = InProcess(), hg.sinks.Memory(), 0

    def driver() -> KeyedStage[pa.Table]:
        stage = KeyedStage(
            engine,
            key="k",
            operator=operator(),
            checkpoint=f"{engine.folder}/checkpoint",
            sink=sink,
            routing=hg.Routing(policy="static", channels=2, bins=4),
            expansion=expansions,
            durable=False,
        )
        stage.on_step = stepped
        return stage

    def stepped(name: str) -> None:
        nonlocal steps
        steps += 1
        on_step(name)
        if steps in kills:
            raise Killed

    stage = driver()
    for number, rows in enumerate(data):
        while True:
            try:
                stage.process(rows, number, None)
                break
            except Killed:
                stage = driver()
    return sink.table(), stage


def table(rows) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "v": v} for k, v in rows], GROWN)


levels = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(1, 3), st.integers(1, 5)), min_size=1, max_size=3
)
batches = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=7).map(table), min_size=1, max_size=3
)
OPERATORS = {
    "in any order": lambda: hg.Aggregate(n=agg.count(), s=agg.sum("v")),
    "in order": lambda: hg.HistoryWindow(3, "mean", of="v"),
}


def answer(found, operator: str):
    rows = found.to_pylist()
    if operator == "in order":
        return Counter(tuple(sorted(row.items())) for row in rows)
    last = {}
    for row in rows:
        last[row["k"]] = (row["n"], row["s"])
    return last


@settings(max_examples=60)
@given(levels, batches, st.sampled_from(sorted(OPERATORS)), st.sets(st.integers(1, 60), max_size=4))
@example([("lazy", 2, 1), ("step", 1, 1)], [table([(0, 1), (1, 2), (3, 0)])], "in order", {5, 9, 16})
@example([("step", 2, 2), ("parts", 2, 1)], [table([(0, 0), (0, 4)]), table([])], "in any order", {12})
def test_gates_in_a_stage_change_no_answer_and_no_order(levels, data, operator, kills) -> None:
    plain, _ = run(data, [hg.Expansion(step=grown)] * len(levels), OPERATORS[operator])
    gated, stage = run(data, expansions(levels), OPERATORS[operator], kills)
    assert answer(gated, operator) == answer(plain, operator)
    assert stage.opened is not None
    assert stage.opened.checkpoint.last is not None
    assert not stage.opened.checkpoint.last.delivery.rest
    assert stage.store.names("waves") == []


@settings(max_examples=60)
@given(levels, batches)
@example([("step", 2, 1), ("lazy", 3, 1)], [table([(0, 3), (1, 2), (2, 1)])])
def test_no_gate_in_a_stage_holds_more_than_its_bound(levels, data) -> None:
    """A wave is in flight from the moment it is cut until the stage has committed what it made."""
    watch = Watch(levels)
    taking = lambda staged, *args, **options: watch.take(staged, *args, **options)  # noqa: E731
    with patch.object(waves, "GatedRanges", watch.gated()), patch.object(InProcessStaged, "take", taking):
        run(data, expansions(levels), OPERATORS["in any order"], on_step=watch.stepped)
    assert not any(watch.held)
    if levels[0][0] in ("step", "lazy"):
        assert bool(watch.entered[0]) == any(t.num_rows for t in data)


class Watch:
    """What each gate holds."""

    def __init__(self, levels) -> None:
        self.levels = levels
        self.held: list[dict[Any, int]] = [{} for _ in levels]
        self.entered = [0] * len(levels)
        self.commits = 0

    def stepped(self, name: str) -> None:
        self.commits += name == "commit"

    def take(self, staged, wave, gate, name, *, in_order):
        """What a wave really gets: rows, or outputs where these are counted."""
        rows, left = TAKE(staged, wave, gate, name, in_order=in_order)
        kind, _, batch = self.levels[staged.depth]
        made = rows.num_rows
        if kind == "parts":
            made = sum(rows.column("hi").to_pylist()) - sum(rows.column("lo").to_pylist())
        assert kind == "fan-out" or made <= batch  # whole rows may exceed it, by the fan-out of one
        return rows, left

    def gated(self):
        watch = self

        class Watched(GatedRanges):
            def admit(self):
                depth = len(self._outer)
                _, in_flight, batch = watch.levels[depth]
                held = watch.held[depth]
                for wave in super().admit():
                    held[self, wave.stamp] = watch.commits
                    watch.entered[depth] += 1
                    assert len(held) <= in_flight
                    assert wave.rows <= batch
                    yield wave

            def done(self, wave) -> None:
                before = watch.held[len(self._outer)].pop((self, wave.stamp))
                last = len(self._outer) + 1 == len(watch.levels)
                assert not last or watch.commits > before
                super().done(wave)

        return Watched


TAKE = InProcessStaged.take
