# mypy: allow-untyped-defs, allow-untyped-calls
"""Rows of equal keys in one batch, found in two passes: rows of equal hashes, then a look at their keys.

The second pass has no order to keep, so the processor reads many keys at a time; a table of state, which
has to look at a key before it goes on, takes five times as long. If two keys do share a hash, rows are
grouped again, by such a table.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.compiled import compiled
from headgate.state.index import GOLDEN, ODD, index_bits
from headgate.state.keys import KeySpec
from headgate.state.lanes import NO_BYTES, NO_INTS, Lane, LaneColumn, to_lane
from headgate.state.layout import StateLayout
from headgate.state.table import BinTable

Ints = NDArray[np.int64]


def grouped(key: KeySpec, rows: pa.RecordBatch, hashes: Ints, parts: Ints = NO_INTS) -> tuple[Ints, Ints]:
    """(group of each row, first row of each group); rows are in one group if their keys and parts are equal.

    Groups are numbered in the order of their first rows.

    >>> rows = pa.RecordBatch.from_pydict({"user": ["ann", "bob", "ann"]})
    >>> group, first = grouped(KeySpec(("user",), (pa.string(),)), rows, np.array([1, 1, 1]))
    >>> group.tolist(), first.tolist()
    ([0, 1, 0], [0, 1])
    """
    columns = [rows.column(name) for name in key.names]
    group, first = by_hash(hashes, parts)
    lanes = [to_lane(column) for column in columns]
    lanes += [LaneColumn(Lane.I64, parts, NO_BYTES)] if len(parts) else []
    if all(_equal(lane, group, first) for lane in lanes):
        return group, first
    names = BinTable.create(StateLayout(key.is_fixed, (), parts=len(parts) > 0), rows=len(hashes))
    group = names.probe(key.encode(columns, hashes), np.arange(len(hashes)), parts)
    return group, np.unique(group, return_index=True)[1]


def _equal(lane: LaneColumn, group: Ints, first: Ints) -> bool:
    if lane.lane is Lane.BYTES:
        return bool(_equal_bytes(lane.offsets, lane.data, lane.valid, group, first))
    width = 2 if lane.lane is Lane.I128 else 1
    return bool(equal_words(lane.data.view(np.int64), width, lane.valid, group, first))


@compiled
def by_hash(hashes, parts):
    """`grouped`, if different keys and parts have different hashes."""
    n = len(hashes)
    bits = index_bits(max(2 * n, 2))
    index = np.full(1 << bits, -1, np.int32)
    shift, mask = np.uint64(64 - bits), (1 << bits) - 1
    group, first, known = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.uint64)
    count = np.int64(0)
    for r in range(n):
        h = np.uint64(hashes[r])
        if len(parts) > 0:
            h += np.uint64(parts[r]) * ODD
        at = np.int64((h * GOLDEN) >> shift)
        g = np.int64(index[at])
        while g >= 0 and known[g] != h:
            at = (at + 1) & mask
            g = np.int64(index[at])
        if g < 0:
            g = count
            index[at] = g
            first[g] = r
            known[g] = h
            count += 1
        group[r] = g
    return group, first[:count].copy()


@compiled
def equal_words(data, width, valid, group, first):
    """Whether each row has the value of the first row of its group, in `width` words."""
    different = np.int64(0)
    if width == 1 and len(valid) == 0:
        for r in range(len(group)):
            different |= data[first[group[r]]] ^ data[r]
        return different == 0
    for r in range(len(group)):
        f = first[group[r]]
        if len(valid) > 0 and valid[r] != valid[f]:
            return False
        if len(valid) > 0 and valid[r] == 0:
            continue
        for j in range(width):
            different |= data[width * f + j] ^ data[width * r + j]
    return different == 0


@compiled
def _equal_bytes(offsets, data, valid, group, first):
    """`equal_words` for byte strings."""
    for r in range(len(group)):
        f = first[group[r]]
        if f == r:
            continue
        if len(valid) > 0 and valid[r] != valid[f]:
            return False
        if len(valid) > 0 and valid[r] == 0:
            continue
        a, b, size = offsets[r], offsets[f], offsets[r + 1] - offsets[r]
        if offsets[f + 1] - b != size:
            return False
        different = np.uint8(0)
        for j in range(size):
            different |= data[np.uint64(a + j)] ^ data[np.uint64(b + j)]
        if different:
            return False
    return True
