"""Keys too hot for one channel: bounds, and in how many parts to split them."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.routing.balance import theta
from headgate.routing.builders import (
    Objective,
    imbalance_bound,
    too_hot,
)


def test_bounds_and_splits_of_keys_too_hot() -> None:
    assert imbalance_bound(np.array([0.5, 0.1]), 1.0, 4) == pytest.approx(0.5 / (0.5 / 3))
    assert imbalance_bound(np.array([1.0]), 1.0, 4) == np.inf
    assert imbalance_bound(np.array([]), 0.0, 4) == imbalance_bound(np.array([0.3]), 1.0, 1) == 1.0
    goal = Objective(alpha=1.1)
    limit = (1 + theta(1.1, 8)) / 8
    shares = np.array([limit * 0.999, limit * 1.001, limit * 2.001, 0.99])
    found = too_hot(np.arange(4), shares, channels=8, objective=goal)
    assert [(h.key, h.ways) for h in found] == [(3, 8), (2, 3), (1, 2)]
    assert too_hot(np.arange(1), np.array([1.0]), channels=1, objective=goal) == ()


@given(st.lists(st.integers(1, 12).map(float), min_size=1, max_size=6), st.integers(1, 4))
def test_no_placement_has_a_lower_ratio_than_the_bound(loads, channels) -> None:
    best = np.inf
    for where in product(range(channels), repeat=len(loads)):
        levels = np.bincount(where, loads, channels)
        best = min(best, levels.max() / levels.min() if levels.min() > 0 else np.inf)
    assert imbalance_bound(np.array(loads), sum(loads), channels) <= best * (1 + 1e-12)
