"""Deadlines on a live stage: what waits for memory comes in by slack, with the same answer."""

from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate.errors import ConfigError
from headgate.flow.rotation import TURN
from headgate.stage.stage import KeyedStage
from headgate.testing import InProcess

KEYS, BATCHES = 16, 40


def waits(key: str | list[str] = "k", **limits: Any) -> dict[int, int]:
    """The longest wait of each key's rows, in batches, where there is memory for one bin at a time."""
    engine, sink = InProcess(), hg.sinks.Memory()
    stage: KeyedStage[pa.Table] = KeyedStage(
        engine,
        key=key,
        operator=hg.HistoryWindow(2, "mean", of="v"),
        checkpoint=f"{engine.folder}/checkpoint",
        sink=sink,
        routing=hg.Routing(policy="static", channels=1, bins=KEYS),
        limits=hg.Limits(memory=1, turn_ms=0, **limits),
        durable=False,
    )
    longest = dict.fromkeys(range(KEYS), 0)
    for batch in range(BATCHES):
        values = range(batch * KEYS, (batch + 1) * KEYS)
        rows = {
            "k": pa.array(range(KEYS), pa.int64()),
            "name": ["n"] * KEYS,
            "v": pa.array(values, pa.int64()),
        }
        stage.process(pa.table(rows), batch, None)
    stage.drain()
    for batch, out in sink.batches.items():
        for row in out.to_pylist():
            longest[row["k"]] = max(longest[row["k"]], batch - row["v"] // KEYS)
    means = {row["v"]: row["mean"] for row in sink.table().to_pylist()}
    assert means == {v: v if v < KEYS else v - KEYS / 2 for v in range(BATCHES * KEYS)}  # in order, each once
    return longest


def test_a_key_with_a_deadline_waits_less_and_the_answer_is_the_same() -> None:
    for key, named in (("k", lambda k: k), (["k", "name"], lambda k: (k, "n"))):
        plain = waits(key)
        last = max(plain, key=plain.__getitem__)
        assert plain[last] > 4 * TURN
        assert waits(key, deadlines={named(last): "1 ms"}, deadline="1 hour")[last] <= 2 * TURN


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"deadlines": {"x": "1 s"}}, "not of the type of k int64"),
        ({"deadlines": {(1, 2): "1 s"}}, r"names key \(1, 2\), but the key is k"),
        ({"deadlines": {1: "soon"}}, r"deadlines\[1\]='soon' is not a duration"),
        ({"deadlines": ["1 s"]}, "not a mapping of keys to durations"),
        ({"deadline": 5}, "deadline=5 is not a duration"),
    ],
)
def test_wrong_deadlines_are_refused(limits: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        waits(**limits)
