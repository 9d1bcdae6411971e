"""Plans in whole bins: never slower than the nearest ones, within room, and better where bins are coarse."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import LoadView
from headgate.control.view import fold
from headgate.policies.horizon import TIDY, Horizon, least_time
from headgate.policies.shares import bins_of, moves_to, shares_of
from headgate.policies.whole_bins import soonest
from headgate.routing.table import Table
from headgate.testing import builders

STEPS = 4


def expected_s(moves, planned, unit_s, bins, table, move_s):
    """J, written down as it is defined."""
    index = {bin: at for at, bin in enumerate(table.bins)}
    place, moving = bins.place.copy(), np.zeros(table.channels)
    seconds = move_s * bins.sizes / bins.sizes.sum()
    for move in moves:
        place[index[move.bin]] = move.target
        moving[[move.source, move.target]] += seconds[index[move.bin]]
    held = np.bincount(place, bins.weights, table.channels)
    spent = TIDY * moving.sum() / 2 + float((unit_s[0] * held + moving).max())
    shares = planned[np.minimum(np.arange(STEPS), len(planned) - 1)]
    for i in range(1, STEPS):
        y = unit_s[i] * (held + shares[i] - shares[0]) + move_s * np.abs(shares[i] - shares[i - 1])
        spent += float(y.max())
    return spent


def seen(table, rows, **how):
    return bins_of(fold(LoadView(), builders.report(0, table, rows, **how), table), table)


def found_by(moves, planned, unit_s, bins, table, move_s, room=np.inf):
    room = np.full(table.channels, room)
    return soonest(moves, planned, unit_s, bins, table, room=room, move_s=move_s, steps=STEPS)


@given(
    channels=st.integers(2, 6),
    bins=st.integers(1, 6),
    seed=st.integers(0, 2**32),
    move_s=st.sampled_from([0.0, 0.1, 3.0]),
    even=st.booleans(),
)
@settings(max_examples=60)
def test_it_is_never_slower_than_the_nearest_moves_or_none(channels, bins, seed, move_s, even) -> None:
    rng = np.random.default_rng(seed)
    table = Table.uniform(channels * bins, channels)
    rows = [10] * len(table.bins) if even else rng.integers(1, 50, len(table.bins)).tolist()
    unit_s = rng.uniform(0.5, 8, (STEPS, channels))
    seen_bins = seen(table, rows)
    shares = shares_of(seen_bins, channels)
    planned = least_time(unit_s, shares, move_s=move_s, horizon=Horizon(2, STEPS))
    assert planned is not None
    near = moves_to(planned[0], seen_bins, table)
    found = found_by(near, planned, unit_s, seen_bins, table, move_s)
    mine, nearest, none = (
        expected_s(moves, planned, unit_s, seen_bins, table, move_s) for moves in (found, near, ())
    )
    squares = 1e-3 * STEPS * max(nearest, none)  # at most this much of the cost that the search makes least
    assert mine <= min(nearest, none) + squares
    assert len({move.bin for move in found}) == len(found)
    assert all(table.channel_of[move.bin] == move.source != move.target for move in found)


def test_a_slow_channel_keeps_no_bin_that_the_batch_waits_for() -> None:
    """Between 2 and 3 bins of 8 are right; the others have 8 or 9. The nearest moves leave 3."""
    table = Table.uniform(256, 32)
    bins = seen(table, [10] * 256)
    unit_s = np.array([3.2, *[1.0] * 31])
    planned = least_time(unit_s, shares_of(bins, 32), move_s=0.01, horizon=Horizon(2, STEPS))
    assert planned is not None
    near = moves_to(planned[0], bins, table)
    found = found_by(near, planned, unit_s, bins, table, 0.01)
    left = [8 - sum(move.source == 0 for move in moves) for moves in (near, found)]
    assert left == [3, 2]


def test_nothing_moves_where_moves_cost_more_than_they_save() -> None:
    table = Table.uniform(32, 4)
    bins = seen(table, [10] * 32)
    planned = np.tile(shares_of(bins, 4), (2, 1))
    assert found_by((), planned, np.array([1.0, 1.0, 1.0, 1.1]), bins, table, 100.0) == ()


def test_no_channel_gets_more_than_it_has_room_for() -> None:
    table = Table.uniform(32, 4)
    bins = seen(table, [10] * 32, bytes_per_bin=100)
    unit_s = np.array([1.0, 1.0, 1.0, 6.0])
    planned = least_time(unit_s, shares_of(bins, 4), move_s=0.0)
    found = found_by((), planned, unit_s, bins, table, 0.0, room=100.0)
    assert sorted(move.target for move in found) == [0, 1, 2]
    assert {move.source for move in found} == {3}
