"""What a batch has of time for each tenant, and who comes first.

A tenant may use its own budget of a batch. If the tenants of a server need more together than a batch has, the time is
divided: those that need little get it, and the others get equal parts of what is left (`level`). Who used more than
its part is *slow*: it is computed apart from the others and after them, and what does not fit waits for the next batch.
What one has used beyond its part is a debt, which it pays with its parts of the following batches.

As long as others are active, one tenant may also *lengthen* a batch only by so much: they wait for it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

SHARED = -1
"""Takes a tenant's place for the purse that all share."""
NOTHING_LEFT = 0.001
"""A purse with less than this part of what it began with is empty."""
LEAST_LEFT = 1e-6
"""So is one with less than this, in seconds."""
LITTLE_LEFT = 0.2
"""The same if it began with little: a statement takes milliseconds however few rows it has."""
BURST_S = 0.05
"""What a tenant that used little has beside its share of a batch, once."""
FIRST_S, AGAIN_S = 1.0, 0.05
"""The least time in which an attempt is not interrupted: of a tenant that used little, and of others."""
REMEMBERED = 0.8
"""How much of a tenant's recent use is still remembered one batch later."""
Use = tuple[float, float]
"""(Seconds of late, debt in seconds)."""


def level(together: float, needs: Iterable[float]) -> float:
    """The most that one may have, if all have at most that and it is just enough for all together. Infinite if there
    is enough for everybody.
    """
    left, others = together, sorted(needs)
    for done, need in enumerate(others):
        equal = left / (len(others) - done)
        if need > equal:
            return equal
        left -= need
    return float("inf")


