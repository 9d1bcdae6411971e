"""How large a wave should be: so large that its fixed cost no longer matters,
and no larger (FAUCET-16).

A wave of n rows takes a + b n seconds. Below n = a / (overhead b) the fixed part a costs more
than the fraction `overhead` of the rest; above it only the memory grows. Both a and b are fitted
to the last few sizes. The size grows in steps, because a fit says little about sizes far from
those that were measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

REMEMBERED = 6
"""How many sizes the fit uses."""
STEP = 8
"""The next wave is at most so many times the largest one that was measured."""


@dataclass(frozen=True)
class WaveSize:
    """The size of the next wave, given how long the last ones took.

    The first wave is not counted, because it includes the warm-up.

    >>> size = WaveSize(least=1000, most=1_000_000, overhead=0.05)
    >>> for _ in range(8):
    ...     size = size.after(size.batch, 0.1 + 20e-6 * size.batch)
    >>> size.batch
    100000
    """

    least: int
    most: int
    overhead: float = 0.05
    batch: int = 0
    """Rows of the next wave."""
    seen: tuple[tuple[int, float], ...] = ()
    """The last sizes, each once, and how many seconds a wave of that size took."""
    warm: bool = False

    def __post_init__(self) -> None:
        if not self.batch:
            object.__setattr__(self, "batch", self.least)

    def after(self, rows: int, seconds: float) -> WaveSize:
        """Take one more wave into account."""
        if not self.warm:
            return replace(self, warm=True)
        before = dict(self.seen)
        known = before.pop(rows, seconds)
        measured = (*before.items(), (rows, (known + seconds) / 2))[-REMEMBERED:]
        return replace(self, batch=self._next(measured), seen=measured)

    def _next(self, measured: tuple[tuple[int, float], ...]) -> int:
        rows, seconds = np.array(measured, float).T
        reach = max(self.least, int(STEP * rows.max()))
        wanted = float(reach)
        if len(measured) > 1:
            slope, fixed = np.polyfit(rows, seconds, 1)
            if slope > 0:
                wanted = max(0.0, fixed) / (self.overhead * slope)
        return int(min(max(round(wanted), self.least), reach, self.most))
