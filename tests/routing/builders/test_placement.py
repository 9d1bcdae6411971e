"""Bins and pins placed together: how even it gets, that it falls silent, and channels that come and go."""

import numpy as np
import pytest
from tests.routing.builders.problems import stage

from headgate.routing.balance import theta
from headgate.routing.builders import (
    Bins,
    Hot,
    Objective,
    place,
)


def carried_out(hot: Hot, bins: Bins, plan) -> tuple[Hot, Bins]:
    """The table and loads after a plan took effect."""
    to = np.array([plan.pins.get(int(k), -1) for k in hot.key])
    rows = bins.rows.copy()
    newly = (to >= 0) & (hot.pinned_to < 0)
    np.subtract.at(rows, hot.bin[newly], hot.rows[newly])
    back = (to < 0) & (hot.pinned_to >= 0)
    np.add.at(rows, hot.bin[back], hot.rows[back])
    return Hot(hot.key, hot.rows, hot.bin, to), Bins(rows, plan.bin_channel, bins.keys)


@pytest.mark.parametrize("skew", [0.0, 0.8, 1.0, 1.2])
@pytest.mark.parametrize("algorithm", ["scan", "redist", "readj"])
def test_bins_and_pins_together_come_within_tolerance_of_what_is_possible(
    skew: float, algorithm: str
) -> None:
    hot, bins = stage(skew)
    plan = place(hot, bins, 8, objective=Objective(alpha=1.1), algorithm=algorithm)
    assert plan.busiest_after <= max(1.10, plan.busiest_bound * 1.001)
    assert plan.busiest_after <= plan.busiest_before
    assert plan.channel_rows.sum() == pytest.approx(bins.rows.sum())
    assert bool(plan.too_hot) == (plan.busiest_bound > 1 + theta(1.1, 8))


@pytest.mark.parametrize("skew", [0.8, 1.0, 1.2])
def test_steady_load_means_silence_after_the_first_plan(skew: float) -> None:
    hot, bins = stage(skew)
    goal = Objective(alpha=1.1)
    first = place(hot, bins, 8, objective=goal)
    hot, bins = carried_out(hot, bins, first)
    second = place(hot, bins, 8, objective=goal)
    assert (second.moved_bins, second.moved_pins) == (0, 0)
    assert second.pins == first.pins


def test_growth_and_removal_of_channels() -> None:
    hot, bins = stage(1.0)
    goal = Objective(alpha=1.1)
    hot, bins = carried_out(hot, bins, place(hot, bins, 8, objective=goal))
    more = place(hot, bins, 10, objective=goal)
    assert more.busiest_after <= max(1.1, 1.001 * more.busiest_bound)
    fewer = place(hot, bins, 5, objective=goal)
    assert set(fewer.bin_channel.tolist()) == set(range(5))
    assert max(fewer.pins.values()) < 5
    assert fewer.busiest_after <= 1.1
    only = place(hot, bins, 1, objective=goal)
    assert only.pins == {}
    assert only.unpinned
    assert set(only.bin_channel.tolist()) == {0}


def test_new_channels_get_work_even_beside_a_key_too_hot() -> None:
    hot, bins = stage(1.2, bins=1024, channels=16)
    hot, bins = carried_out(hot, bins, place(hot, bins, 16, objective=Objective(alpha=1.1)))
    plan = place(hot, bins, 18, objective=Objective(alpha=1.1))
    busy = np.sort(plan.channel_rows)[
        :-3
    ]  # two keys are too hot, and a third passes what is left for the others
    assert busy.max() / busy.min() < 1.15
    assert plan.busiest_after <= 1.001 * plan.busiest_bound


@pytest.mark.parametrize("tail", ["ignore", "see"])
def test_bins_stay_unless_they_may_move(tail) -> None:
    hot, bins = stage(1.0)
    plan = place(hot, bins, 8, tail=tail)
    assert plan.moved_bins == 0
    assert plan.pins
    if tail == "see":
        assert plan.busiest_after <= place(hot, bins, 8, tail="ignore").busiest_after


def test_placement_of_nothing_one_key_and_unequal_speeds() -> None:
    nothing = Hot(
        np.empty(0, dtype=np.int64), np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    )
    idle = place(nothing, Bins(np.zeros(4), np.array([0, 1, 0, 1])), 2)
    assert (idle.pins, idle.moved_bins, idle.busiest_after) == ({}, 0, 1.0)
    lone = Hot(np.array([5]), np.array([10.0]), np.array([2]), np.array([-1]))
    plan = place(lone, Bins(np.array([0.0, 0.0, 10.0, 0.0]), np.array([0, 1, 0, 1])), 2)
    assert plan.too_hot[0].ways == 2
    hot, bins = stage(0.8)
    fast = place(hot, bins, 8, objective=Objective(alpha=1.1), speeds=np.array([2.0] + [1.0] * 7))
    assert fast.channel_rows[0] / fast.channel_rows[1:].mean() == pytest.approx(2.0, rel=0.1)
    assert fast.busiest_after <= 1.1


def test_a_key_near_the_threshold_does_not_flap() -> None:
    bins = Bins(np.full(64, 10_000.0), np.arange(64) % 8)
    share = 0.8 * 0.1 * theta(1.2, 8) / 8
    hot = Hot(np.array([1]), np.array([share * 640_000]), np.array([0]), np.array([-1]))
    assert place(hot, bins, 8).pins == {}
    held = Hot(hot.key, hot.rows, hot.bin, np.array([0]))
    assert place(held, bins, 8).pins == {1: 0}
    faint = Hot(hot.key, hot.rows * 0.5, hot.bin, np.array([0]))
    assert place(faint, bins, 8).unpinned == (1,)
