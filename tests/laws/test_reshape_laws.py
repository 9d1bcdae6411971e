"""Reshaping: whatever changes among pins, every key's state is taken from the bin that had it, by the bin that has it now, once."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headgate.routing.reshape import reshaped
from headgate.routing.table import Pin, Table

HASHES = list(range(-9, 30, 3))


@st.composite
def pinned(draw: st.DrawFn) -> Table:
    """Some keys pinned, some of them split: the pieces of a key are on different channels."""
    hashes = draw(st.lists(st.sampled_from(HASHES), max_size=8))
    bins = sorted(draw(st.lists(st.integers(4, 30), min_size=len(hashes), max_size=len(hashes), unique=True)))
    pins = tuple(Pin(h, b) for h, b in zip(hashes, bins, strict=True))
    places = [hashes[:at].count(h) for at, h in enumerate(hashes)]
    return Table(
        version=0, from_batch=0, channels=9, hash_bins=4, assignment=(0,) * 4 + tuple(places), pins=pins
    )


def bins_of(table: Table, key_hash: int) -> list[int]:
    pins = table.pinned.get(key_hash)
    return [pin.bin for pin in pins] if pins else [table.home_bin(key_hash)]


@given(pinned(), pinned())
def test_every_row_of_every_old_bin_is_taken_once_by_a_bin_of_its_key(old: Table, new: Table) -> None:
    rows = [(h, bin) for h in HASHES for bin in bins_of(old, h)]
    changes = reshaped(old, new)
    taken: list[tuple[int, int]] = []
    for bin in {*new.bins, *changes}:
        if bin in changes:
            held = [
                (h, at)
                for s in changes[bin]
                for h, at in rows
                if at == s.bin and (h in s.hashes) != s.without
            ]
        else:
            held = [(h, at) for h, at in rows if at == bin]
        assert all(bin in bins_of(new, h) for h, _ in held)
        taken += held
    assert sorted(taken) == sorted(rows)


@given(pinned(), st.integers(1, 9))
def test_a_piece_is_where_the_row_arrives(table: Table, spread: int) -> None:
    hashes = np.array(HASHES, np.int64)
    channels = table.channel_of_hash(hashes, np.full(len(hashes), spread, np.int64))
    for h, channel in zip(HASHES, channels.tolist(), strict=True):
        (bin,) = table.bin_of_hash(np.array([h], np.int64), channel).tolist()
        assert bin in bins_of(table, h)
        assert table.channel_of[bin] == channel
