"""What a user sets on a stage: groups of values that are checked when they are made."""

from typing import Any

import pytest

import headgate as hg
from headgate.errors import ConfigError
from headgate.flow.gate import Gate
from headgate.policies import Rebuild
from headgate.stage.settings import Expansion, Limits, Routing, checked, checked_key, checked_operator


def test_a_policy_alone_is_a_routing() -> None:
    assert Routing.of("static") == Routing(policy="static")
    assert Routing.of(policy := Rebuild()) == Routing(policy=policy)
    assert Routing.of(routing := Routing(channels=3)) is routing


def test_there_are_enough_bins_unless_they_are_named() -> None:
    assert Routing(channels=1).number_of_bins == 128
    assert Routing(channels=16).number_of_bins == 512
    assert Routing(channels=4, bins=4).number_of_bins == 4


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Routing(policy="rebiuld"), "did you mean 'rebuild'"),
        (lambda: Routing(mode="adivse"), "did you mean 'advise'"),
        (lambda: Routing(channels=0), "at least one channel"),
        (lambda: Routing(channels=9, bins=8), "a bin for each"),
        (lambda: Limits(memory="lots"), "memory='lots' is not an amount of memory"),
        (lambda: Limits(arrivals=0), "arrivals=0 is not an amount"),
        (lambda: Limits(turn_ms=-1.0), "turn_ms=-1.0"),
        (lambda: Limits(turn_ms=float("nan")), "turn_ms=nan"),
        (lambda: Expansion(gate=10), "use hg.Gate"),  # type: ignore[arg-type]
        (lambda: Expansion(gate=Gate(), fan_out=3), "name one, or use hg.FanOut"),  # type: ignore[arg-type]
        (lambda: Expansion(gate=Gate(), fan_out="n"), "give step="),
        (lambda: Expansion(step=len, fan_out="n"), "fan_out is the gate's"),
        (lambda: Expansion(explode=iter, schema="n long"), "explode is the gate's"),
        (lambda: Expansion(explode=iter, gate=Gate()), "belong together"),
        (lambda: Expansion(explode=3, schema="n long", gate=Gate()), "to an iterator"),  # type: ignore[arg-type]
        (lambda: Expansion(explode=iter, schema="n long", gate=Gate(), fan_out="n"), "omit fan_out"),
        (lambda: Routing(channels=2.5), "channels=2.5 must be a whole number"),  # type: ignore[arg-type]
        (lambda: Routing(channels=True), "channels=True must be"),
        (lambda: Routing(bins="x"), "bins='x' must be"),  # type: ignore[arg-type]
        (lambda: Routing(guard=3), "guard=3 is not a guard"),  # type: ignore[arg-type]
        (lambda: Routing(smoothing=5), "smoothing=5 is a weight"),
        (lambda: Limits(turn_ms="x"), "turn_ms=x"),  # type: ignore[arg-type]
        (lambda: checked({}, Limits, "limits"), "write limits=hg.Limits"),
        (lambda: hg.sinks.as_sink(hg.sinks.Memory), "Memory is a class"),  # type: ignore[arg-type]
        (lambda: checked_key([]), "name one column"),
        (lambda: checked_key(["a", "a"]), "several different ones"),
        (lambda: checked_operator(len), "make it one with @hg.kernel"),  # type: ignore[arg-type]
        (lambda: checked_operator("count"), "use hg.Aggregate"),  # type: ignore[arg-type]
    ],
)
def test_misuse_is_named(make: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make()


def test_the_default_adapts() -> None:
    assert hg.Routing().policy == "adaptive"
