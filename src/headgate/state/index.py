# mypy: allow-untyped-defs, allow-untyped-calls
"""Compiled loops over the rows of a table: find, insert, remove, and the rows that are due. Rules:

1. A loop that may run out of memory returns the position at which it stopped, having changed nothing for
   that position; `header[NEED]` says what is short. The caller grows the table and calls again from there.
2. Rows beyond `header[ROWS]` are zero in every array. A row that a batch removed has its stamp negated
   until the next batch begins; then the row is zeroed, its stamp is `FREED_STAMP`, and it may be reused.
3. `index` finds a row by key and part; `heads` finds the first row of a key, if the layout groups rows.

`order[lo:hi]` are row numbers of the input, in the order of processing. The part of an input row belongs
to its position in `order`, because one input row may concern several parts.
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import compiled, inlined
from headgate.state.layout import head

ROWS, CAPACITY, HEAP_USED, HEAP_SIZE = head.ROWS, head.CAPACITY, head.HEAP_USED, head.HEAP_SIZE
TOUCHED, NEED, EPOCH = head.TOUCHED, head.NEED, head.EPOCH
FREE, FREED, REMOVED = head.FREE, head.FREED, head.REMOVED
SHORT_OF_ROWS, SHORT_OF_HEAP = 1, 2
GOLDEN, ODD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
FREED_STAMP = -1
AHEAD = 64
"""So many rows are looked up at a time before they are needed."""
FOREVER = 1 << 62
"""A time that never comes."""


@inlined
def spread(h, p, bits):
    """Index position of a hash and a part: the high bits of a product, because the low bits chose the bin."""
    return np.int64(((np.uint64(h) + np.uint64(p) * ODD) * GOLDEN) >> np.uint64(64 - bits))


@compiled
def index_bits(size):
    """log2 of a power of two."""
    bits = 0
    while (1 << bits) < size:
        bits += 1
    return bits


@inlined
def mark(header, stamp, touched, row):
    """Note that `row` changed in this batch."""
    if (stamp[row] >> 32) != header[EPOCH]:
        stamp[row] = header[EPOCH] << 32
        touched[header[TOUCHED]] = row
        header[TOUCHED] += 1


@inlined
def touch(header, stamp, touched, row):
    """Note that `row` changed in this batch, and count its changes.

    A stamp is (epoch, count) in one word, so this costs one load.
    """
    mark(header, stamp, touched, row)
    stamp[row] += 1


@compiled
def mark_all(header, stamp, touched, rows):
    """Note that these rows changed in this batch."""
    for row in rows:
        mark(header, stamp, touched, row)


@inlined
def part_of(part, row):
    """The part of a row; 0 where the layout has none."""
    return part[row] if len(part) > 0 else 0


@compiled
def reindex(header, index, heads, hashes, part, stamp, prev):
    """Fill an empty index, and the heads, from the stored rows; the chains do not change."""
    index[:] = -1
    bits = index_bits(len(index))
    heads[:] = -1
    for row in range(header[ROWS]):
        if stamp[row] < 0:
            continue
        at = spread(hashes[row], part_of(part, row), bits)
        while index[at] >= 0:
            at = (at + 1) & (len(index) - 1)
        index[at] = row
        if len(heads) > 0 and prev[row] == 0:
            at = spread(hashes[row], 0, bits)
            while heads[at] >= 0:
                at = (at + 1) & (len(heads) - 1)
            heads[at] = row


@inlined
def seek_fixed(index, bits, key, null, part, h, k, is_null, p):
    """(position in the index, row or -1) of a key that is one int64."""
    at = spread(h, p, bits)
    row = index[at]
    while row >= 0 and not (key[row] == k and null[row] == is_null and (len(part) == 0 or part[row] == p)):
        at = (at + 1) & (len(index) - 1)
        row = index[at]
    return at, row


@inlined
def seek_bytes(index, bits, hashes, off, length, heap, part, h, data, a, n, p):
    """(position in the index, row or -1) of a key that is a byte string, `data[a:a + n]`."""
    at = spread(h, p, bits)
    row = index[at]
    while row >= 0:
        if hashes[row] == h and length[row] == n and (len(part) == 0 or part[row] == p):
            b = off[row]
            same = True
            for j in range(n):
                if heap[b + j] != data[a + j]:
                    same = False
                    break
            if same:
                break
        at = (at + 1) & (len(index) - 1)
        row = index[at]
    return at, row


@inlined
def free_row(header):
    """The row that the next new key gets; equal to the capacity if the table is full."""
    return header[FREE] - 1 if header[FREE] > 0 else header[ROWS]


@inlined
def take_row(header, hashes, row):
    """Mark that row as used. Free rows form a list that is linked through their hashes."""
    if header[FREE] > 0:
        header[FREE] = hashes[row]
        header[FREED] -= 1
    else:
        header[ROWS] += 1


@inlined
def link(heads, following, prev, at, first, row):
    """Put a new row before the other rows of its key. A link is a row number plus one; zero is no link."""
    if first >= 0:
        following[row] = first + 1
        prev[first] = row + 1
    heads[at] = row


@inlined
def look_ahead(index, bits, key, stamp, order, lo, hi, in_hash, in_part, slots):
    """Read what the next rows will need, in loops without a decision: the processor then waits for many cache
    lines at a time, where `probe` would wait for one after the other. What `slots` gets is replaced later.
    """
    for i in range(lo, hi):
        slots[i] = index[spread(in_hash[order[i]], in_part[i] if len(in_part) > 0 else 0, bits)]
    for i in range(lo, hi):
        if slots[i] >= 0:
            slots[i] = key[slots[i]] ^ stamp[slots[i]]


@compiled
def probe_fixed(
    header, index, hashes, stamp, touched, part, heads, following, prev, key, null,
    order, lo, hi, in_hash, in_key, in_valid, in_part, slots,
):  # fmt: skip
    """Find or insert the state row of each input row; `slots[i]` is the row of `order[i]`."""
    bits, no_part = index_bits(len(index)), part[:0]
    for i in range(lo, hi):
        if (i - lo) % AHEAD == 0:
            look_ahead(index, bits, key, stamp, order, i, min(i + AHEAD, hi), in_hash, in_part, slots)
        r = order[i]
        h = in_hash[r]
        p = in_part[i] if len(in_part) > 0 else 0
        is_null = np.uint8(0)
        k = in_key[r]
        if len(in_valid) > 0 and in_valid[r] == 0:
            is_null = np.uint8(1)
            k = 0
        at, row = seek_fixed(index, bits, key, null, part, h, k, is_null, p)
        if row < 0:
            row = free_row(header)
            if row == header[CAPACITY]:
                header[NEED] = SHORT_OF_ROWS
                return i
            take_row(header, hashes, row)
            index[at] = row
            hashes[row] = h
            key[row] = k
            null[row] = is_null
            if len(part) > 0:
                part[row] = p
            if len(heads) > 0:
                at, first = seek_fixed(heads, bits, key, null, no_part, h, k, is_null, 0)
                link(heads, following, prev, at, first, row)
        touch(header, stamp, touched, row)
        slots[i] = row
    return hi


@compiled
def probe_bytes(
    header, index, hashes, stamp, touched, part, heads, following, prev, off, length, heap,
    order, lo, hi, in_hash, in_off, in_data, in_part, slots,
):  # fmt: skip
    """`probe_fixed` for keys that are byte strings."""
    bits, no_part = index_bits(len(index)), part[:0]
    for i in range(lo, hi):
        if (i - lo) % AHEAD == 0:
            look_ahead(index, bits, hashes, stamp, order, i, min(i + AHEAD, hi), in_hash, in_part, slots)
        r = order[i]
        h = in_hash[r]
        p = in_part[i] if len(in_part) > 0 else 0
        a = in_off[r]
        n = in_off[r + 1] - a
        at, row = seek_bytes(index, bits, hashes, off, length, heap, part, h, in_data, a, n, p)
        if row < 0:
            row = free_row(header)
            if row == header[CAPACITY]:
                header[NEED] = SHORT_OF_ROWS
                return i
            b = header[HEAP_USED]
            if b + n > header[HEAP_SIZE]:
                header[NEED] = SHORT_OF_HEAP
                return i
            take_row(header, hashes, row)
            for j in range(n):
                heap[b + j] = in_data[a + j]
            header[HEAP_USED] = b + ((n + 7) & ~7)
            index[at] = row
            hashes[row] = h
            off[row] = b
            length[row] = n
            if len(part) > 0:
                part[row] = p
            if len(heads) > 0:
                at, first = seek_bytes(heads, bits, hashes, off, length, heap, no_part, h, in_data, a, n, 0)
                link(heads, following, prev, at, first, row)
        touch(header, stamp, touched, row)
        slots[i] = row
    return hi


@compiled
def find_fixed(index, key, null, part, order, in_hash, in_key, in_valid, in_part, slots):
    """Find the state row of each input row; -1 where there is none. Nothing is inserted."""
    bits = index_bits(len(index))
    for i in range(len(order)):
        r = order[i]
        p = in_part[i] if len(in_part) > 0 else 0
        is_null = np.uint8(0)
        k = in_key[r]
        if len(in_valid) > 0 and in_valid[r] == 0:
            is_null = np.uint8(1)
            k = 0
        _, row = seek_fixed(index, bits, key, null, part, in_hash[r], k, is_null, p)
        slots[i] = row


@compiled
def find_bytes(index, hashes, off, length, heap, part, order, in_hash, in_off, in_data, in_part, slots):
    """`find_fixed` for keys that are byte strings."""
    bits = index_bits(len(index))
    for i in range(len(order)):
        r = order[i]
        p = in_part[i] if len(in_part) > 0 else 0
        n = in_off[r + 1] - in_off[r]
        _, row = seek_bytes(
            index, bits, hashes, off, length, heap, part, in_hash[r], in_data, in_off[r], n, p
        )
        slots[i] = row


@compiled
def touch_found(header, stamp, touched, slots):
    """Count the rows that were found (not -1) as touched."""
    for row in slots:
        if row >= 0:
            touch(header, stamp, touched, row)


@inlined
def strike(index, bits, hashes, part, row):
    """Remove a row from an index; entries that it displaced move back, so no tombstone is needed."""
    mask = len(index) - 1
    hole = spread(hashes[row], part_of(part, row), bits)
    while index[hole] != row:
        hole = (hole + 1) & mask
    at = (hole + 1) & mask
    while index[at] >= 0:
        home = spread(hashes[index[at]], part_of(part, index[at]), bits)
        if ((at - home) & mask) >= ((at - hole) & mask):
            index[hole] = index[at]
            hole = at
        at = (at + 1) & mask
    index[hole] = -1


@inlined
def unlink(heads, bits, hashes, no_part, following, prev, row):
    """Remove a row from the chain of its key."""
    after, before = following[row], prev[row]
    if after > 0:
        prev[after - 1] = before
    if before > 0:
        following[before - 1] = after
    elif after > 0:
        at = spread(hashes[row], 0, bits)
        while heads[at] != row:
            at = (at + 1) & (len(heads) - 1)
        heads[at] = after - 1
    else:
        strike(heads, bits, hashes, no_part, row)
    following[row] = 0
    prev[row] = 0


@compiled
def remove_all(header, index, hashes, stamp, touched, part, heads, following, prev, rows):
    """Remove rows: lookups no longer find them. Their keys and columns stay readable until the next batch."""
    bits, no_part = index_bits(len(index)), part[:0]
    if len(heads) == 0 and 4 * len(rows) > header[ROWS]:  # most rows: to fill the index anew is quicker
        for row in rows:
            if stamp[row] >= 0:
                mark(header, stamp, touched, row)
                stamp[row] = -stamp[row]
                header[REMOVED] += 1
        reindex(header, index, heads, hashes, part, stamp, prev)
        return
    for row in rows:
        if stamp[row] < 0:
            continue
        mark(header, stamp, touched, row)
        strike(index, bits, hashes, part, row)
        if len(heads) > 0:
            unlink(heads, bits, hashes, no_part, following, prev, row)
        stamp[row] = -stamp[row]
        header[REMOVED] += 1


@compiled
def due_rows(header, stamp, due, now):
    """(the rows that are due by `now`, the earliest time of the others)."""
    rows = np.empty(header[ROWS], np.int64)
    count = 0
    earliest = FOREVER
    for row in range(header[ROWS]):
        if stamp[row] < 0:
            continue
        if due[row] <= now:
            rows[count] = row
            count += 1
        elif due[row] < earliest:
            earliest = due[row]
    return rows[:count].copy(), earliest


@compiled
def zero(array, rows):
    """Set the elements of these rows to zero."""
    for row in rows:
        array[row] = 0


@compiled
def free_all(header, hashes, stamp, rows):
    """Add removed rows to the list of free rows."""
    for i in range(len(rows)):
        stamp[rows[i]] = FREED_STAMP
        hashes[rows[i]] = rows[i - 1] + 1 if i > 0 else header[FREE]
    header[FREE] = rows[-1] + 1
    header[FREED] += len(rows)
    header[REMOVED] = 0


@compiled
def removed_of(stamp, rows, removed):
    """Those of the rows that this batch removed, or the others."""
    out = np.empty(len(rows), np.int32)
    count = 0
    for row in rows:
        out[count] = row
        count += (stamp[row] < 0) == removed
    return out[:count].copy()
