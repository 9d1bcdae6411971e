# mypy: allow-untyped-defs, allow-untyped-calls
"""Compiled loops over the heap of a table (byte strings and rings), and a counting sort.

The rules of `headgate.state.index` apply.
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import compiled, inlined
from headgate.state.index import SHORT_OF_HEAP
from headgate.state.layout import head

HEAP_USED, HEAP_SIZE, HEAP_GARBAGE, NEED = head.HEAP_USED, head.HEAP_SIZE, head.HEAP_GARBAGE, head.NEED


@inlined
def put_bytes(header, heap, off, length, slot, data, a, n):
    """Replace one byte string in the heap; False if the heap is full.

    Every byte of the heap that is outside the padded lengths in use counts as garbage, including the tail
    of a string that became shorter.
    """
    b = off[slot]
    if n <= ((length[slot] + 7) & ~7):
        header[HEAP_GARBAGE] += ((length[slot] + 7) & ~7) - ((n + 7) & ~7)
    else:
        b = header[HEAP_USED]
        if b + n > header[HEAP_SIZE]:
            header[NEED] = SHORT_OF_HEAP
            return False
        header[HEAP_GARBAGE] += (length[slot] + 7) & ~7
        header[HEAP_USED] = b + ((n + 7) & ~7)
        off[slot] = b
    for j in range(n):
        heap[b + j] = data[a + j]
    length[slot] = n
    return True


@compiled
def put_all_bytes(header, heap, off, length, slots, lo, in_off, in_data):
    """Replace many byte strings, one per slot."""
    for i in range(lo, len(slots)):
        if not put_bytes(header, heap, off, length, slots[i], in_data, in_off[i], in_off[i + 1] - in_off[i]):
            return i
    return len(slots)


@compiled
def gather_offsets(sizes, rows):
    """Offsets of the gathered byte strings of `rows`."""
    out = np.empty(len(rows) + 1, np.int64)
    out[0] = 0
    for i in range(len(rows)):
        out[i + 1] = out[i] + sizes[rows[i]]
    return out


@compiled
def gather_bytes(heap, off, rows, out_off, out):
    """Copy the byte strings of `rows` out of the heap."""
    for i in range(len(rows)):
        a = off[rows[i]]
        b = out_off[i]
        for j in range(out_off[i + 1] - b):
            out[b + j] = heap[a + j]


@compiled
def move_heap(old, new, off, size, unit, rows, used):
    """Copy what one heap column refers to into a new heap, from `used` on; returns the new `used`."""
    for row in range(rows):
        n = size[row] * unit
        a = off[row]
        for j in range(n):
            new[used + j] = old[a + j]
        off[row] = used
        used += (n + 7) & ~7
    return used


@compiled
def ring_cap(n, k):
    """The next size of a ring's block; at most 2k, so that its window moves to the front once in k values."""
    return min(2 * k, max(4, 2 * n))


@compiled
def ring_push(header, heap64, off, length, cap, at, fresh, slot, value, k):
    """Append one value to a ring of at most `k`; False if the heap is full.

    The window of a ring is contiguous and oldest first, at `off / 8 + at`, so statistics read it in place.
    """
    n = cap[slot]
    a = off[slot] >> 3
    if at[slot] + length[slot] == n:
        b = a
        if n < 2 * k:
            wider = ring_cap(n, k)
            used = header[HEAP_USED]
            if used + 8 * wider > header[HEAP_SIZE]:
                header[NEED] = SHORT_OF_HEAP
                return False
            header[HEAP_GARBAGE] += 8 * n
            header[HEAP_USED] = used + 8 * wider
            off[slot] = used
            cap[slot] = wider
            b = used >> 3
        for j in range(length[slot]):
            heap64[b + j] = heap64[a + at[slot] + j]
        at[slot] = 0
        a = b
    heap64[a + at[slot] + length[slot]] = value
    if length[slot] < k:
        length[slot] += 1
    else:
        at[slot] += 1
    if fresh[slot] < k:
        fresh[slot] += 1
    return True


@compiled
def ring_push_all(header, heap64, off, length, cap, at, fresh, slots, lo, in_off, values, k):
    """Append `values[in_off[i]:in_off[i + 1]]` to the ring of `slots[i]`: for each slot all or none."""
    for i in range(lo, len(slots)):
        slot = slots[i]
        room = 0
        n = cap[slot]
        while n < min(2 * k, at[slot] + length[slot] + in_off[i + 1] - in_off[i]):
            n = ring_cap(n, k)
            room += 8 * n
        if header[HEAP_USED] + room > header[HEAP_SIZE]:
            header[NEED] = SHORT_OF_HEAP
            return i
        for j in range(in_off[i], in_off[i + 1]):
            ring_push(header, heap64, off, length, cap, at, fresh, slot, values[j], k)
    return len(slots)


@compiled
def ring_gather(heap64, off, length, at, rows, out_off, out):
    """Copy the last `out_off[i + 1] - out_off[i]` values of each ring, oldest first."""
    for i in range(len(rows)):
        row = rows[i]
        count = out_off[i + 1] - out_off[i]
        a = (off[row] >> 3) + at[row] + length[row] - count
        for j in range(count):
            out[out_off[i] + j] = heap64[a + j]


@compiled
def sort_by_bin(bins, count):
    """Stable counting sort: (order, starts) with the rows of bin b at `order[starts[b]:starts[b + 1]]`."""
    starts = np.zeros(count + 1, np.int64)
    for b in bins:
        starts[b + 1] += 1
    for b in range(count):
        starts[b + 1] += starts[b]
    at = starts[:-1].copy()
    order = np.empty(len(bins), np.int64)
    for i in range(len(bins)):
        b = bins[i]
        order[at[b]] = i
        at[b] += 1
    return order, starts
