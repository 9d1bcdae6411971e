"""Which event times are believed: one clock that is years ahead must not close every window.

A time is believed only if no gap of more than `ahead` lies between it and the newest time so far, or the middle of its batch, whichever is
later; the others are *astray*. What is believed depends on the rows of the batch alone, not on how they are cut or routed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

NEVER = -(1 << 62)
"""Before every time."""
_NEAR = "near"
Spans = Mapping[str, tuple[int, int, int]]
"""Rows, first and last time of each stretch of a batch's times."""


def spans_of(times: NDArray[np.int64], newest: int, ahead: int) -> dict[str, tuple[int, int, int]]:
    """Times in stretches of `ahead`; those that are near what is known are one stretch.

    >>> spans_of(np.array([5, 12, 31, 33]), newest=10, ahead=10)
    {'near': (2, 5, 12), '3': (2, 31, 33)}
    """
    found: dict[str, tuple[int, int, int]] = {}
    far = times > newest + ahead if newest > NEVER else np.ones(len(times), bool)
    near = times[~far] if far.any() else times
    if len(near):
        found[_NEAR] = (len(near), int(near.min()), int(near.max()))
    if far.any():
        strays = np.sort(times[far])
        stretches, starts = np.unique(strays // ahead, return_index=True)
        ends = np.append(starts[1:], len(strays))
        for stretch, a, b in zip(stretches.tolist(), starts.tolist(), ends.tolist(), strict=True):
            found[str(stretch)] = (b - a, int(strays[a]), int(strays[b - 1]))
    return found


def merged(parts: Iterable[Spans]) -> dict[str, tuple[int, int, int]]:
    """The stretches of several parts of a batch together."""
    found: dict[str, tuple[int, int, int]] = {}
    for part in parts:
        for name, (rows, first, last) in part.items():
            n, a, b = found.get(name, (0, first, last))
            found[name] = (n + rows, min(a, first), max(b, last))
    return found


def believed(newest: int, spans: Spans, ahead: int) -> tuple[int, int]:
    """(the newest time that is believed, how many rows are astray) after a batch."""
    ordered = sorted(spans.values(), key=lambda span: span[1])
    rows = sum(n for n, _, _ in ordered)
    astray, below = 0, 0
    for n, first, last in ordered:
        middle = 2 * below < rows  # half of the rows or more are as new as this, or newer
        below += n
        if middle or first - newest <= ahead:
            newest = max(newest, last)
        else:
            astray += n
    return newest, astray
