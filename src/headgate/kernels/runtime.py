# mypy: allow-untyped-defs, allow-untyped-calls
"""Compiled helpers of kernels. Interpreted kernels call some of them too, so that both give the same bits."""

from __future__ import annotations

import math

import numpy as np

from headgate.compiled import bare
from headgate.operators.history import squares_of, total_of
from headgate.state.kernels import ring_push

MOST, LEAST = np.int64(2**63 - 1), np.int64(-(2**63))
SMALL = np.int64(2**31)


# numba tells LLVM that signed integers never overflow, so LLVM may remove a check for overflow. Unsigned
# integers wrap around modulo 2**64, so the operations are done on those.


@bare
def wrapped_sum(a, b):
    """The 64 bits of a + b."""
    return np.int64(np.uint64(a) + np.uint64(b))


@bare
def wrapped_difference(a, b):
    """The 64 bits of a - b."""
    return np.int64(np.uint64(a) - np.uint64(b))


@bare
def wrapped_product(a, b):
    """The 64 bits of a * b."""
    return np.int64(np.uint64(a) * np.uint64(b))


@bare
def mul_overflows(a, b, product):
    """Whether `product`, the 64 bits of a * b, is not a * b."""
    if -SMALL <= a < SMALL and -SMALL <= b < SMALL:
        return False
    if a == 0 or b == 0:
        return False
    if (a == -1 and b == LEAST) or (b == -1 and a == LEAST):
        return True
    return product // b != a


@bare
def float_mod(a, b):
    """`a % b` as in Python: the result has the sign of the divisor."""
    mod = np.fmod(a, b)
    if mod != 0.0:
        if (b < 0.0) != (mod < 0.0):
            mod += b
    else:
        mod = math.copysign(0.0, b)
    return mod


@bare
def float_floordiv(a, b):
    """`a // b` as in Python."""
    mod = np.fmod(a, b)
    div = (a - mod) / b
    if mod != 0.0 and (b < 0.0) != (mod < 0.0):
        div -= 1.0
    if div == 0.0:
        return math.copysign(0.0, a / b)
    floor = np.floor(div)
    if div - floor > 0.5:
        floor += 1.0
    return floor


@bare
def order(a, x):
    """-1, 0 or 1: an integer compared exactly with a float; 2 if the float is NaN."""
    if x != x:
        return 2
    if x >= 9223372036854775808.0:
        return -1
    if x < -9223372036854775808.0:
        return 1
    b = np.int64(x)
    if a != b:
        return -1 if a < b else 1
    rest = x - float(b)
    return (rest < 0.0) * 1 - (rest > 0.0) * 1


@bare
def turns(start, stop, step):
    """How many numbers `range(start, stop, step)` has, at most 2**62."""
    if step > 0:
        if start >= stop:
            return np.int64(0)
        count = (np.uint64(stop) - np.uint64(start) - np.uint64(1)) // np.uint64(step)
    else:
        if start <= stop:
            return np.int64(0)
        count = (np.uint64(start) - np.uint64(stop) - np.uint64(1)) // (np.uint64(~step) + np.uint64(1))
    return np.int64(min(count, np.uint64(2**62 - 1))) + 1


@bare
def whole(x):
    """Whether a rounded float fits an integer of 64 bits; NaN does not."""
    return -9223372036854775808.0 <= x < 9223372036854775808.0


@bare
def compare(a, i, n, b, j, m):
    """-1, 0 or 1: the order of two texts, by code points."""
    for x in range(min(n, m)):
        if a[i + x] != b[j + x]:
            return 1 if a[i + x] > b[j + x] else -1
    return (n > m) - (n < m)


@bare
def same(a, i, n, b, j, m):
    """Whether two texts are equal."""
    if n != m:
        return False
    for x in range(n):  # noqa: SIM110 (compiled code has no generators)
        if a[i + x] != b[j + x]:
            return False
    return True


@bare
def contains(a, i, n, b, j, m):
    """Whether the second text occurs in the first."""
    for x in range(n - m + 1):  # noqa: SIM110
        if same(a, i + x, m, b, j, m):
            return True
    return False


