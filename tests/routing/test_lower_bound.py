"""The lower bound of the busiest channel holds for every placement, found by trying all of them."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.routing.lower_bound import busiest_bound

LOADS = st.lists(st.integers(1, 12).map(float), max_size=6)
NUMBERS = st.integers(1, 4)


def best(loads, channels, rest, speeds, fixed):
    """The lowest busiest over mean of all placements; what can be divided is poured on the lowest levels."""
    mean = (sum(loads) + rest + sum(fixed)) / sum(speeds)
    if mean == 0:
        return 1.0
    lowest = float("inf")
    for where in product(range(channels), repeat=len(loads)):
        held = np.array(fixed)
        np.add.at(held, list(where), loads)
        top = float((held / speeds).max())
        room = float(np.maximum(top * np.array(speeds) - held, 0).sum())
        lowest = min(lowest, max(top, top + (rest - room) / sum(speeds)))
    return lowest / mean


@given(
    loads=LOADS, channels=NUMBERS, rest=st.sampled_from([0.0, 1.0, 9.0]), uneven=st.booleans(), data=st.data()
)
def test_no_placement_is_below_the_bound(loads, channels, rest, uneven, data) -> None:
    several = st.lists(st.integers(1, 4).map(float), min_size=channels, max_size=channels)
    speeds = data.draw(several) if uneven else [1.0] * channels
    fixed = data.draw(several) if data.draw(st.booleans()) else [0.0] * channels
    bound = busiest_bound(loads, channels, rest=rest, speeds=np.array(speeds), fixed=np.array(fixed))
    assert 1.0 <= bound <= best(loads, channels, rest, speeds, fixed) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("loads", "channels", "why"),
    [
        ([4, 1, 1], 3, "the heaviest is alone"),
        ([3, 3, 3, 3], 3, "two of four on three channels are together"),
        ([2] * 7, 3, "three of seven on three channels are together"),
        ([5, 5, 2], 2, "the two heaviest are apart, and the third joins one"),
    ],
)
def test_it_is_reached(loads, channels, why) -> None:
    nothing, even = [0.0] * channels, [1.0] * channels
    assert busiest_bound(loads, channels) == pytest.approx(best(loads, channels, 0.0, even, nothing)), why


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="each of 2 channels"):
        busiest_bound([1.0], 2, speeds=np.ones(3))
    with pytest.raises(ValueError, match="at least 1"):
        busiest_bound([1.0], 0)
