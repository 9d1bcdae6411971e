# mypy: allow-untyped-defs, allow-untyped-calls
"""Compiled accumulators.

`slots[i]` is the state row of input row `order[i]`; an empty `valid` means that nothing is
null. Sums return 1 on overflow, and the caller raises; the state is then discarded, so a
half-applied sum does no harm.
"""

from __future__ import annotations

import numpy as np

from headgate.compiled import compiled
from headgate.state.kernels import put_bytes


@compiled
def is_null(valid, r):
    """Whether input row r is null."""
    return len(valid) > 0 and valid[r] == 0


@compiled
def count(slots, order, valid, n):
    """Count the rows that are not null."""
    for i in range(len(slots)):
        if not is_null(valid, order[i]):
            n[slots[i]] += 1


@compiled
def add(slots, order, n_in, n):
    """Add counts."""
    for i in range(len(slots)):
        n[slots[i]] += n_in[order[i]]


@compiled
def sum_i64(slots, order, data, valid, total, seen):
    """Exact 64-bit sums."""
    for i in range(len(slots)):
        r = order[i]
        if is_null(valid, r):
            continue
        s = slots[i]
        old = total[s]
        new = old + data[r]
        if ((old ^ new) & (data[r] ^ new)) < 0:
            return 1
        total[s] = new
        seen[s] = 1
    return 0


@compiled
def sum_f64(slots, order, data, valid, total, seen):
    """Floating sums, in row order."""
    for i in range(len(slots)):
        r = order[i]
        if is_null(valid, r):
            continue
        total[slots[i]] += data[r]
        seen[slots[i]] = 1
    return 0


@compiled
def sum_i128(slots, order, data, valid, low, high, n):
    """Exact 128-bit sums of (low, high) pairs; n counts the rows."""
    for i in range(len(slots)):
        r = order[i]
        if is_null(valid, r):
            continue
        s = slots[i]
        a = np.uint64(low[s])
        b = a + np.uint64(data[2 * r])
        old = high[s]
        new = old + data[2 * r + 1] + (1 if b < a else 0)
        if ((old ^ new) & (data[2 * r + 1] ^ new)) < 0:
            return 1
        low[s] = np.int64(b)
        high[s] = new
        n[s] += 1
    return 0


@compiled
def merge_i128(slots, order, low_in, high_in, n_in, low, high, n):
    """Add the 128-bit sums of other rows to those of each slot."""
    for i in range(len(slots)):
        r = order[i]
        if n_in[r] == 0:
            continue
        s = slots[i]
        a = np.uint64(low[s])
        b = a + np.uint64(low_in[r])
        old = high[s]
        new = old + high_in[r] + (1 if b < a else 0)
        if ((old ^ new) & (high_in[r] ^ new)) < 0:
            return 1
        low[s] = np.int64(b)
        high[s] = new
        n[s] += n_in[r]
    return 0


@compiled
def moments(slots, order, data, valid, n, mean, m2):
    """Count, mean and sum of squared deviations (Welford), in row order."""
    for i in range(len(slots)):
        r = order[i]
        if is_null(valid, r):
            continue
        s = slots[i]
        n[s] += 1
        d = data[r] - mean[s]
        mean[s] += d / n[s]
        m2[s] += d * (data[r] - mean[s])


@compiled
def merge_moments(slots, order, n_in, mean_in, m2_in, n, mean, m2):
    """Add the moments of other rows to those of each slot (Chan)."""
    for i in range(len(slots)):
        r = order[i]
        s = slots[i]
        if n_in[r] == 0:
            continue
        total = n[s] + n_in[r]
        d = mean_in[r] - mean[s]
        m2[s] += m2_in[r] + d * d * (n[s] * (n_in[r] / total))
        mean[s] += d * (n_in[r] / total)
        n[s] = total


@compiled
def extreme_i64(slots, order, data, valid, best, seen, largest):
    """Smallest or largest integer."""
    for i in range(len(slots)):
        r = order[i]
        if is_null(valid, r):
            continue
        s = slots[i]
        v = data[r]
        if seen[s] == 0 or (v > best[s] if largest else v < best[s]):
            best[s] = v
            seen[s] = 1


@compiled
def extreme_f64(slots, order, data, valid, best, seen, largest):
    """Smallest or largest double; NaN is larger than every number, as in Spark."""
    for i in range(len(slots)):
        r = order[i]
        if is_null(valid, r):
            continue
        s = slots[i]
        v = data[r]
        if seen[s] == 0:
            better = True
        elif largest:
            better = v > best[s] or (np.isnan(v) and not np.isnan(best[s]))
        else:
            better = v < best[s] or (np.isnan(best[s]) and not np.isnan(v))
        if better:
            best[s] = v
            seen[s] = 1


@compiled
def extreme_i128(slots, order, low_in, high_in, stride, valid, low, high, seen, largest):
    """Smallest or largest decimal; the halves of row r are at `stride * r`."""
    for i in range(len(slots)):
        r = order[i]
        if is_null(valid, r):
            continue
        s = slots[i]
        a, b = high_in[stride * r], np.uint64(low_in[stride * r])
        c, d = high[s], np.uint64(low[s])
        more = a > c or (a == c and b > d)
        less = a < c or (a == c and b < d)
        if seen[s] == 0 or (more if largest else less):
            low[s] = low_in[stride * r]
            high[s] = a
            seen[s] = 1


@compiled
def extreme_bytes(slots, order, lo, in_off, data, valid, header, heap, off, length, seen, largest):
    """Smallest or largest byte string, compared as unsigned bytes, as in Spark; resumable from `lo`."""
    for i in range(lo, len(slots)):
        r = order[i]
        if is_null(valid, r):
            continue
        s = slots[i]
        a, n = in_off[r], in_off[r + 1] - in_off[r]
        if seen[s]:
            b, m = off[s], length[s]
            sign = 0
            for j in range(min(n, m)):
                if data[a + j] != heap[b + j]:
                    sign = 1 if data[a + j] > heap[b + j] else -1
                    break
            if sign == 0:
                sign = 1 if n > m else (-1 if n < m else 0)
            if sign == 0 or (sign > 0) != largest:
                continue
        if not put_bytes(header, heap, off, length, s, data, a, n):
            return i
        seen[s] = 1
    return len(slots)


@compiled
def pick(slots, order, valid, seen, last, ignore_nulls, chosen):
    """For first and last: set `chosen[i]` to 1 if row `order[i]` replaces the value of its slot.

    `seen` becomes 1 if the slot then holds a null, and 2 if it holds a value.
    """
    for i in range(len(slots)):
        s = slots[i]
        null = is_null(valid, order[i])
        take = (last or seen[s] == 0) and not (null and ignore_nulls)
        chosen[i] = 1 if take else 0
        if take:
            seen[s] = 1 if null else 2


@compiled
def put_fixed(slots, order, chosen, data, value, stride, part):
    """Store the chosen rows of a fixed-width lane (`stride` 2 and `part` 0 or 1 for decimals)."""
    for i in range(len(slots)):
        if chosen[i]:
            value[slots[i]] = data[stride * order[i] + part]


@compiled
def put_chosen_bytes(slots, order, lo, chosen, in_off, data, header, heap, off, length):
    """Store the chosen byte strings; resumable from `lo`."""
    for i in range(lo, len(slots)):
        r = order[i]
        if chosen[i] and not put_bytes(
            header, heap, off, length, slots[i], data, in_off[r], in_off[r + 1] - in_off[r]
        ):
            return i
    return len(slots)