@bare
def characters(a, i, n):
    """The number of code points of a text."""
    count = 0
    for x in range(n):
        if (a[i + x] & 0xC0) != 0x80:
            count += 1
    return count


@bare
def prefix(a, i, n, count):
    """The number of bytes of the first `count` code points of a text."""
    seen = 0
    for x in range(n):
        if (a[i + x] & 0xC0) != 0x80:
            if seen == count:
                return x
            seen += 1
    return n


@bare
def copy(a, i, n, b, j):
    """Copy `a[i:i + n]` to `b[j:j + n]`."""
    for x in range(n):
        b[j + x] = a[i + x]


@bare
def find(words, start, count, key):
    """The position of a key among the entries of a mapping, -1 if it is absent."""
    for x in range(count):
        if words[start + 2 * x] == key:
            return x
    return -1


@bare
def drop(words, start, count, at):
    """Remove an entry from a mapping; the entries behind it move up."""
    for x in range(start + 2 * at, start + 2 * (count - 1)):
        words[x] = words[x + 2]


@bare
def float_of(word):
    """A float from its bits."""
    return np.int64(word).view(np.float64)


@bare
def word_of(value):
    """The bits of a float."""
    return np.float64(value).view(np.int64)


@bare
def room(length, slot, n):
    """The bytes of heap that a string of n bytes needs in addition to those of its slot."""
    return 0 if n <= ((length[slot] + 7) & ~7) else (n + 7) & ~7


@bare
def ring_note(length, fresh, slot, note):
    """Note what a ring is before a row, for `ring_undo`."""
    note[0] = length[slot]
    note[1] = fresh[slot]
    note[2] = 0


@bare
def ring_append(header, heap, off, length, cap, at, fresh, slot, value, k, note, lost):
    """Append a value, and note the value that it evicts, so that `ring_undo` can restore it."""
    if length[slot] == k and note[2] < note[0]:
        evicted = heap[(off[slot] >> 3) + at[slot]]
        if not ring_push(header, heap, off, length, cap, at, fresh, slot, value, k):
            return False
        lost[note[2]] = evicted
        note[2] += 1
        return True
    return ring_push(header, heap, off, length, cap, at, fresh, slot, value, k)


@bare
def ring_undo(heap, off, length, at, fresh, slot, note, lost):
    """Restore a ring to what it was at `ring_note`."""
    kept = note[0] - note[2]
    start = off[slot] >> 3
    first = start + at[slot]
    if first < start + note[2]:  # the kept values move right, so the last one is copied first
        for x in range(kept - 1, -1, -1):
            heap[start + note[2] + x] = heap[first + x]
    else:
        for x in range(kept):
            heap[start + note[2] + x] = heap[first + x]
    for x in range(note[2]):
        heap[start + x] = lost[x]
    at[slot] = 0
    length[slot] = note[0]
    fresh[slot] = note[1]


@bare
def smallest(x, lo, hi):
    """The first of the smallest values of x[lo:hi], compared in order."""
    best = x[lo]
    for j in range(lo + 1, hi):
        if x[j] < best:
            best = x[j]
    return best


@bare
def largest(x, lo, hi):
    """The first of the largest values of x[lo:hi], compared in order."""
    best = x[lo]
    for j in range(lo + 1, hi):
        if x[j] > best:
            best = x[j]
    return best


@bare
def sum_overflows(x, lo, hi):
    """Whether adding integers overflows 64 bits at any step."""
    total = np.int64(0)
    for j in range(lo, hi):
        new = wrapped_sum(total, x[j])
        if ((total ^ new) & (x[j] ^ new)) < 0:
            return True
        total = new
    return False


@bare
def whole_sum(x, lo, hi):
    """The sum of integers."""
    total = np.int64(0)
    for j in range(lo, hi):
        total += x[j]
    return total


@bare
def deviation(x, lo, hi):
    """The sample standard deviation of x[lo:hi], which must have at least two values."""
    n = hi - lo
    mean = total_of(x, lo, hi) / n
    return math.sqrt(squares_of(x, lo, hi, mean) / (n - 1))
