"""Shares to moves: strictly nearer with every move, within room, and as near as whole bins allow."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import LoadView, Move
from headgate.policies.shares import bins_of, departs, moves_to, shares_of
from headgate.testing import builders
from headgate.testing.strategies import tables


def view_of(work, sizes=None):
    return LoadView(
        reports=1, bin_work=dict(enumerate(work)), bin_bytes=dict(enumerate(sizes or [1] * len(work)))
    )


@st.composite
def cases(draw):
    table = draw(tables(max_bins=20, max_channels=5, max_pins=2))
    view = LoadView(
        reports=1,
        bin_work={b: draw(st.integers(0, 50)) for b in table.bins},
        bin_bytes={b: draw(st.integers(0, 9)) for b in table.bins},
    )
    parts = np.array([draw(st.floats(0, 1)) for _ in range(table.channels)]) + 1e-6
    room = draw(st.none() | st.lists(st.integers(0, 30), min_size=table.channels, max_size=table.channels))
    return table, view, parts / parts.sum(), room


@given(cases())
@settings(max_examples=200)
def test_every_move_brings_the_shares_nearer_and_at_the_end_no_bin_helps(case) -> None:
    table, view, target, room = case
    bins = bins_of(view, table)
    moves = moves_to(target, bins, table, room=None if room is None else np.array(room, float))
    total = sum(view.bin_work.values()) or 1
    place = dict(table.items())
    free = list(room) if room is not None else [float("inf")] * table.channels
    deficit = target - shares_of(bins, table.channels)
    for move in moves:
        weight = view.bin_work[move.bin] / total
        before = np.abs(deficit).sum()
        assert place[move.bin] == move.source != move.target
        deficit[move.source] += weight
        deficit[move.target] -= weight
        assert np.abs(deficit).sum() < before
        assert view.bin_bytes[move.bin] <= free[move.target]
        free[move.source] += view.bin_bytes[move.bin]
        free[move.target] -= view.bin_bytes[move.bin]
        place[move.bin] = move.target
    assert len({move.bin for move in moves}) == len(moves)
    if sum(view.bin_work.values()) == 0:
        return
    pieces = {pin.bin for pins in table.splits.values() for pin in pins} | {move.bin for move in moves}
    for bin, donor in place.items():
        weight = view.bin_work[bin] / total
        for receiver in range(table.channels):
            gap = deficit[receiver] - deficit[donor]
            if bin not in pieces and deficit[donor] < 0 < deficit[receiver] and weight > 0:
                assert weight >= gap * (1 - 1e-8) or view.bin_bytes[bin] > free[receiver]


def test_the_rounding_error_of_many_equal_bins_is_half_a_bin() -> None:
    table = builders.table([0] * 50 + [1] * 50)
    for want in (0.123, 0.5, 0.755, 0.998):
        moves = moves_to(np.array([want, 1 - want]), bins_of(view_of([1] * 100), table), table)
        got = (50 - sum(m.source == 0 for m in moves) + sum(m.target == 0 for m in moves)) / 100
        assert abs(got - want) <= 0.005 + 1e-12


def test_most_share_for_each_byte_goes_first_then_the_larger_share_then_the_lower_id() -> None:
    table = builders.table([0, 0, 0, 0, 1])
    light = view_of([10, 10, 20, 20, 20], [10, 5, 10, 10, 1])
    assert moves_to(np.array([0.5, 0.5]), bins_of(light, table), table)[0] == Move(2, 0, 1)
    dear = view_of([10, 10, 20, 20, 20], [10, 1, 10, 10, 1])
    assert moves_to(np.array([0.5, 0.5]), bins_of(dear, table), table)[0] == Move(1, 0, 1)


@pytest.mark.parametrize(
    ("target", "deadband", "acts"),
    [
        ((0.525, 0.475), 0.05, True),
        ((0.524, 0.476), 0.05, False),
        ((0.5, 0.5), 0.0, False),
    ],
    ids=["just at it: acts (CX-14)", "just below: does not", "no change is never a departure"],
)
def test_the_deadband_is_relative_to_the_share_in_force(target, deadband, acts) -> None:
    assert departs(np.array(target), np.array([0.5, 0.5]), deadband) is acts


def test_any_increase_from_nothing_is_a_departure() -> None:
    assert departs(np.array([0.001, 0.999]), np.array([0.0, 1.0]), 0.05)