@dataclass
class Purses:
    """The seconds that a batch has for each tenant on a server, and what is left of them."""

    seconds: float
    """Of one attempt."""
    of_tenant: float
    """Of all computations of a tenant together, if it has no budget of its own."""
    together: float = float("inf")
    """Of all tenants, if there are several."""
    own: Mapping[int, float] = field(default_factory=dict)
    """The budgets of tenants that have one of their own."""
    lengthen: Callable[[int], float] = lambda _: float("inf")
    """By how many seconds a tenant may lengthen a batch that light tenants wait for: those that need less themselves."""
    light: frozenset[int] = frozenset()
    """The light tenants of the last batches. This batch may have others."""
    joins: float = float("inf")
    """By how many seconds the joins of a tenant may have lengthened such batches beyond that: they cannot wait, so they are
    stopped then."""
    before: Mapping[int, Use] = field(default_factory=dict)
    """What tenants used in the batches before; those that are missing used little."""
    spent: dict[int, float] = field(default_factory=dict)
    cpu: dict[int, float] = field(default_factory=dict)
    """Seconds of the processor, for whom they were used."""
    slow: set[int] = field(default_factory=set)
    """Tenants that are kept apart from others for the rest of the batch."""
    _active: frozenset[int] = frozenset()
    _level: float = float("inf")
    _light: frozenset[int] = frozenset()

    def meet(self, active: Iterable[int], behind: Iterable[int] = ()) -> None:
        """Say whom a batch has work for, and who has work from earlier batches."""
        self._active = frozenset(active) | frozenset(behind)
        waiting = set(behind)
        needs = {
            owner: float("inf") if owner in waiting else self.before.get(owner, (0.0, 0.0))[0]
            for owner in self._active
        }
        if len(needs) > 1:
            self._level = level(self.together, needs.values())
            self.slow |= {owner for owner, need in needs.items() if need > self._level}
        here = {o for o, need in needs.items() if need <= self.lengthen(o) and not self._debt(o)}
        self._light = self.light | here
        self.slow |= {owner for owner, need in needs.items() if need > self._most(owner)}
        self.slow |= waiting | {owner for owner in self._active if not self.left(owner, waits=True)}

    def _most(self, owner: int) -> float:
        """By how much a tenant may lengthen this batch."""
        waited_for = len(self._light) > (owner in self._light)
        return self.lengthen(owner) if waited_for else float("inf")

    def waited_for(self, owner: int) -> bool:
        """Whether light tenants wait for a tenant, so that it may not lengthen the batch by more than its part."""
        return self._most(owner) < float("inf")

    def _debt(self, owner: int) -> float:
        return self.before.get(owner, (0.0, 0.0))[1]

    def share(self, owner: int) -> float:
        """What a tenant may use in this batch before it has to wait."""
        most = self._most(owner)
        budget = min(self.own.get(owner, self.of_tenant), most)
        if len(self._active) < 2:
            return budget
        equal = self.together / len(self._active)
        owes = most == float("inf") and self._debt(owner) > 0
        strict = owes or sum(self.spent.values()) >= self.together
        return min(budget, equal if strict else max(equal, self._level))

    def left(self, owner: int, *, waits: bool = False) -> float:
        """What is left for a tenant; 0 if that is too little to try anything. `waits` is for work that can wait for
        another batch.
        """
        if waits and owner != SHARED:
            budget = min(self.own.get(owner, self.of_tenant), self.share(owner) + self._burst(owner))
            left = budget - self.spent.get(owner, 0.0) - self._debt(owner)
            least = LITTLE_LEFT if self.waited_for(owner) else NOTHING_LEFT
        else:
            budget, least = self.own.get(owner, self.of_tenant), NOTHING_LEFT
            left = budget - self.spent.get(owner, 0.0)
            if owner != SHARED and self.waited_for(owner):
                left = min(
                    left, self.share(owner) + self.joins - self.spent.get(owner, 0.0) - self._debt(owner)
                )
        return left if left > max(LEAST_LEFT, least * budget) else 0.0

    def _burst(self, owner: int) -> float:
        """What a tenant has beside its share if it used little in the batches before: statements take longer the first
        time.
        """
        return BURST_S if self.waited_for(owner) and owner not in self.before else 0.0

    def attempt_s(self, owner: int, left: float, *, waits: bool = True) -> float:
        """How long an attempt may take for which a tenant has so much left. The machine may be busy, and interrupting
        somebody who needs little costs more than it gains.
        """
        if not self.waited_for(owner):
            return min(self.seconds, left) if waits else self.seconds
        least = AGAIN_S if owner in self.before else FIRST_S
        return min(self.seconds, self.own.get(owner, self.of_tenant), max(left, least))

    def why_none_is_left(self, owner: int) -> str:
        """Why what cannot wait is stopped."""
        budget = self.own.get(owner, self.of_tenant)
        if self.spent.get(owner, 0.0) < budget and self.waited_for(owner):
            why = (
                f"joins cannot wait for time, and those of its tenant have lengthened the batches of others by more than "
                f"{self.joins:g} s beyond its part (the limits are batch_part and join_seconds)"
            )
        else:
            why = f"its tenant has used up its {budget:g} s of a batch on this server"
        return f"{why}: remove or simplify the queries that are slow, and resume this one"

    def untouched(self, owner: int) -> bool:
        """Whether a tenant has used nothing in this batch, and owes nothing."""
        return not self.spent.get(owner) and not self._debt(owner)

    def pay(self, owner: int, seconds: float) -> None:
        """Take a time from a purse."""
        self.spent[owner] = self.spent.get(owner, 0.0) + seconds
        if owner != SHARED and not self.left(owner, waits=True):
            self.slow.add(owner)

    def pay_each(self, owners: NDArray[np.int64], seconds: float) -> None:
        """Take a time from the purses of all who used it, by their numbers of computations."""
        for owner, part in _parts(owners):
            self.pay(owner, seconds * part)

    def note(self, owners: NDArray[np.int64], cpu: float) -> None:
        """Count a time of the processor for those who used it, by their numbers of computations."""
        for owner, part in _parts(owners):
            self.cpu[owner] = self.cpu.get(owner, 0.0) + cpu * part

    def turns(self) -> list[int]:
        """The slow tenants, those that used least of late first."""
        return sorted(self.slow, key=lambda owner: (sum(self.before.get(owner, (0.0, 0.0))), owner))

    def after(self) -> dict[int, Use]:
        """What the next batch has to know of the use of tenants: of those that used much, or owe."""
        equal = self.together / max(1, len(self._active))
        uses = dict[int, Use]()
        for owner in {*self.before, *self.spent} - {SHARED}:
            recent, debt = self.before.get(owner, (0.0, 0.0))
            spent = self.spent.get(owner, 0.0)
            recent = REMEMBERED * recent + (1 - REMEMBERED) * spent
            debt = max(0.0, debt + spent - self.share(owner) - self._burst(owner))
            if debt > NOTHING_LEFT * equal or recent > min(equal, self.lengthen(owner)) / 2:
                uses[owner] = (round(recent, 6), round(debt, 6))
        return uses


def distinct(owners: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each of the tenants once; quick if there is only one."""
    if len(owners) and owners.min() == owners.max():
        return owners[:1]
    return np.unique(owners)


def _parts(owners: NDArray[np.int64]) -> list[tuple[int, float]]:
    if len(owners) and owners.min() == owners.max():
        return [(int(owners[0]), 1.0)]
    who, counts = np.unique(owners, return_counts=True)
    return list(zip(who.tolist(), (counts / max(1, len(owners))).tolist(), strict=True))
