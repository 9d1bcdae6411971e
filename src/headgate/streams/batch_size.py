"""How many rows the next batch of a direct stream takes: at most a limit, and no more than are
likely to be done within a target latency.

A batch of n rows takes a + b n seconds. Both are fitted to the last batches, and n is what fits into the
latency. The size grows in steps, because a fit says little about sizes far from those that were measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

MOST, LEAST = 1_000_000, 1_000
"""The default limit of a batch, and the least that a latency can make of it."""
REMEMBERED, STEP = 8, 4


@dataclass(frozen=True)
class BatchSize:
    """The size of the next batch, given how long the last ones took.

    >>> size = BatchSize(most=1_000_000, seconds=1.0, rows=10_000)
    >>> for _ in range(12):
    ...     size = size.after(size.rows, 0.1 + 10e-6 * size.rows)
    >>> size.rows
    90000
    """

    most: int = MOST
    seconds: float | None = None
    """The target latency; None for no target."""
    rows: int = 0
    """Rows of the next batch."""
    seen: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        if not self.rows:
            first = self.most if self.seconds is None else min(self.most, 100 * LEAST)
            object.__setattr__(self, "rows", first)

    def after(self, rows: int, seconds: float) -> BatchSize:
        """Take one more batch into account."""
        if self.seconds is None or rows <= 0:
            return self
        seen = (*self.seen, (rows, seconds))[-REMEMBERED:]
        return replace(self, seen=seen, rows=self._next(seen, self.seconds))

    def _next(self, seen: tuple[tuple[int, float], ...], target: float) -> int:
        rows, seconds = np.array(seen, float).T
        last, took = seen[-1]
        slope = fixed = 0.0
        if len(set(rows)) > 1:
            slope, fixed = (float(value) for value in np.polyfit(rows, seconds, 1))
        if slope > 0 and fixed >= 0:
            wanted = (target - fixed) / slope
        else:  # nothing to fit: in proportion to the last one
            wanted = last * target / took if took > 0 else float(self.most)
        return round(min(max(wanted, LEAST, last / STEP), STEP * max(last, LEAST), self.most))
