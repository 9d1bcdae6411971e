"""The forecast: cycles are continued, short disturbances pass, and nothing leaves what was seen."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.policies.forecast import LEAST, cautious, forecast


def test_a_cycle_is_continued() -> None:
    time = np.arange(128)
    past = np.stack([2 + np.sin(2 * np.pi * time / 25), np.full(128, 1.0)], axis=1)
    got = forecast(past, 10)
    assert got[:, 0] == pytest.approx(2 + np.sin(2 * np.pi * np.arange(128, 138) / 25), abs=0.1)
    assert got[:, 1] == pytest.approx(np.ones(10))


def test_a_short_disturbance_is_expected_to_pass_and_a_lasting_one_to_last() -> None:
    short = np.ones((100, 1))
    short[[20, 50, 70, 99]] = 3.0
    assert forecast(short, 3)[:, 0] == pytest.approx([1.08] * 3, abs=0.1)
    lasting = np.ones((100, 1))
    lasting[60:] = 3.0
    assert forecast(lasting, 1)[0, 0] > 2.5


def test_with_a_short_past_it_is_the_last_value() -> None:
    past = np.arange(2 * (LEAST - 1), dtype=float).reshape(-1, 2)
    assert forecast(past, 2).tolist() == [past[-1].tolist()] * 2


@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 3), st.integers(1, 12))
@settings(max_examples=40)
def test_it_stays_within_what_was_seen(seed, length, channels, steps) -> None:
    past = np.random.default_rng(seed).gamma(1.0, 1.0, (length, channels))
    got = forecast(past, steps)
    assert got.shape == (steps, channels)
    assert (got >= past.min(axis=0) - 1e-12).all()
    assert (got <= past.max(axis=0) + 1e-12).all()


def test_caution_is_for_several_restless_channels_and_changes_nothing_for_one_or_none() -> None:
    calm = np.tile([1.0, 2.0, 3.0], (50, 1))
    assert cautious(calm, 3) == pytest.approx(forecast(calm, 3))
    calm[::2, 0] = 3.0
    assert cautious(calm, 3) == pytest.approx(forecast(calm, 3))
    calm[::3, 1] = 4.0
    more = cautious(calm, 3) - forecast(calm, 3)
    assert more[:, 2] == pytest.approx(np.zeros(3))
    assert more[:, :2].min() > np.diff(calm[:, 1]).std()
