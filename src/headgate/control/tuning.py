"""The collection time, found while running (FLUX-F1: the paper leaves it to future work).

A policy that decides on too few tuples reacts to chance: it moves bins that need not move, and
under skewed keys the hot ones (Figure 9). Whether moves helped can be checked, though. The tuner
compares the rate of the stage in the collection before a move phase with that in the one after it:

    it rose by more than chance explains      delta_min / 2, down to `least_s`: this pays, go on
    it did not                                delta_min * 2, up to `most_s`: wait, and look longer
    it fell by a tenth or more                `least_s`: something happened, look at once

Chance is two standard deviations of a Poisson count. Nothing here knows the policy or the workload.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

FELL = 0.9


@dataclass(frozen=True)
class Tuner:
    """Holds the shortest collection time; `saw` is called at the end of each collection,
    before the policy decides, and `moved` at the end of the round.
    """

    least_s: float
    most_s: float = 2.0
    delta_min_s: float = -1.0
    """By default the least."""
    rate: float = 0.0
    has_moved: bool = False

    def __post_init__(self) -> None:
        """Begin with the least."""
        if self.delta_min_s < 0:
            object.__setattr__(self, "delta_min_s", self.least_s)

    def saw(self, rows: int, seconds: float) -> Tuner:
        """Take note of the rows that the stage processed in a collection of the given length."""
        rate, least = rows / seconds, self.delta_min_s
        if rate < FELL * self.rate:
            least = self.least_s
        elif self.has_moved:
            paid = rate > self.rate * (1 + 2 / math.sqrt(max(rows, 1)))
            least = min(max(least * (0.5 if paid else 2.0), self.least_s), self.most_s)
        return replace(self, delta_min_s=least, rate=rate)

    def moved(self, bins: int) -> Tuner:
        """Take note of the number of bins that were moved since."""
        return replace(self, has_moved=bins > 0)
