"""The guard: each bound in a pair of cases, just inside and just outside."""

from dataclasses import replace

import pytest

from headgate.control import LoadView, Move, Pin, Plan, Reason
from headgate.errors import ConfigError
from headgate.policies import Guard

VIEW = LoadView(bin_bytes={0: 100, 1: 300, 2: 50})
MOVES = (Move(0, 0, 1), Move(1, 0, 1), Move(2, 0, 1))


def plan(**changes):
    return replace(Plan(policy="test", from_version=0, moves=MOVES, gain=0.2), **changes)


def judge(guard, proposed=None, *, batch=10, last_change=None):
    refusal = guard.judge(proposed or plan(), VIEW, batch=batch, last_change=last_change)
    return refusal and refusal.name


@pytest.mark.parametrize(("gain", "name"), [(0.2, None), (0.199, Reason.gain_below_cost)])
def test_min_gain(gain, name) -> None:
    assert judge(Guard(min_gain=0.2), plan(gain=gain)) is name


@pytest.mark.parametrize(("batch", "name"), [(11, Reason.cool_down), (12, Reason.cool_down), (13, None)])
def test_two_batches_of_cool_down_after_a_change_after_batch_10(batch, name) -> None:
    assert judge(Guard(cool_down_batches=2), batch=batch, last_change=10) is name


def test_no_cool_down_before_the_first_change_nor_with_zero() -> None:
    assert judge(Guard(cool_down_batches=100)) is None
    assert judge(Guard(cool_down_batches=0), batch=11, last_change=10) is None


@pytest.mark.parametrize(
    ("bounds", "kept"),
    [
        ({}, (0, 1, 2)),
        ({"max_moves": 3, "max_bytes": 450}, (0, 1, 2)),
        ({"max_moves": 2}, (0, 1)),
        ({"max_moves": 0}, ()),
        ({"max_bytes": 449}, (0, 1)),
        ({"max_bytes": 200}, (0, 2)),
        ({"max_bytes": 10}, ()),
    ],
)
def test_a_big_plan_is_cut_to_its_first_instalment(bounds, kept) -> None:
    guard = Guard(**bounds)
    fitted = guard.fit(plan(cost=450.0), VIEW)
    assert tuple(move.bin for move in fitted.moves) == kept
    assert fitted.cost == sum(VIEW.bin_bytes[b] for b in kept)
    assert judge(guard, fitted) is None


def test_a_plan_with_pins_is_a_whole_and_is_refused_whole() -> None:
    whole = plan(pins=(Pin(1, 9),))
    assert Guard(max_moves=1).fit(whole, VIEW) is whole
    assert judge(Guard(max_moves=1), whole) is Reason.gain_below_cost
    assert judge(Guard(max_bytes=1), whole) is Reason.gain_below_cost


def test_a_new_number_of_channels_is_not_judged_by_its_evenness() -> None:
    assert judge(Guard(min_gain=0.5), plan(gain=0.0, channels=3)) is None


@pytest.mark.parametrize(
    "settings", [{"min_gain": -0.1}, {"min_gain": 1.0}, {"cool_down_batches": -1}, {"max_moves": -1}]
)
def test_settings_that_cannot_be(settings) -> None:
    with pytest.raises(ConfigError, match="out of range"):
        Guard(**settings)
