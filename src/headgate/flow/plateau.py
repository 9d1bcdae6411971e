"""How large a wave should be: on the plateau where its fixed cost no longer matters, and not larger (FAUCET-16).

A wave of n rows takes a + b n seconds. Below n = a / (share b) the fixed part costs more than `share` of the rest; above it only memory
grows. Both are fitted to the last waves; sizes grow by steps, since a fit says little far from what was seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

REMEMBERED = 12
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
    warm: bool = False

    def __post_init__(self) -> None:
        if not self.batch:
            object.__setattr__(self, "batch", self.least)

    def after(self, rows: int, seconds: float) -> Plateau:
        """What is known after one more wave."""
        if not self.warm:
            return Plateau(self.least, self.most, self.share, self.batch, (), True)
        seen = (*self.seen, (rows, seconds))[-REMEMBERED:]
        return Plateau(self.least, self.most, self.share, self._next(seen), seen, True)

    def _next(self, seen: tuple[tuple[int, float], ...]) -> int:
        rows, seconds = np.array(seen, float).T
        reach = int(STEP * rows.max())
        if np.ptp(rows) == 0:
            wanted = float(reach)
        else:
            slope, fixed = np.polyfit(rows, seconds, 1)
            wanted = max(0.0, fixed) / (self.share * slope) if slope > 0 else float(reach)
        return int(min(max(round(wanted), self.least), reach, self.most))
