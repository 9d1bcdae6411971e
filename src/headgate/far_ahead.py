"""Which event times count: one clock that is years ahead must not close every window.

A timestamp is *far ahead* if a gap of more than `ahead` separates it from both the newest time so far
and the median of its batch. Rows with such timestamps are counted, but they do not move the watermark.
The decision depends only on the rows of the batch, not on how they are cut or routed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

NEVER = -(1 << 62)
"""Earlier than every time."""
_NEAR = "near"
Spans = Mapping[str, tuple[int, int, int]]
"""The number of rows, the first and the last time of each interval that has rows of a batch."""


def spans_of(times: NDArray[np.int64], newest: int, ahead: int) -> dict[str, tuple[int, int, int]]:
    """Group times into intervals of length `ahead`; all times up to `newest + ahead` are one group, 'near'.

    >>> spans_of(np.array([5, 12, 31, 33]), newest=10, ahead=10)
    {'near': (2, 5, 12), '3': (2, 31, 33)}
    """
    spans: dict[str, tuple[int, int, int]] = {}
    is_later = times > newest + ahead if newest > NEVER else np.ones(len(times), bool)
    near = times[~is_later] if is_later.any() else times
    if len(near):
        spans[_NEAR] = (len(near), int(near.min()), int(near.max()))
    if is_later.any():
        later = times[is_later]
        first, last = int(later.min()), int(later.max())
        if first // ahead == last // ahead:  # so it is in most batches
            spans[str(first // ahead)] = (len(later), first, last)
            return spans
        later.sort()
        intervals, starts = np.unique(later // ahead, return_index=True)
        ends = np.append(starts[1:], len(later))
        for interval, a, b in zip(intervals.tolist(), starts.tolist(), ends.tolist(), strict=True):
            spans[str(interval)] = (b - a, int(later[a]), int(later[b - 1]))
    return spans


def merged(parts: Iterable[Spans]) -> dict[str, tuple[int, int, int]]:
    """The spans of several parts of a batch, added up."""
    total: dict[str, tuple[int, int, int]] = {}
    for part in parts:
        for name, (rows, first, last) in part.items():
            n, a, b = total.get(name, (0, first, last))
            total[name] = (n + rows, min(a, first), max(b, last))
    return total


def newest_and_far_ahead(newest: int, spans: Spans, ahead: int) -> tuple[int, int]:
    """After a batch: the newest time that counts, and the number of rows that are far ahead of it."""
    ordered = sorted(spans.values(), key=lambda span: span[1])
    rows = sum(n for n, _, _ in ordered)
    far_ahead, below = 0, 0
    for n, first, last in ordered:
        holds_median = 2 * below < rows  # at least half of the rows are in this span or a later one
        below += n
        if holds_median or first - newest <= ahead:
            newest = max(newest, last)
        else:
            far_ahead += n
    return newest, far_ahead
