"""How long batches take, and by how much one tenant may lengthen them while others wait for their results.

A tenant is *heavy* while it has used more than its part of a batch, or waits for what it had no time for. Whoever is not
heavy is *light*. While light tenants are active, a heavy one has a part of each batch, and no more:

- of the time to compute, the part is `Limits.batch_part` of what a batch takes without it (`lengthen`);
- of the rows that it has pushed, as many as take about as long to read (`most_units`). While its queries wait for time, or
  it owes more time than its part of a batch, none: its rows stay in the log, and it is told to push less when that is
  full. If it keeps falling behind, it gets fewer at a time;
- a batch that only heavy tenants have work for is followed by a pause (`held_until`), in which light tenants find the
  service free.

So it slows itself down. When no light tenant is active, it has all that there is.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from statistics import median

from headgate.service.lengthen import Lengthen
from headgate.service.manifest import BatchManifest
from headgate.service.tenant_use import number_of

INFINITE = float("inf")
LATELY_S = 10.0
"""A tenant is active if a batch had work for it within this time."""
ROW_UNITS = 200
"""What a row costs to read beside its bytes, in bytes."""
FIRST_S = 0.25
"""What a batch takes, as long as none was measured."""
PER_UNIT_S = 1e-8
"""What a byte takes to read, as long as nothing better is known; it is believed to be within a factor of ten."""
POINTS = 31
"""How many of the last batches say what a batch takes."""
KEPT = 0.9
"""How much of what was measured still counts one batch later."""
OFTEN, SELDOM = 40, 160
"""A tenant that falls behind gets so many rows at a time that they take it between so many batches. New rows cost all its
templates something in the batch that they come with, so they should not come often."""
FEWER, MORE = 4, 2
"""If they take it longer it gets so many times fewer the next time, and if less long so many times more."""
LEAST_BACKLOG = 16_000_000
"""Bytes that a tenant which is behind may have in the log at least."""


class Line:
    """A line through (units, seconds), of which the last points count most."""

    def __init__(self) -> None:
        self._sums = [0.0] * 5
        self._last: deque[tuple[float, float]] = deque(maxlen=POINTS)

    def add(self, units: float, seconds: float) -> None:
        """Add a point."""
        self._last.append((units, seconds))
        point = (1.0, units, seconds, units * units, units * seconds)
        self._sums = [KEPT * total + one for total, one in zip(self._sums, point, strict=True)]

    @property
    def per_unit(self) -> float:
        """Its slope, near what is believed of it as long as the points say little."""
        count, units, seconds, squares, products = self._sums
        weight = 1e12  # of the belief: as much as points that lie a megabyte apart
        if not count:
            return PER_UNIT_S
        spread, common = squares - units * units / count, products - units * seconds / count
        slope = (common + weight * PER_UNIT_S) / (max(0.0, spread) + weight)
        return min(10 * PER_UNIT_S, max(PER_UNIT_S / 10, slope))

    @property
    def base(self) -> float:
        """Its height where there are no units: the median of the last points. A batch that was held up says little."""
        slope = self.per_unit
        return max(0.0, median(s - slope * units for units, s in self._last)) if self._last else FIRST_S


class Pace:
    """What is known of the batches and the tenants of one service. Not durable: it is measured again after a start."""

    def __init__(
        self,
        part: float,
        parts: Callable[[], Mapping[int, float]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._part, self._parts, self._clock = part, parts, clock
        self._line = Line()
        self._light: dict[int, float] = {}
        """By tenant that was light when it was active last: when that was."""
        self._heavy: set[int] = set()
        self._behind: dict[int, int] = {}
        """By tenant whose rows wait for time: since how many batches."""
        self._owing: dict[int, float] = {}
        """By tenant that owes more time than its part of a batch, because joins cannot wait: until when it would have paid
        with its parts of batches that follow one another."""
        self._windows: dict[int, float] = {}
        """By tenant: how many units it gets at a time, if that is less than it may have."""
        self._fed: set[int] = set()
        """Tenants that had rows in the batch that is planned."""
        self._cut: set[int] = set()
        """Those of them that had more than they may have."""
        self.held_until = 0.0
        """Until then no batch begins that only heavy tenants have work for."""

    # -- what batches tell

    def committed(self, manifest: BatchManifest) -> None:
        """Learn from a batch."""
        now, facts = self._clock(), manifest.facts
        wall, slow = facts.get("wall_ms", 0.0) / 1e3, facts.get("slow_ms", 0.0) / 1e3
        units = facts.get("sent_bytes", 0) + ROW_UNITS * facts.get("sent_rows", 0)
        self._line.add(units, max(0.0, wall - slow))
        lengthen = self.lengthen()
        heavy = {
            owner
            for fairness in manifest.fairness.values()
            for owner, (recent, debt) in fairness.uses.items()
            if debt or recent > lengthen(owner)
        }
        debts = dict[int, float]()
        for fairness in manifest.fairness.values():
            for owner, (_, debt) in fairness.uses.items():
                debts[owner] = max(debt, debts.get(owner, 0.0))
        self._owing = {
            owner: now + wall * debt / lengthen(owner)
            for owner, debt in debts.items()
            if debt > lengthen(owner)
        }
        behind = {owner for owner, use in manifest.usage.items() if use.waiting_rows}
        for owner, batches in self._behind.items():
            if owner not in behind:
                self._resize(owner, batches)
        for owner in [one for one in self._windows if one not in self._behind and one not in heavy | behind]:
            self._windows[owner] *= MORE  # it keeps up
            if self._windows[owner] > self._units(owner):
                del self._windows[owner]
        self._heavy = heavy | behind
        self._behind = {owner: self._behind.get(owner, 0) + 1 for owner in behind}
        active = {owner for owner, use in manifest.usage.items() if use.rows or use.results}
        for owner in active - self._heavy:
            self._light[owner] = now
        self._light = {
            owner: at
            for owner, at in self._light.items()
            if now - at <= LATELY_S and owner not in self._heavy
        }
        busy = active | self._fed
        if busy and self._light.keys() - busy and busy <= self._heavy | self._cut:
            rest = 2 / min(self._share(owner) for owner in busy)
            self.held_until = now + max(0.0, rest - 1) * wall
        self._fed, self._cut = set(), set()

    def _resize(self, owner: int, batches: int) -> None:
        """A tenant has caught up after so many batches: choose how much it gets next."""
        window = self._windows.get(owner, self._units(owner))
        if batches > SELDOM:
            window = max(1.0, window / FEWER)
        elif batches < OFTEN:
            window *= MORE
        self._windows[owner] = min(window, self._units(owner))

    # -- what follows for the next batch

    def lengthen(self) -> Lengthen:
        """By how much tenants may lengthen a batch, if others are active."""
        return Lengthen(self._line.base, self._part, self._parts())

    def light(self) -> frozenset[int]:
        """The light tenants that are active."""
        now = self._clock()
        return frozenset(owner for owner, at in self._light.items() if now - at <= LATELY_S)

    def holds(self) -> bool:
        """Whether a batch that only heavy tenants have work for has to wait."""
        return self._clock() < self.held_until and bool(self.light())

    def most_units(self, tenants: Iterable[str], granting: Callable[[str], bool]) -> dict[str, float]:
        """How many units of its waiting rows each tenant may have in the next batch. `granting` tells whether others
        read sources of a tenant: then its rows do not wait for its queries.
        """
        light, found = self.light(), dict[str, float]()
        names = list(tenants)
        crowd = light | {number_of(name) for name in names if number_of(name) not in self._heavy}
        for name in names:
            owner = number_of(name)
            if not crowd - {owner}:
                found[name] = INFINITE
            elif self._in_arrears(owner) and not granting(name):
                found[name] = 0.0
            else:
                found[name] = min(self._units(owner), self._windows.get(owner, INFINITE))
        return found

    def most_backlog(self, tenant: str) -> float:
        """How many bytes of a tenant may wait in the log: of one that is behind only what it may get to soon."""
        owner = number_of(tenant)
        if not self._in_arrears(owner) or not self.light() - {owner}:
            return INFINITE
        return max(LEAST_BACKLOG, 4 * self._units(owner))

    def _in_arrears(self, owner: int) -> bool:
        """Whether a tenant's rows wait for time, or it owes time."""
        return owner in self._behind or self._clock() < self._owing.get(owner, 0.0)

    def may_begin(self, tenants: Iterable[str], cut: Iterable[str]) -> bool:
        """Whether a batch with the rows of these tenants may begin now. Some are `cut`: they have more rows than they
        may have in it.
        """
        fed, too_many = {number_of(name) for name in tenants}, {number_of(name) for name in cut}
        if fed <= self._heavy | too_many and self.holds():
            return False
        self._fed, self._cut = fed, too_many
        return True

    def _share(self, owner: int) -> float:
        return self._parts().get(owner, self._part)

    def _units(self, owner: int) -> float:
        return self.lengthen()(owner) / self._line.per_unit
