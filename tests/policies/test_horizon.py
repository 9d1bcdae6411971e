"""Shares over a horizon: the digest's exact values (CX-9..13, 15), and a slow oracle."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policies.solved import least_imbalance, least_time

from headgate.errors import ConfigError
from headgate.policies import horizon as solver
from headgate.policies.horizon import Horizon

B = np.array([1.0, 2.0, 4.0])


EVEN = np.full(3, 1 / 3)


BEST = np.array([4, 2, 1]) / 7


@pytest.mark.parametrize(
    ("scale", "weight", "first", "last"),
    [
        (1, 5, (0.1274, 0.0045, -0.1319), (0.5680, 0.2885, 0.1435)),
        (1, 10, (0.1023, 0.0083, -0.1106), (0.5604, 0.2944, 0.1452)),
        (10, 5, (0.2337, -0.0447, -0.1890), None),
    ],
    ids=["CX-9", "CX-10", "CX-11"],
)
def test_the_digests_first_step_and_end_of_horizon(scale, weight, first, last) -> None:
    plan = least_imbalance(scale * B, EVEN, weight=weight)
    assert plan[0] - EVEN == pytest.approx(first, abs=1e-4)
    if last is not None:
        assert plan[-1] == pytest.approx(last, abs=1e-4)


@pytest.mark.parametrize(
    ("scale", "weight", "steps"),
    [(1, 5, 5), (1, 10, 7), (10, 5, 1), (10, 10, 1)],
    ids=["R=5", "R=10", "B x10, R=5", "B x10, R=10"],
)
def test_cx_12_the_receding_horizon_arrives_in_so_many_steps(scale, weight, steps) -> None:
    shares, taken = EVEN, 0
    while np.abs(shares - BEST).max() > 0.01:
        shares = least_imbalance(scale * B, shares, weight=weight)[0]
        taken += 1
    assert taken == steps


units = st.lists(st.floats(0.05, 20), min_size=2, max_size=7)


@st.composite
def problems(draw):
    unit = np.array(draw(units))
    parts = np.array([draw(st.floats(0.0, 1.0)) for _ in unit]) + 1e-3
    return unit, parts / parts.sum()


def dense_cost(unit, shares, weight, horizon):
    """The cost by the paper's own assembly, corrected: W, Theta and the stacked changes, all dense."""
    p, hu, hp = len(unit), horizon.control, horizon.prediction
    s = np.eye(p) - 1 / p
    theta = np.zeros((hp * p, hu * p))
    for i in range(hp):
        for j in range(min(i + 1, hu)):
            theta[i * p : (i + 1) * p, j * p : (j + 1) * p] = np.diag(unit)
    w = np.kron(np.eye(hp), s)
    a, e = w @ theta, w @ np.tile(unit * shares, hp)

    def cost(planned):
        changes = np.diff(np.vstack([shares, planned]), axis=0).ravel()
        return float(((a @ changes + e) ** 2).sum() + weight * (changes**2).sum())

    return cost


@given(problems(), st.sampled_from([0.01, 1.0, 30.0]), st.integers(0, 2**32))
@settings(max_examples=60)
def test_no_other_plan_costs_less_by_the_digests_dense_assembly(problem, weight, seed) -> None:
    unit, shares = problem
    horizon = Horizon(3, 6)
    plan = least_imbalance(unit, shares, weight=weight, horizon=horizon)
    cost = dense_cost(unit, shares, weight, horizon)
    least = cost(plan)
    for other in np.random.default_rng(seed).dirichlet(np.ones(len(unit)), (20, 3)):
        for step in (1.0, 0.1, 1e-3):
            assert cost(plan + step * (other - plan)) >= least - 1e-7 * (1 + least)


def time_of(plan, unit, shares, move_s, horizon):
    """Eq. 1 over the horizon, step by step."""
    total, before = 0.0, shares
    for step in range(horizon.prediction):
        now = plan[min(step, horizon.control - 1)]
        total += (unit * now + move_s * np.abs(now - before)).max()
        before = now
    return total


@given(problems(), st.floats(0.01, 20), st.integers(0, 2**32))
@settings(max_examples=60)
def test_no_other_plan_is_much_sooner_in_seconds(problem, move_s, seed) -> None:
    unit, shares = problem
    horizon = Horizon(3, 6)
    plan = least_time(unit, shares, move_s=move_s, horizon=horizon)
    least = time_of(plan, unit, shares, move_s, horizon)
    stay = time_of(np.tile(shares, (3, 1)), unit, shares, move_s, horizon)
    assert least <= stay * (1 + 1e-6)
    for other in np.random.default_rng(seed).dirichlet(np.ones(len(unit)), (20, 3)):
        for step in (1.0, 0.3, 0.03):
            tried = plan + step * (other - plan)
            moved = np.abs(np.diff(np.vstack([shares, tried]), axis=0)).sum()
            assert least <= time_of(tried, unit, shares, move_s, horizon) + 0.05 * move_s * moved + 1e-6


