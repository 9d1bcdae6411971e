"""Where channels sit: dealt evenly, and where they were as far as there is room; names are learned where there is no doubt."""

import doctest
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from headgate.spark import anchor
from headgate.spark.anchor import dealt, named

executors = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=5, unique=True)
near = st.lists(st.sampled_from([*"abcdef", ""]), max_size=12)


@given(near, st.integers(1, 12), executors)
def test_channels_are_dealt_evenly(wanted, channels, places) -> None:
    found = dealt(wanted, channels, places)
    counts = Counter(found)
    assert len(found) == channels
    assert set(counts) <= set(places)
    held = [counts[place] for place in places]
    assert max(held) - min(held) <= 1


@given(near, st.integers(1, 12), executors)
def test_as_many_channels_stay_as_an_even_spread_allows(wanted, channels, places) -> None:
    found = dealt(wanted, channels, places)
    asked = Counter(place for place in wanted[:channels] if place in places)
    each, more = divmod(channels, len(places))
    beyond = sum(asked[place] > each for place in places)
    most = sum(min(asked[place], each) for place in places) + min(beyond, more)
    assert sum(place == at for place, at in zip(wanted, found, strict=False)) == most


@given(executors, st.integers(1, 12))
def test_a_spread_that_is_even_stays_as_it_is(places, channels) -> None:
    found = dealt([], channels, places)
    assert dealt(found, channels, places) == found


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), max_size=6))
def test_a_name_is_that_of_one_executor(seen) -> None:
    found = named([location for location, _ in seen], [place for _, place in seen])
    assert len(set(found.values())) == len(found)
    for location, place in found.items():
        assert all((a == location) == (b == place) for a, b in seen)


def test_the_examples_run() -> None:
    assert doctest.testmod(anchor).failed == 0
