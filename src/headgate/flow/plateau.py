"""How large a wave should be: on the plateau where its fixed cost no longer matters, and not larger (FAUCET-16).

A wave of n rows takes a + b n seconds. Below n = a / (share b) the fixed part costs more than `share` of the rest; above it only memory
grows. Both are fitted to the last few sizes; sizes grow by steps, since a fit says little far from what was seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

REMEMBERED = 6
STEP = 8


@dataclass(frozen=True)
class Plateau:
    """The size of the next wave, given the last ones. The first wave is not counted: it pays for warming up.

    >>> size = Plateau(least=1000, most=1_000_000, share=0.05)
    >>> for _ in range(8):
    ...     size = size.after(size.batch, 0.1 + 20e-6 * size.batch)
    >>> size.batch
    100000
    """

    least: int
    most: int
    share: float = 0.05
    batch: int = 0
    seen: tuple[tuple[int, float], ...] = ()
    """The last sizes tried, each once, and how long they took."""
    warm: bool = False

    def __post_init__(self) -> None:
        if not self.batch:
            object.__setattr__(self, "batch", self.least)

    def after(self, rows: int, seconds: float) -> Plateau:
        """What is known after one more wave."""
        if not self.warm:
            return replace(self, warm=True)
        before = dict(self.seen)
        known = before.pop(rows, seconds)
        seen = (*before.items(), (rows, (known + seconds) / 2))[-REMEMBERED:]
        return replace(self, batch=self._next(seen), seen=seen)

    def _next(self, seen: tuple[tuple[int, float], ...]) -> int:
        rows, seconds = np.array(seen, float).T
        reach = max(self.least, int(STEP * rows.max()))
        wanted = float(reach)
        if len(seen) > 1:
            slope, fixed = np.polyfit(rows, seconds, 1)
            if slope > 0:
                wanted = max(0.0, fixed) / (self.share * slope)
        return int(min(max(round(wanted), self.least), reach, self.most))