def settled(step, shares):
    """Where the shares stand still; every plan on the way must be made of shares."""
    for _ in range(2000):
        plan = step(shares)
        assert plan.sum(axis=1) == pytest.approx(np.ones(len(plan)), abs=1e-9)
        assert plan.min() >= 0
        done = np.abs(plan[0] - shares).max() < 1e-9
        shares = plan[0]
        if done:
            break
    return shares


@given(problems(), st.floats(0, 1))
@settings(max_examples=60)
def test_cx_13_shares_stay_shares_and_go_to_where_times_are_equal(problem, weight) -> None:
    unit, shares = problem
    weight *= unit.min() ** 2
    found = settled(lambda now: least_imbalance(unit, now, weight=weight), shares)
    assert found == pytest.approx((1 / unit) / (1 / unit).sum(), abs=1e-6)


@given(problems())
@settings(max_examples=30)
def test_in_seconds_they_go_there_as_far_as_it_pays(problem) -> None:
    unit, shares = problem
    found = settled(lambda now: least_time(unit, now, move_s=0.01), shares)
    assert found == pytest.approx((1 / unit) / (1 / unit).sum(), abs=0.02)


def test_a_very_slow_channel_gets_almost_nothing_and_never_less() -> None:
    unit = np.array([1.0, 1.0, 1e6])
    fair = (1 / unit) / (1 / unit).sum()
    assert least_imbalance(unit, EVEN, weight=0.0)[0] == pytest.approx(fair, abs=1e-6)
    soon = least_time(unit, EVEN, move_s=0.1)[-1]
    assert soon[2] >= 0
    assert soon == pytest.approx(fair, abs=1e-5)


def test_bounds_that_are_the_shares_themselves_leave_them_as_they_are() -> None:
    shares = np.array([0.1, 0.2, 0.7]) * (1 - 1e-16)
    for unit in (B, np.array([1.0, 1e3, 1e6])):
        assert least_imbalance(unit, shares, weight=0.0, upper=shares)[-1] == pytest.approx(shares, abs=1e-9)


def test_cx_15_a_constant_bias_settles() -> None:
    bias, shares = np.array([0.3, 0.0, 0.0]), EVEN
    for _ in range(50):
        shares = least_imbalance(B, shares, weight=5.0, offset_s=bias)[0]
    again = least_imbalance(B, shares, weight=5.0, offset_s=bias)[0]
    assert again == pytest.approx(shares, abs=1e-4)
    times = B * shares + bias
    assert times.max() / times.min() == pytest.approx(1, abs=0.01)


def test_bounds_hold_and_impossible_ones_are_told() -> None:
    upper = np.array([0.4, 1.0, 1.0])
    for solve in (
        lambda most: solver.least_imbalance(B, EVEN, weight=1.0, upper=most),
        lambda most: solver.least_time(B, EVEN, move_s=0.1, upper=most),
    ):
        plan = solve(upper)
        assert plan is not None
        assert plan[:, 0].max() <= 0.4 + 1e-9
        assert solve(0.3) is None
        assert solve(np.array([1.0, 1.0, -0.1])) is None


def test_nothing_moves_when_moving_does_not_pay_and_a_forecast_of_recovery_holds_it_back() -> None:
    slow = np.array([1.0, 1.0, 1.2])
    assert least_time(slow, EVEN, move_s=100.0)[0] == pytest.approx(EVEN, abs=1e-6)
    recovers = np.vstack([[[1.0, 1.0, 3.0]], np.ones((9, 3))])
    lasts = np.tile([1.0, 1.0, 3.0], (10, 1))
    stays = least_time(recovers, EVEN, move_s=8.0)[0]
    leaves = least_time(lasts, EVEN, move_s=8.0)[0]
    assert np.abs(stays - EVEN).max() < 1e-5
    assert leaves[2] < 0.3


@pytest.mark.parametrize(("control", "prediction"), [(0, 5), (6, 5), (-1, 1)])
def test_a_horizon_that_cannot_be_is_refused(control, prediction) -> None:
    with pytest.raises(ConfigError, match="1 <= control <= prediction"):
        Horizon(control, prediction)
