"""Plans: what `apply` does, what it refuses with which words, and JSON there and back."""

import json

import pytest

from headgate.control import Move, Pin, Plan, Reason, Refusal, apply
from headgate.errors import ConfigError, StaleTable
from headgate.routing.table import Table, rescale
from headgate.testing import builders

EVEN = Table.uniform(4, 2)


def plan(**changes):
    return Plan(policy="test", from_version=0, **changes)


def test_moves_make_the_next_version_from_the_named_batch() -> None:
    table = apply(plan(moves=(Move(0, 0, 1),)), EVEN, 8)
    assert (table.version, table.from_batch, table.assignment) == (1, 8, (1, 1, 0, 1))
    assert EVEN.assignment == (0, 1, 0, 1)


def test_a_pin_starts_on_its_home_channel_and_may_move_in_the_same_plan() -> None:
    stays = apply(plan(pins=(Pin(5, 9, "hot"),)), EVEN, 1)
    assert stays.channel_of[9] == EVEN.channel_of[1] == 1
    moved = apply(plan(pins=(Pin(5, 9, "hot"),), moves=(Move(9, 1, 0),)), EVEN, 1)
    assert moved.channel_of[9] == 0


def test_unpin_frees_the_bin_id_for_a_later_plan() -> None:
    pinned = apply(plan(pins=(Pin(5, 4), Pin(6, 5))), EVEN, 1)
    freed = apply(Plan(policy="test", from_version=1, unpins=(4,)), pinned, 2)
    assert freed.bins == (0, 1, 2, 3, 5)
    again = apply(Plan(policy="test", from_version=2, pins=(Pin(8, 4),)), freed, 3)
    assert [pin.bin for pin in again.pins] == [4, 5]


def test_a_rescale_is_a_plan_like_another() -> None:
    table = apply(plan(moves=rescale(EVEN, 3), channels=3), EVEN, 1)
    assert table.channels == 3
    assert apply(plan(moves=rescale(EVEN, 1), channels=1), EVEN, 1).assignment == (0, 0, 0, 0)


def test_a_stale_plan_names_both_versions() -> None:
    with pytest.raises(StaleTable, match=r"version 0, but version 3 is in force"):
        apply(plan(moves=(Move(0, 0, 1),)), builders.table([0, 1], version=3), 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"moves": (Move(0, 1, 0),)}, "bin 0 is on channel 0, not on 1"),
        ({"moves": (Move(9, 0, 1),)}, "bin 9 is on channel None"),
        ({"moves": (Move(0, 0, 2),)}, "bin 0 is on channel 2, outside"),
        ({"moves": (Move(0, 0, 1), Move(0, 1, 0))}, "moves twice"),
        ({"channels": 1}, "bin 1 is on channel 1, outside"),
        ({"unpins": (0,)}, "cannot unpin bin 0"),
        ({"pins": (Pin(5, 2),)}, "bin 2: in use"),
        ({"pins": (Pin(5, 4), Pin(5, 6))}, "different channels"),
    ],
)
def test_a_plan_that_does_not_fit_the_table(changes, message) -> None:
    with pytest.raises(ConfigError, match=message):
        apply(plan(**changes), EVEN, 1)


def test_a_bin_id_is_not_unpinned_and_pinned_in_one_plan() -> None:
    pinned = apply(plan(pins=(Pin(5, 4),)), EVEN, 1)
    with pytest.raises(ConfigError, match="in use"):
        apply(Plan(policy="test", from_version=1, unpins=(4,), pins=(Pin(8, 4),)), pinned, 2)


def test_time_does_not_run_back() -> None:
    with pytest.raises(ConfigError, match="from_batch=3 is before"):
        apply(plan(moves=(Move(0, 0, 1),)), builders.table([0, 1], from_batch=4), 3)


def test_gain_must_be_a_number() -> None:
    with pytest.raises(ConfigError, match="finite"):
        plan(gain=float("nan"))


def test_json_round_trip() -> None:
    full = plan(
        moves=(Move(0, 0, 1),), pins=(Pin(-5, 9, "ü"),), unpins=(4,), channels=3, gain=0.5, reason="because"
    )
    assert Plan.from_json(json.loads(json.dumps(full.to_json()))) == full
    for name in Reason:
        refusal = Refusal(name, "detail")
        assert Refusal.from_json(json.loads(json.dumps(refusal.to_json()))) == refusal
