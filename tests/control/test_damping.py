"""Flux's rounds on a stage: how long it collects after what it moved."""

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control import Loop, Move, Plan, Reason
from headgate.control.damping import MOST_BATCHES, Damping, next_delta
from headgate.errors import ConfigError
from headgate.policies import Guard, Policy
from headgate.routing.table import Table
from headgate.testing import builders

TABLE = Table.uniform(4, 2)


def report(batch=0, *, version=0, wall_ms=100.0, read_ms=0.0, rows=10):
    made = builders.report(batch, replace(TABLE, version=version), [rows] * 4, wall_ms=wall_ms)
    return replace(made, channels=tuple(replace(c, read_ms=read_ms) for c in made.channels))


class Swings(Policy):
    """Moves bin 0 to the other channel whenever it is asked."""

    name = "swings"

    def propose(self, view, table):
        here = table.channel_of[0]
        return Plan(policy="swings", from_version=table.version, moves=(Move(0, here, 1 - here),), gain=1.0)


def changes(damping, read_ms, batches=40, notice=0):
    """After which batches the table changes, if a move takes this time and a batch 100 ms."""
    loop = Loop(Swings(), Guard(damping=damping, cool_down_batches=0, notice_batches=notice), "act", TABLE)
    changed = []
    for batch in range(batches):
        table = loop.in_force(batch)
        moved = table.version > 0 and table.from_batch == batch
        decision = loop.step(report(batch, version=table.version, read_ms=read_ms if moved else 0.0))
        if decision.changed:
            changed.append(batch)
        else:
            assert decision.refusal is not None
            assert decision.refusal.name is Reason.cool_down
        loop = Loop.restore(json.loads(json.dumps(loop.snapshot())), loop.policy, loop.guard, loop.mode)
    return changed


def test_after_a_move_it_collects_for_as_long_as_that_took() -> None:
    assert changes("batches", 1000)[:3] == [0, 1, 2], "without damping it moves after every batch"
    assert changes("flux", 50)[:3] == [0, 2, 4], "the batch that reads, and one that collects"
    assert changes("flux", 1000)[:3] == [0, 11, 22]


def test_at_most_half_of_the_time_goes_into_moving() -> None:
    for read_ms in (10, 150, 700):
        between = changes("flux", read_ms)
        assert min(b - a - 1 for a, b in itertools.pairwise(between)) * 100 >= read_ms


def test_moves_that_do_not_pay_make_a_tuned_round_longer_up_to_a_bound() -> None:
    at = changes("tuned", 1, batches=400)
    gaps = [b - a for a, b in itertools.pairwise(at)]
    assert gaps[0] <= 3
    assert gaps == sorted(gaps)
    assert max(gaps) == MOST_BATCHES + 1


def test_a_round_without_a_move_halves_the_time() -> None:
    slow = Damping(delta_ms=800.0).after(report(wall_ms=900.0))
    assert slow.ready
    assert slow.decided(None).delta_ms == 400.0
    assert slow.decided(None).decided(None).decided(None).delta_ms == 100.0


def test_the_batches_until_a_table_takes_effect_are_part_of_its_move() -> None:
    moving = Damping().after(report()).decided(1)
    assert not moving.ready
    for _ in range(3):
        moving = moving.after(report(version=0))
    over = moving.after(report(version=1, read_ms=40.0))
    assert over.delta_ms == 340.0
    assert over.awaits is None


@given(st.floats(0, 1e4), st.floats(0, 1e4), st.floats(0, 1e4))
def test_the_rule(delta, move, least) -> None:
    found = next_delta(delta, move, least)
    assert found >= least
    assert found >= move
    assert found <= max(delta / 2, move, least)


def test_an_unknown_damping_is_refused() -> None:
    with pytest.raises(ConfigError, match="damping='none'"):
        Guard(damping="none")  # type: ignore[arg-type]
