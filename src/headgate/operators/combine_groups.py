# mypy: allow-untyped-defs, allow-untyped-calls
"""Rows of equal keys, found in one pass over a batch that is kept no longer: quicker than a table of state."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headgate.compiled import compiled, inlined
from headgate.state.index import GOLDEN, ODD, index_bits
from headgate.state.keys import KeyColumn
from headgate.state.lanes import NO_INTS

Ints = NDArray[np.int64]


def grouped(keys: KeyColumn, parts: Ints = NO_INTS) -> tuple[Ints, Ints]:
    """(group of each row, first row of each group); rows are in one group if their keys and parts are equal.

    Groups are numbered in the order of their first rows.

    >>> keys = KeyColumn.fixed(np.array([7, 9, 7]), hashes=np.array([1, 1, 1]))
    >>> group, first = grouped(keys); group.tolist(), first.tolist()
    ([0, 1, 0], [0, 1])
    """
    if len(keys.offsets):
        return _grouped_bytes(keys.hashes, keys.offsets, keys.data, parts)  # type: ignore[no-any-return]
    return _grouped_fixed(keys.hashes, keys.data, keys.valid, parts)  # type: ignore[no-any-return]


# An entry of the index is (31 bits of the hash, group) in one word: rows of other keys are mostly told apart
# without looking at their keys. An empty entry is negative.


@inlined
def _home(h, parts, r, shift):
    """(position in the index, tag) of a hash and the part of row r."""
    u = np.uint64(h)
    if len(parts) > 0:
        u += np.uint64(parts[r]) * ODD
    u *= GOLDEN
    return np.int64(u >> shift), np.int64(u & np.uint64(0x7FFFFFFF))


@compiled
def _grouped_fixed(hashes, data, valid, parts):
    n = len(hashes)
    bits = index_bits(max(2 * n, 2))
    index = np.full(1 << bits, -1, np.int64)
    shift, mask = np.uint64(64 - bits), (1 << bits) - 1
    group, first, count = np.empty(n, np.int64), np.empty(n, np.int64), 0
    for r in range(n):
        at, tag = _home(hashes[r], parts, r, shift)
        entry = index[at]
        found = -1
        while entry >= 0:
            if entry >> 32 == tag:
                f = first[entry & 0xFFFFFFFF]
                same = data[f] == data[r] and (len(valid) == 0 or valid[f] == valid[r])
                if same and (len(parts) == 0 or parts[f] == parts[r]):
                    found = entry & 0xFFFFFFFF
                    break
            at = (at + 1) & mask
            entry = index[at]
        if found < 0:
            found = count
            index[at] = (tag << 32) | count
            first[count] = r
            count += 1
        group[r] = found
    return group, first[:count].copy()


@compiled
def _grouped_bytes(hashes, offsets, data, parts):
    n = len(hashes)
    bits = index_bits(max(2 * n, 2))
    index = np.full(1 << bits, -1, np.int64)
    shift, mask = np.uint64(64 - bits), (1 << bits) - 1
    group, first, count = np.empty(n, np.int64), np.empty(n, np.int64), 0
    for r in range(n):
        at, tag = _home(hashes[r], parts, r, shift)
        a, size = offsets[r], offsets[r + 1] - offsets[r]
        entry = index[at]
        found = -1
        while entry >= 0:
            if entry >> 32 == tag:
                f = first[entry & 0xFFFFFFFF]
                same = offsets[f + 1] - offsets[f] == size and hashes[f] == hashes[r]
                if same and (len(parts) == 0 or parts[f] == parts[r]):
                    b = offsets[f]
                    for j in range(size):
                        if data[a + j] != data[b + j]:
                            same = False
                            break
                    if same:
                        found = entry & 0xFFFFFFFF
                        break
            at = (at + 1) & mask
            entry = index[at]
        if found < 0:
            found = count
            index[at] = (tag << 32) | count
            first[count] = r
            count += 1
        group[r] = found
    return group, first[:count].copy()
