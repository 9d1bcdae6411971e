"""The predictors: each knows its kind of load, and none looks into the future."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.policies.predictors import regressed, repeated, smoothed, trend
from headgate.policies.waves import cycles

ALL = {
    "smoothed": lambda history, steps: smoothed(history, steps, 0.5),
    "trend": trend,
    "regressed": regressed,
    "cycle": lambda history, steps: cycles(history, steps)[0],
    "rhythm": lambda history, steps: cycles(history, steps)[1],
    "repeated": repeated,
}


@pytest.mark.parametrize("name", ALL)
@given(
    seed=st.integers(0, 2**32),
    length=st.integers(1, 128),
    channels=st.integers(1, 4),
    cut=st.integers(0, 127),
)
@settings(max_examples=25)
def test_a_prediction_of_the_past_uses_earlier_steps_alone(name, seed, length, channels, cut) -> None:
    history = np.random.default_rng(seed).gamma(1.0, 1.0, (length, channels))
    cut = min(cut, length - 1)
    other = history.copy()
    other[cut:] = np.random.default_rng(seed + 1).gamma(2.0, 1.0, (length - cut, channels))
    found, changed = ALL[name](history, 5), ALL[name](other, 5)
    assert found.past.shape == history.shape
    assert found.ahead.shape == (5, channels)
    assert np.isfinite(found.ahead).all()
    if cut:
        assert found.past[1 : cut + 1] == pytest.approx(changed.past[1 : cut + 1], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 18, 31, 32, 33, 128])
def test_a_constant_stays(name, length) -> None:
    found = ALL[name](np.tile([2.0, 5.0], (length, 1)), 3)
    assert found.past == pytest.approx(np.tile([2.0, 5.0], (length, 1)))
    assert found.ahead == pytest.approx(np.tile([2.0, 5.0], (3, 1)))


def errors(found, truth):
    return np.abs(found.ahead - truth).max()


def test_a_sinusoid_is_continued() -> None:
    wave = 3 + np.sin(2 * np.pi * np.arange(138)[:, None] / np.array([25, 17]))
    assert errors(cycles(wave[:128], 10)[0], wave[128:]) < 0.15


def test_an_edge_that_comes_back_is_expected() -> None:
    square = 1 + 4 * (np.arange(138)[:, None] % 20 < 7).astype(np.float64)
    assert errors(repeated(square[:128], 10), square[128:]) == 0


def test_a_ramp_is_continued() -> None:
    ramp = np.linspace(1, 4, 138)[:, None]
    assert errors(trend(ramp[:128], 10), ramp[128:]) < 0.15
    assert errors(smoothed(ramp[:128], 10, 0.5), ramp[128:]) > 0.2


def test_jobs_that_end_after_a_fixed_time_are_expected_to_end() -> None:
    rng = np.random.default_rng(1)
    came = rng.poisson(0.3, (400, 12))
    running = 1.0 + np.stack([np.convolve(each, np.ones(10), "valid") for each in came.T], axis=1)
    squares = dict.fromkeys(("regressed", "smoothed", "last"), 0.0)
    for end in range(128, len(running)):
        history, truth = running[end - 128 : end], running[end]
        for name, found in (
            ("regressed", regressed(history, 1)),
            ("smoothed", smoothed(history, 1, 0.5)),
            ("last", smoothed(history, 1, 1.0)),
        ):
            squares[name] += float(((found.ahead[0] - truth) ** 2).sum())
    assert squares["regressed"] < 0.85 * squares["last"] < squares["smoothed"]


def test_a_wave_of_all_channels_is_found_below_their_noise() -> None:
    rng = np.random.default_rng(3)
    wave = 3 + np.sin(2 * np.pi * np.arange(138) / 25)
    history = wave[:128, None] + rng.normal(0, 2, (128, 24))
    own, common = cycles(history, 10)
    missed = [np.sqrt(((each.ahead - wave[128:, None]) ** 2).mean()) for each in (own, common)]
    assert missed[1] < 0.5 * missed[0]


def test_regression_is_fitted_early_and_then_when_the_past_has_doubled() -> None:
    rng = np.random.default_rng(4)
    came = rng.poisson(0.3, (45, 100))
    running = 1.0 + np.stack([np.convolve(each, np.ones(10), "valid") for each in came.T], axis=1)
    found, lasts = regressed(running, 1).past, smoothed(running, 1, 1.0).past
    squares = [float(((each[24:] - running[24:]) ** 2).sum()) for each in (found, lasts)]
    assert squares[0] < 0.9 * squares[1]


def best_lags(values):
    """The periods to choose from before each step: those with the least mean square, of those seen long enough."""
    found = []
    for at in range(len(values)):
        errors = {
            lag: np.mean([(values[t] - values[t - lag]) ** 2 for t in range(lag, at)])
            for lag in range(1, min(at - 1, max(1, len(values) // 2)) + 1)
            if at - lag >= max(8, lag / 2)
        }
        least = min(errors.values(), default=0.0) + 1e-9
        found.append([lag for lag, error in errors.items() if error <= least] or [1])
    return found


@given(st.lists(st.integers(1, 4), min_size=1, max_size=60), st.lists(st.integers(1, 9), min_size=1))
@settings(max_examples=40)
def test_the_period_is_the_lag_with_the_least_error(noise, motif) -> None:
    columns = noise, [motif[at % len(motif)] for at in range(len(noise))]
    history = np.array(columns, dtype=np.float64).T
    past = repeated(history, 3).past
    for column, values in enumerate(columns):
        for at, lags in enumerate(best_lags(values)):
            assert past[at, column] in {values[max(at - lag, 0)] for lag in lags}
