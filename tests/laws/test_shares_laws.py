"""The shares that the quadratic cost plans are those of an exact answer, however much the channels differ in speed."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.oracle.exact_shares import exact_shares
from tests.policies.solved import least_imbalance

from headgate.policies.horizon import Horizon

HORIZONS = [Horizon(1, 1), Horizon(1, 3), Horizon(2, 3), Horizon(3, 4)]
decades = st.floats(0.0, 6.0)


@st.composite
def channels(draw):
    """Their times for the whole workload, 1 to a million seconds, and shares of which some may be nothing."""
    unit = 10.0 ** np.array(draw(st.lists(decades, min_size=2, max_size=4)))
    parts = np.array(draw(st.lists(st.integers(0, 1000), min_size=len(unit), max_size=len(unit))), float)
    parts[draw(st.integers(0, len(unit) - 1))] += 1
    return unit, parts / parts.sum()


A_MILLIONFOLD = np.array([1.0, 1.0, 1.0, 5.0, 1e6]), np.full(5, 0.2)


@given(
    channels(),
    st.sampled_from([0.0, 1e-3, 1.0, 1e3]),
    st.sampled_from(["fastest", "mean", "slowest"]),
    st.sampled_from(HORIZONS),
)
@example((np.array([1.0, 1.0, 1e6]), np.full(3, 1 / 3)), 0.0, "mean", Horizon(2, 3))
@example(A_MILLIONFOLD, 0.0, "mean", Horizon(2, 3))
@settings(max_examples=120)
def test_the_planned_shares_are_the_exact_ones(problem, weight, of, horizon) -> None:
    unit, shares = problem
    weight *= {"fastest": unit.min(), "mean": unit.mean(), "slowest": unit.max()}[of] ** 2
    plan = least_imbalance(unit, shares, weight=weight, horizon=horizon)
    assert plan == pytest.approx(exact_shares(unit, shares, weight, horizon), abs=1e-6)


@given(channels(), st.floats(-1, 1), st.just(0.0) | st.floats(1e-4, 0.5), st.sampled_from(HORIZONS))
@settings(max_examples=60)
def test_so_they_are_with_bounds_and_with_times_that_the_model_misses(problem, bias, room, horizon) -> None:
    unit, shares = problem
    offset = np.zeros(len(unit))
    offset[0] = bias * unit[0] * shares[0]
    upper = np.minimum(shares + room, 1.0)
    upper[-1] = 1.0
    weight = unit.min() ** 2
    plan = least_imbalance(unit, shares, weight=weight, horizon=horizon, offset_s=offset, upper=upper)
    exact = exact_shares(unit, shares, weight, horizon, offset_s=offset, upper=upper)
    assert plan == pytest.approx(exact, abs=1e-6)


@given(channels())
@settings(max_examples=60)
@example(A_MILLIONFOLD)
def test_without_a_weight_all_channels_end_together(problem) -> None:
    unit, shares = problem
    times = least_imbalance(unit, shares, weight=0.0)[0] * unit
    assert times.max() == pytest.approx(1 / (1 / unit).sum(), rel=1e-6)
