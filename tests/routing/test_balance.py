"""Metrics and thresholds of the paper (PX-1..4), and the defined answers at the edges."""

from typing import Any

import numpy as np
import pytest

from headgate.routing.balance import (
    RHO_FLOOR,
    ResourceFunction,
    Resources,
    Utility,
    alpha_for_capacity,
    alpha_for_utilization,
    alphas,
    balance_penalty,
    channel_loads,
    imbalance_ratios,
    migration,
    migration_penalty,
    pinning_threshold,
    relative_imbalance,
    relative_migration,
    theta,
    tracking_threshold,
)

LCL, LQL = Resources.parse("LCL"), Resources.parse("LQL")


@pytest.mark.parametrize("channels, wanted", [(10, 0.17647), (32, 0.19255), (2, 0.09091)])
def test_theta_in_both_forms(channels: int, wanted: float) -> None:
    assert theta(1.2, channels) == pytest.approx(wanted, abs=1e-5)
    assert theta(1.2, channels) == pytest.approx(1.2 * channels / (1.2 + channels - 1) - 1, abs=1e-12)


def test_thresholds_at_the_defaults() -> None:
    at: dict[str, Any] = {"alpha": 1.2, "sigma": 0.1, "domain": 10**6}
    assert tracking_threshold(LCL, 10, **at) == pytest.approx(1.7647e-3, abs=1e-6)
    assert tracking_threshold(LQL, 10, **at) == pytest.approx(4.2008e-5, abs=1e-7)
    assert tracking_threshold(LCL, 1, **at) == 1.0
    assert tracking_threshold(Resources.parse("CCC"), 10, **at) == 1.0


def test_filter_of_quadratic_resources_gives_the_linear_threshold_at_the_defaults() -> None:
    f = 1 / np.arange(1, 10**6 + 1)
    f /= f.sum()
    at: dict[str, Any] = {"alpha": 1.2, "sigma": 0.1, "domain": 10**6}
    tracked = f[f >= tracking_threshold(LQL, 10, **at)]
    assert pinning_threshold(tracked, LQL, 10, **at) == tracking_threshold(LCL, 10, **at)
    quadratic = Resources.parse("CQC")
    assert pinning_threshold(tracked, quadratic, 10, **at) == pytest.approx(3.7e-3, rel=0.05)
    assert pinning_threshold(tracked, quadratic, 1, **at) == 1.0


def test_alpha_examples_of_the_text() -> None:
    assert alpha_for_utilization(0.9) == pytest.approx(1.11, abs=0.01)
    assert alpha_for_capacity(10, capacity=3, channels=4) == pytest.approx(9 / 7)


def test_loads_ratios_and_relative_imbalance() -> None:
    f = np.array([0.4, 0.3, 0.2, 0.1])
    loads = channel_loads(LQL.loads(f), [0, 1, 1, 0], 2)
    assert loads[0].tolist() == pytest.approx([0.5, 0.5])
    assert loads[1].tolist() == pytest.approx([0.17, 0.13])
    b, each = relative_imbalance(loads, (1.0, 1.3, 2.0))
    assert each == pytest.approx([1.0, 17 / 13 / 1.3, 0.5])
    assert b == pytest.approx(float(np.prod(each)) ** (1 / 3))


def test_empty_channels_are_infinitely_imbalanced_but_have_a_finite_penalty() -> None:
    loads = np.array([[1.0, 0.0]] * 3)
    assert imbalance_ratios(loads).tolist() == [np.inf] * 3
    assert imbalance_ratios(np.zeros((3, 2))).tolist() == [1.0] * 3
    assert balance_penalty(loads, LCL, 1.2) == pytest.approx(1 / (theta(1.2, 2) * 0.5))
    assert balance_penalty(np.ones((3, 4)), LCL, 1.2) == pytest.approx(RHO_FLOOR)
    assert balance_penalty(np.zeros((3, 4)), LCL, 1.2) == pytest.approx(RHO_FLOOR)


def test_constants_are_left_out_unless_there_is_nothing_else() -> None:
    assert LCL.balanced == (0, 2)
    assert Resources.parse("CCC").balanced == (0, 1, 2)
    assert str(LQL) == "LQL"


def test_migration() -> None:
    state = np.array([1.0, 2.0, 4.0])
    moved = migration(state, [0, 1, 2], [0, 2, 1])
    assert moved == 6.0
    assert relative_migration(moved, 7.0, 3) == pytest.approx(18 / 7)
    assert relative_migration(0.0, 0.0, 3) == 0.0
    assert migration_penalty(1.0, 0.0, 3) == 0.0


@pytest.mark.parametrize(
    "utility, wanted",
    [
        ("A", 2.0),
        ("APM", 2.5),
        ("APLM", 2 + np.log(1.5)),
        ("ATM", 3.0),
        ("ATLM", 2 * (1 + np.log(1.5))),
        ("APLM10", 2 + np.log10(1.5)),
        ("ATLM10", 2 * (1 + np.log10(1.5))),
    ],
)
def test_utilities(utility: str, wanted: float) -> None:
    assert Utility[utility](2.0, 0.5) == pytest.approx(wanted)


def test_resource_functions() -> None:
    x = np.array([0.5, 2.0])
    assert ResourceFunction.CONSTANT(x).tolist() == [1.0, 1.0]
    assert ResourceFunction.LINEAR(x).tolist() == [0.5, 2.0]
    assert ResourceFunction.QUADRATIC(x).tolist() == [0.25, 4.0]


@pytest.mark.parametrize(
    "act, words",
    [
        (lambda: theta(0.9, 2), "alpha"),
        (lambda: theta(1.2, 0), "channels"),
        (lambda: alpha_for_utilization(0), "utilization"),
        (lambda: alpha_for_capacity(10, capacity=2, channels=4), "capacity"),
        (lambda: alphas((1.2, 1.2)), "three"),
        (lambda: Resources.parse("LXL"), "three letters"),
        (lambda: tracking_threshold(LCL, 10, alpha=1.2, sigma=0, domain=10), "sigma"),
        (lambda: tracking_threshold(LCL, 10, alpha=1.2, sigma=0.1, domain=0), "domain"),
    ],
)
def test_bad_input_is_named(act, words) -> None:
    with pytest.raises(ValueError, match=words):
        act()
