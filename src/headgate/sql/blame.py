"""A template of which something fails: that is found and left out, and all else is answered.

A template is tried whole. If that fails, it is tried in parts: those of a tenant together as long as possible, then halves,
down to single computations. A part that succeeds is done, and is not computed again. So nobody is stopped for being
too much together with others.

Whoever causes work pays for it (`purses`): each tenant has a purse of seconds for a batch, and what several tenants have
together is paid from one that they share, as long as it fails. A part may take a quarter of what is left in its purse, so a
purse bounds the time of all parts together, however many there are. When the shared purse is empty, every tenant is
computed apart. The work of a tenant whose own purse is empty waits for the next batch if it can (`deferral`), and is
stopped if it cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.sql.purses import SHARED, Purses, distinct
from headgate.sql.shared import Label, Piece, TemplateResult, Work

MOST_GROUPS = 64
"""Into how many parts a trial divides the tenants of a template."""
OF_WHAT_IS_LEFT = 0.25
"""How much of a purse one part may take."""
LEAST_TOGETHER = 0.1
"""The least part of the time of all tenants that several of them have for a part of a template."""


@dataclass(frozen=True)
class Tried:
    """What came of trying a part: its result, or why there is none; and how long it took."""

    seconds: float
    result: TemplateResult | None = None
    why: str = ""
    too_long: bool = False
    cpu: float = 0.0
    """Seconds of the processor; 0 if they are not known."""
    peak_bytes: int = 0
    """The most memory that its process has had; 0 if that is not known."""

    @property
    def price(self) -> float:
        """What a tenant pays for it: not for what others on the machine took meanwhile."""
        return min(self.seconds, self.cpu) if self.cpu else self.seconds


Attempt = Callable[[Work, float], Tried]
"""Carries out a work within so many seconds."""


@dataclass(frozen=True)
class Guarded:
    """The result without the computations that failed, and why they failed; and those that have to wait, in the
    parts that are tried together next time.
    """

    result: TemplateResult = field(default_factory=TemplateResult)
    faults: Mapping[int, str] = field(default_factory=dict)
    waiting: Sequence[NDArray[np.int64]] = ()
    too_long: frozenset[int] = frozenset()
    """Of those that have to wait: the computations that were tried alone, and had too little time."""


def guarded(
    work: Work, attempt: Attempt, purses: Purses, *, waits: bool = False, trial: bool = False
) -> Guarded:
    """Carry out a work; computations that fail are left out, and the others are not affected. If it `waits`, whoever
    has no time left is computed another time, and else stopped. In a `trial` tenants are computed apart, a few
    together, to find out who it is that takes the time.
    """
    touched = work.touched
    if not touched.num_rows:
        return Guarded()
    owners = owners_of(touched)
    payer = _payer(owners)
    slow = np.isin(owners, np.array(list(purses.slow), np.int64))
    apart = _Apart(work, attempt, purses, waits=waits)
    if payer != SHARED and purses.left(payer, waits=waits):
        left = purses.left(payer, waits=waits)
        at_once = work.single and purses.untouched(payer)
        limit = purses.seconds if at_once else purses.attempt_s(payer, left, waits=waits)
    elif payer == SHARED and purses.left(SHARED) and not slow.any() and not trial:
        limit = min(purses.seconds, purses.together) if waits else purses.seconds
    else:
        good = ~slow
        for group in _groups(owners, good) if trial else [good]:
            apart.compute(touched.filter(pa.array(group)), each=trial)
        for owner in np.unique(owners[slow]).tolist():
            apart.compute(touched.filter(pa.array(owners == owner)))
        return apart.guarded()
    tried = attempt(work, limit)
    purses.note(owners, tried.cpu)
    if tried.result is not None:
        purses.pay(payer, tried.price)
        return Guarded(tried.result)
    apart.failed(touched, tried, limit)
    return apart.guarded()


def _groups(owners: NDArray[np.int64], among: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    """The computations of a few tenants each."""
    who, at = np.unique(owners, return_inverse=True)
    group = at * min(MOST_GROUPS, len(who)) // max(1, len(who))
    return [among & (group == number) for number in range(min(MOST_GROUPS, len(who)))]


def owners_of(constants: pa.Table) -> NDArray[np.int64]:
    """The tenant of each computation, as a number."""
    if "owner" not in constants.column_names:
        return np.zeros(constants.num_rows, np.int64)
    return np.asarray(constants.column("owner").to_numpy())


def ids_of(constants: pa.Table) -> NDArray[np.int64]:
    """The numbers of the computations."""
    return np.asarray(constants.column("id").to_numpy())


class _Apart:
    """Computes parts of a template, one after the other."""

    def __init__(self, work: Work, attempt: Attempt, purses: Purses, *, waits: bool) -> None:
        loaded = dict[int, pa.Table]()

        def load(pieces: Sequence[Piece]) -> list[pa.Table]:
            missing = [piece for piece in pieces if id(piece) not in loaded]
            loaded.update(zip(map(id, missing), work.load(missing), strict=True))
            return [loaded[id(piece)] for piece in pieces]

        everyone = work.constants if work.everyone is None else work.everyone
        self._work = replace(work, everyone=everyone, apart=True, load=load)
        self._attempt, self._purses, self._waits = attempt, purses, waits
        self._done = list[TemplateResult]()
        self.faults = dict[int, str]()
        self.waiting = list[NDArray[np.int64]]()
        self.too_long = set[int]()
        self._all = work.touched.num_rows
        self._broken = set[int]()
        """Tenants of which something fails, and not for want of time: that is found now, and does not wait."""

    def _left(self, owner: int) -> float:
        return self._purses.left(owner, waits=self._waits and owner not in self._broken)

    def most(self, owner: int, part: pa.Table) -> float:
        """How long a part may take: of what can wait, a single computation may take all that is left. What several
        tenants have together may take its part of what all tenants have.
        """
        left = self._left(owner)
        alone = self._waits and part.num_rows == 1 and owner != SHARED
        if alone and self._work.single and self._purses.untouched(owner):
            return self._purses.seconds
        most = min(self._purses.seconds, left if alone else OF_WHAT_IS_LEFT * left)
        if self._waits and owner != SHARED:
            most = self._purses.attempt_s(owner, most)
        if self._waits and owner == SHARED:
            most = min(most, max(LEAST_TOGETHER, part.num_rows / self._all) * self._purses.together)
        return most

    def compute(self, part: pa.Table, *, each: bool = False) -> None:
        """Compute some of the touched computations; if `each`, their tenants pay for it, and not all tenants together."""
        if not part.num_rows:
            return
        owner = _payer(owners_of(part))
        if self._left(owner):
            limit = self.most(owner, part)
            tried = self._attempt(replace(self._work, constants=part), limit)
            self._purses.note(owners_of(part), tried.cpu)
            if tried.result is None:
                self.failed(part, tried, limit)
                return
            if each:
                self._purses.pay_each(owners_of(part), tried.price)
            else:
                self._purses.pay(owner, tried.price)
            self._done.append(tried.result)
        elif owner == SHARED:
            self._divide(part)
        elif self._waits:
            self.waiting.append(ids_of(part))
        else:
            why = self._purses.why_none_is_left(owner)
            self.faults |= dict.fromkeys(part.column("id").to_pylist(), why)

    def failed(self, part: pa.Table, tried: Tried, limit: float) -> None:
        """Find out what it is in a part that failed, and compute the rest of it."""
        owner = _payer(owners_of(part))
        self._purses.pay(owner, tried.price)
        if tried.too_long and owner != SHARED:
            self._purses.slow.add(owner)
        elif not tried.too_long:
            self._broken |= set(distinct(owners_of(part)).tolist())
        if part.num_rows > 1:
            self._divide(part)
        elif self._waits and tried.too_long and limit < self._purses.seconds:
            self.waiting.append(ids_of(part))  # it has had less time than it may have
            self.too_long.add(part.column("id")[0].as_py())
        else:
            self.faults[part.column("id")[0].as_py()] = tried.why

    def _divide(self, part: pa.Table) -> None:
        """Compute a part as two: between two tenants if there are several, else in the middle."""
        part = part.take(pa.array(np.argsort(owners_of(part), kind="stable")))
        owners = owners_of(part)
        borders = np.flatnonzero(np.diff(owners)) + 1
        middle = len(owners) // 2
        at = int(borders[np.argmin(np.abs(borders - middle))]) if len(borders) else middle
        self.compute(part.slice(0, at))
        self.compute(part.slice(at))

    def guarded(self) -> Guarded:
        """What came of all parts."""
        return Guarded(self._result(), self.faults, self.waiting, frozenset(self.too_long))

    def _result(self) -> TemplateResult:
        written = dict[Label, list[pa.Table]]()
        for done in self._done:
            for label, table in done.written.items():
                written.setdefault(label, []).append(table)
        results = [done.results for done in self._done if done.results is not None]
        return TemplateResult(
            pa.concat_tables(results) if results else None,
            {label: pa.concat_tables(tables) for label, tables in written.items()},
            frozenset().union(*(done.gone for done in self._done)),
        )


def _payer(owners: NDArray[np.int64]) -> int:
    """The tenant of a part, if it has one."""
    return int(owners[0]) if (owners == owners[0]).all() else SHARED
