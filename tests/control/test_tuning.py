"""The collection time that follows from what moves bring."""

import pytest

from headgate.control.tuning import Tuner


def after(*seen, least=0.01):
    """The least collection time after collections of (rows per second, bins moved after it)."""
    tuner = Tuner(least)
    for rate, moved in seen:
        tuner = tuner.saw(round(rate * 10), 10.0).moved(moved)
    return tuner.delta_min_s


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([(1000, 0), (1000, 0)], 0.01),
        ([(1000, 1), (1000, 0)], 0.02),
        ([(1000, 1), (1010, 0)], 0.02),
        ([(1000, 1), (1100, 0)], 0.01),
        ([(1000, 1), (1000, 1), (1000, 1), (1000, 0)], 0.08),
        ([(1000, 1), (1000, 1), (1000, 1), (1200, 0)], 0.02),
        ([(1000, 1), (1000, 1), (1000, 0), (800, 0)], 0.01),
        ([(1000, 1)] * 20, 2.0),
    ],
    ids=[
        "nothing moved",
        "a move that brought nothing doubles it",
        "a rise within chance is nothing",
        "a rise beyond chance pays",
        "again and again",
        "a move that pays halves it",
        "a fall of a tenth starts over",
        "up to a bound",
    ],
)
def test_the_least_collection_time(seen, expected) -> None:
    assert after(*seen) == pytest.approx(expected)
