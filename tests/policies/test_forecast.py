"""The forecast: never much worse than none, cycles and steps are learnt, and caution where it pays."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.policies import hedge
from headgate.policies.forecast import (
    CAUTION,
    LEAST,
    candidates,
    combined,
    forecast,
    predictions,
    times,
)
from headgate.policies.predictors import smoothed

KINDS = ("noise", "walk", "steps", "square", "spikes")


def drawn(kind, seed, length, channels):
    """A history of costs of one kind."""
    rng = np.random.default_rng(seed)
    if kind == "noise":
        return rng.gamma(1.0, 1.0, (length, channels)) + 0.01
    if kind == "walk":
        return np.exp(np.cumsum(rng.normal(0, 0.3, (length, channels)), axis=0))
    if kind == "steps":
        return 1 + rng.uniform(0, 9, (length, channels))[np.cumsum(rng.random(length) < 0.05)]
    if kind == "square":
        return 1 + 5.0 * (np.arange(length)[:, None] % rng.integers(4, 30, channels) < 3)
    return 1 + 1e4 * (rng.random((length, channels)) < 0.05)


def current_of(history):
    return smoothed(history, 1, 0.5).ahead[0]


@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**32),
    length=st.integers(LEAST, 128),
    channels=st.integers(2, 6),
    move_s=st.sampled_from([0.0, 3.0]),
)
@settings(max_examples=60)
def test_it_is_never_worse_than_none_by_more_than_the_bound(kind, seed, length, channels, move_s) -> None:
    history = drawn(kind, seed, length, channels)
    best, deviation = combined(history, predictions(history, 3, 0.5))
    losses = candidates(history, current_of(history), best, deviation, move_s=move_s).times
    trust = hedge.guarded(losses)[:-1]
    regret = float((trust * losses).sum() - losses[:, 0].sum())
    assert regret <= hedge.most_missed(losses) + 1e-9 * losses.sum()
    none = times(smoothed(history, 1, 0.5).past[None], history, move_s)[1:, 0]
    assert losses[:, 0] == pytest.approx(none)  # the first candidate is no forecast


@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**32),
    length=st.integers(1, 60),
    steps=st.integers(1, 12),
)
@settings(max_examples=40)
def test_it_is_positive_and_not_far_from_what_was_seen(kind, seed, length, steps) -> None:
    history = drawn(kind, seed, length, 3)
    got = forecast(history, current_of(history), steps)
    assert got.shape == (steps, 3)
    assert (got > 0).all()
    assert np.isfinite(got).all()


def test_with_a_short_or_constant_past_it_is_what_is_expected_without_it() -> None:
    short = np.arange(2.0, 2.0 + 2 * (LEAST - 1)).reshape(-1, 2)
    assert forecast(short, np.array([3.0, 4.0]), 2).tolist() == [[3.0, 4.0]] * 2
    assert forecast(np.full((60, 2), 3.0), np.array([3.0, 3.0]), 2).tolist() == [[3.0, 3.0]] * 2


def ratio(expected):
    """The second channel's cost over the first one's: all that shares depend on."""
    return expected[:, 1] / expected[:, 0]


def test_a_cycle_is_continued() -> None:
    wave = 3 + 2 * np.sin(2 * np.pi * np.arange(138) / 25)
    history = np.stack([np.ones(128), wave[:128]], axis=1)
    assert ratio(forecast(history, current_of(history), 10)) == pytest.approx(wave[128:], rel=0.15)


def test_after_a_step_the_new_level_is_expected() -> None:
    history = np.ones((100, 2))
    history[60:, 1] = 4.0
    assert ratio(forecast(history, current_of(history), 5)) == pytest.approx(np.full(5, 4.0), rel=0.05)
    assert ratio(forecast(history[:63], current_of(history[:63]), 1)) > 3


def test_restless_channels_are_planned_with_a_margin() -> None:
    rng = np.random.default_rng(5)
    history = np.ones((128, 12))
    history[:, :6] = 1 + rng.poisson(3, (128, 6))
    got = forecast(history, current_of(history), 3)
    restless, calm = got[:, :6].mean(), got[:, 6:].mean()
    assert restless / calm > 4.5  # the mean cost is 4
    assert CAUTION[0] == 0


@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 2**32), length=st.integers(1, 40))
@settings(max_examples=30)
def test_a_candidate_is_judged_by_the_slowest_channel_and_its_moves(kind, seed, length) -> None:
    seen = drawn(kind, seed, length, 3)
    expected = np.stack([drawn(kind, seed + at, length, 3) for at in (1, 2)])
    shares = 1 / expected / (1 / expected).sum(axis=2, keepdims=True)
    changes = np.abs(np.diff(shares, axis=1, prepend=shares[:, :1]))
    least = 1 / (1 / seen).sum(axis=1)
    spent = (shares * seen + 2.5 * changes).max(axis=2)
    assert times(expected, seen, 2.5) == pytest.approx((spent / least).T)
