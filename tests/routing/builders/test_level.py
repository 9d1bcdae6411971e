"""level: it goes on where readj stands still."""

import numpy as np
import pytest

from headgate.routing.builders import (
    Objective,
    Problem,
    level,
    readj,
)


def test_level_leaves_the_plateau_where_readj_stands_still() -> None:
    p = Problem(np.full(40, 1 / 40), np.arange(40) % 2, 4)
    assert readj(p).steps == 0
    assert np.bincount(level(p).channel).tolist() == [10, 10, 10, 10]
    assert level(p).moved_state == pytest.approx(0.5)
    assert level(p, max_steps=3).moved_state == pytest.approx(3 / 40)


def test_level_swaps_where_no_move_helps_and_stops_when_it_is_enough() -> None:
    p = Problem(np.array([6.0, 5.0, 4.0, 1.0]), np.array([0, 0, 1, 1]), 2, Objective(alpha=1.1))
    assert level(p).channel.tolist() in ([0, 1, 1, 0], [1, 0, 0, 1], [0, 1, 0, 1], [1, 0, 1, 0])
    calm = Problem(np.array([5.0, 5.1]), np.array([0, 1]), 2)
    assert level(calm).moved_state == 0.0
    assert level(Problem(np.empty(0), np.empty(0, dtype=np.int64), 3)).channel.size == 0
