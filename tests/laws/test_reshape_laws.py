"""Reshaping: whatever changes among pins, every key's state is taken from the bin that had it, by the bin that has it now, once."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headgate.routing.reshape import reshaped
from headgate.routing.table import Pin, Table

HASHES = list(range(-9, 30, 3))


@st.composite
def pinned(draw: st.DrawFn) -> Table:
    hashes = draw(st.lists(st.sampled_from(HASHES), unique=True))
    bins = sorted(draw(st.lists(st.integers(4, 30), min_size=len(hashes), max_size=len(hashes), unique=True)))
    pins = tuple(Pin(h, b) for h, b in zip(hashes, bins, strict=True))
    return Table(
        version=0, from_batch=0, channels=1, hash_bins=4, assignment=(0,) * (4 + len(pins)), pins=pins
    )


@given(pinned(), pinned())
def test_each_key_is_taken_once_from_where_it_was(old: Table, new: Table) -> None:
    hashes = np.array(HASHES, np.int64)
    before = dict(zip(HASHES, old.bin_of_hash(hashes).tolist(), strict=True))
    after = dict(zip(HASHES, new.bin_of_hash(hashes).tolist(), strict=True))
    changes = reshaped(old, new)
    for bin in {*after.values(), *changes}:
        if bin in changes:
            held = [
                h for s in changes[bin] for h in HASHES if before[h] == s.bin and (h in s.hashes) != s.without
            ]
        else:
            held = [h for h in HASHES if before[h] == bin]
        assert sorted(held) == [h for h in HASHES if after[h] == bin]
