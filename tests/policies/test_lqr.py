"""The linear-quadratic regulator against the Riccati equation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.policies.lqr import bounded, modes, regulated

B = np.array([1.0, 2.0, 4.0])


EVEN = np.full(3, 1 / 3)


BEST = np.array([4, 2, 1]) / 7


units = st.lists(st.floats(0.05, 20), min_size=2, max_size=7)


@st.composite
def problems(draw):
    unit = np.array(draw(units))
    parts = np.array([draw(st.floats(0.0, 1.0)) for _ in unit]) + 1e-3
    return unit, parts / parts.sum()


@given(problems(), st.sampled_from([0.0, 0.1, 5.0]))
@settings(max_examples=40)
def test_the_regulators_gain_solves_the_riccati_equation(problem, weight) -> None:
    unit, shares = problem
    unit = unit / unit.mean()
    s, basis = modes(unit)
    assert basis.sum(axis=0) == pytest.approx(np.zeros(len(s)), abs=1e-9)
    g = basis.T @ np.diag(unit) @ basis
    assert g == pytest.approx(np.diag(s), abs=1e-9)
    p = np.eye(len(g))
    for _ in range(20_000):
        gain = np.linalg.solve(weight * np.eye(len(g)) + g.T @ p @ g, g.T @ p)
        new = np.eye(len(g)) + p - p @ g @ gain
        if np.abs(new - p).max() < 1e-12 * np.abs(new).max():
            break
        p = new
    expected = bounded(shares - basis @ gain @ basis.T @ (unit * shares))
    assert regulated(unit, shares, weight) == pytest.approx(expected, abs=1e-6)


def test_the_regulator_without_weight_goes_to_equal_times_at_once() -> None:
    assert regulated(B, EVEN, 0.0) == pytest.approx(BEST, abs=1e-9)
