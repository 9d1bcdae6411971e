"""The routing table: Law 1, the lookups against slow ones, and the laws of `ring` and `rescale`."""

import doctest
import json
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import ConfigError
from headgate.routing import table as table_module
from headgate.routing.table import Move, Pin, Table, lost_pieces, rescale
from headgate.testing import builders
from headgate.testing.strategies import key_hashes, tables

sizes = st.integers(1, 200).flatmap(lambda bins: st.tuples(st.just(bins), st.integers(1, min(bins, 40))))


def counts(table):
    return [len(table.bins_of(channel)) for channel in range(table.channels)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"assignment": (0, 1, 0)}, "every bin has exactly one channel"),
        ({"assignment": (0, 1, 0, 2, 1)}, "bin 3 is on channel 2"),
        ({"assignment": (0, -1, 0, 1, 1)}, "bin 1 is on channel -1"),
        ({"channels": 0}, "channels=0"),
        ({"hash_bins": 0}, "hash_bins=0"),
        ({"pins": (Pin(7, 3),)}, "pinned bin 3 is a hash bin"),
        ({"pins": (Pin(7, 6), Pin(8, 5)), "assignment": (0,) * 6}, "order of distinct bins"),
        ({"pins": (Pin(7, 5), Pin(7, 6)), "assignment": (0,) * 6}, "different channels"),
        ({"pins": (Pin(2**63, 5),)}, "signed 64-bit"),
    ],
)
def test_a_table_that_breaks_law_1_cannot_be_made(change, message) -> None:
    good: dict[str, Any] = {"version": 0, "from_batch": 0, "channels": 2, "hash_bins": 4}
    good |= {"assignment": (0, 1, 0, 1, 1), "pins": (Pin(7, 9),)}
    Table(**good)
    with pytest.raises(ConfigError, match=message):
        Table(**(good | change))


@given(tables(), st.lists(key_hashes, max_size=30))
def test_lookup_equals_the_obvious_one(table, hashes) -> None:
    hashes += [pin.hash for pin in table.pins]
    pinned = {pin.hash: pin.bin for pin in reversed(table.pins)}
    bins = [pinned.get(key, key % table.hash_bins) for key in hashes]
    array = np.array(hashes, dtype=np.int64)
    found = table.bin_of_hash(array)
    assert found.dtype == np.int32
    assert found.tolist() == bins
    assert table.channel_of_hash(array).tolist() == [table.channel_of[bin] for bin in bins]


@given(tables())
def test_json_and_pickle_round_trip(table) -> None:
    assert Table.from_json(json.loads(json.dumps(table.to_json()))) == table
    table.channel_of_hash(np.zeros(1, dtype=np.int64))
    assert pickle.loads(pickle.dumps(table)) == table


def test_uniform_deals_neighbours_apart() -> None:
    table = Table.uniform(7, 3)
    assert table.assignment == (0, 1, 2, 0, 1, 2, 0)
    assert table.bins_of(0) == (0, 3, 6)


@pytest.mark.parametrize("make", [Table.uniform, Table.ring])
@pytest.mark.parametrize(("bins", "channels"), [(4, 0), (4, 5), (0, 1)])
def test_sizes_that_cannot_be(make, bins, channels) -> None:
    with pytest.raises(ConfigError, match=f"{channels} channels for {bins} bins"):
        make(bins, channels)


@given(sizes)
def test_ring_is_even_and_one_channel_more_moves_bins_only_to_it(size) -> None:
    bins, channels = size
    table = Table.ring(bins, channels)
    assert max(counts(table)) - min(counts(table)) <= 1
    if channels < bins:
        wider = Table.ring(bins, channels + 1)
        moved = {b for b in range(bins) if wider.assignment[b] != table.assignment[b]}
        assert moved == set(wider.bins_of(channels))
        assert len(moved) == bins // (channels + 1)


def test_the_example_runs() -> None:
    assert doctest.testmod(table_module).failed == 0


def test_free_bins_fill_the_holes() -> None:
    table = builders.table([0, 0, 0, 0], pins=[Pin(1, 3), Pin(2, 5)])
    assert table.hash_bins == 2
    assert table.free_bins(3) == (2, 4, 6)


def after(table, channels, moves):
    place = dict(table.items())
    for move in moves:
        assert place[move.bin] == move.source != move.target
        place[move.bin] = move.target
    return [sum(place[b] == c for b in range(table.hash_bins)) for c in range(channels)], place


def fewest_moves(table, channels):
    """Total excess or total lack, whichever is more: below that some channel is off by more than one."""
    mean = table.hash_bins / channels
    excess = lack = 0
    for channel in range(max(channels, table.channels)):
        held = sum(b < table.hash_bins for b in table.bins_of(channel))
        low, high = (int(np.ceil(mean - 1)), int(np.floor(mean + 1))) if channel < channels else (0, 0)
        excess += max(0, held - high)
        lack += max(0, low - held)
    return max(excess, lack)


@given(tables(), st.integers(1, 10), st.lists(st.sampled_from("abc"), max_size=10))
def test_rescale_is_even_with_the_fewest_moves(table, channels, places) -> None:
    if channels > table.hash_bins:
        with pytest.raises(ConfigError):
            rescale(table, channels)
        return
    moves = rescale(table, channels, places=places)
    found, place = after(table, channels, moves)
    assert all(abs(count - table.hash_bins / channels) <= 1 for count in found)
    lost = lost_pieces(table, channels)
    assert all(channel < channels for bin, channel in place.items() if bin not in lost)
    assert not {move.bin for move in moves} & set(lost)
    assert {pin.hash for pin in table.pins} == {pin.hash for pin in table.pins if pin.bin not in lost}
    assert sum(move.bin < table.hash_bins for move in moves) == fewest_moves(table, channels)
    pinned = [move for move in moves if move.bin >= table.hash_bins]
    assert all(move.source >= channels for move in pinned)


@given(sizes)
def test_rescale_of_an_even_table_to_its_own_size_moves_nothing(size) -> None:
    assert rescale(Table.uniform(*size), size[1]) == ()


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 12))
def test_bins_of_removed_channels_stay_on_their_executor_if_there_is_room(executors, times, each) -> None:
    channels = executors * times
    even = Table.uniform(channels * each, channels)
    places = [f"e{channel % executors}" for channel in range(channels)]
    moves = rescale(even, executors, places=places)
    assert all(places[move.source] == places[move.target] for move in moves)


def test_pins_of_a_removed_channel_go_where_the_load_is_least() -> None:
    table = builders.table([0, 1, 2, 0, 1, 2, 2, 2], pins=[Pin(5, 6), Pin(6, 7)])
    load = {0: 1.0, 3: 1.0, 1: 5.0, 4: 5.0, 6: 20.0, 7: 1.0}
    moves = rescale(table, 2, load)
    assert Move(6, 2, 0) in moves  # 2 of load against 10
    assert Move(7, 2, 1) in moves  # then 22 against 10
