"""Which of the bins that wait is served first: the one with the least slack (FLUX-F3; Cameo, NSDI 2021).

    slack = deadline - time waited so far - expected cost of what waits

A deadline is how long the rows of a key should wait at most. A bin has the shortest deadline of its keys; a
bin without one has infinite slack, so it comes after the others, and those are served in the order in which
they came. Time passes for all alike, so a bin that waits overtakes newer ones with longer deadlines.

Law: nothing waits for ever. In some batches of every `PERIOD` (`is_fair`) the bin that was passed over most
often comes first, whatever the deadlines; those batches are enough for one bin to come into memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headgate.flow.rotation import TURN
from headgate.ids import Bin
from headgate.routing.table import Table

PERIOD = 32
"""Batches in which at least one bin is served whatever its deadline."""


def is_fair(batch: int) -> bool:
    """Whether a batch serves bins in the order of waiting: as many batches in a row as it may take until a bin
    comes into memory.

    >>> sum(is_fair(batch) for batch in range(PERIOD)) == TURN + 1
    True
    """
    return batch % PERIOD >= PERIOD - TURN - 1


@dataclass(frozen=True)
class WaitingBin:
    """A bin that something waits for: for how long already, in ms and in batches, and what it will cost."""

    bin: Bin
    deadline_ms: float = math.inf
    waited_ms: float = 0.0
    batches: int = 0
    cost_ms: float = 0.0

    @property
    def slack_ms(self) -> float:
        """How long it can still wait and be served in time; below 0 if that is too late already.

        >>> WaitingBin(3, deadline_ms=500, waited_ms=120, cost_ms=80).slack_ms
        300
        """
        return self.deadline_ms - self.waited_ms - self.cost_ms


def by_slack(waiting: Iterable[WaitingBin], *, fair: bool = False) -> list[Bin]:
    """The bins in the order in which they should be served: the least slack first; with `fair`, the one that
    was passed over most often first. Of equal ones, the first stays first.

    >>> bins = [WaitingBin(1, batches=9), WaitingBin(2, 900), WaitingBin(3, 1000, waited_ms=300)]
    >>> by_slack(bins), by_slack(bins, fair=True)
    ([3, 2, 1], [1, 3, 2])
    """

    def order(one: WaitingBin) -> tuple[float, float]:
        return (-one.batches, one.slack_ms) if fair else (one.slack_ms, -one.batches)

    return [one.bin for one in sorted(waiting, key=order)]


@dataclass(frozen=True)
class Deadlines:
    """Deadlines in ms, by the hash of a key; `others` is that of all other keys."""

    by_hash: Mapping[int, float] = field(default_factory=dict)
    others: float = math.inf

    def __bool__(self) -> bool:
        return bool(self.by_hash) or self.others < math.inf

    def by_bin(self, table: Table) -> dict[Bin, float]:
        """The deadline of each bin: the shortest of its keys. A split key is in several bins.

        >>> table = Table.uniform(4, 2)
        >>> Deadlines({5: 100.0}).by_bin(table)[table.home_bin(5)]
        100.0
        """
        found = dict.fromkeys(table.bins, self.others)
        for key_hash, deadline in self.by_hash.items():
            pins = table.pinned.get(key_hash, ())
            for bin in [pin.bin for pin in pins] or [table.home_bin(key_hash)]:
                found[bin] = min(found[bin], deadline)
        return found
