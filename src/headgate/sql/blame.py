"""A template of which something fails: that is found and left out, and all else is answered.

A template is tried whole. If that fails, it is tried in parts: those of a tenant together as long as possible, then halves,
down to single computations. A part that succeeds is done, and is not computed again. So nobody is stopped for being
too much together with others.

Whoever causes work pays for it: each tenant has a purse of seconds for a batch, and what several tenants have together is
paid from one that they share. A part may take a quarter of what is left in its purse, so a purse bounds the time of all
parts together, however many there are. When the shared purse is empty, every tenant is computed apart. A tenant whose own
purse is empty is not computed any more in this batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.sql.shared import Label, Piece, TemplateResult, Work

SHARED = -1
"""Takes a tenant's place for the purse that all share."""
OF_WHAT_IS_LEFT = 0.25
"""How much of a purse one part may take."""
NOTHING_LEFT = 0.001
"""A purse with less than this part of what it began with is empty."""


@dataclass(frozen=True)
class Tried:
    """What came of trying a part: its result, or why there is none; and how long it took."""

    seconds: float
    result: TemplateResult | None = None
    why: str = ""
    too_long: bool = False
    cpu: float = 0.0
    """Seconds of the processor."""
    peak_bytes: int = 0
    """The most memory that its process has had; 0 if that is not known."""


Attempt = Callable[[Work, float], Tried]
"""Carries out a work within so many seconds."""


@dataclass
class Purses:
    """The seconds that a batch has for each tenant on a server, and what is left of them."""

    seconds: float
    """Of one attempt."""
    of_tenant: float
    """Of all computations of a tenant together."""
    spent: dict[int, float] = field(default_factory=dict)
    slow: set[int] = field(default_factory=set)
    """Tenants that ran out of time: they are kept apart from others for the rest of the batch."""

    def left(self, owner: int) -> float:
        """What is left for a tenant; 0 if that is too little to try anything."""
        left = self.of_tenant - self.spent.get(owner, 0.0)
        return left if left > NOTHING_LEFT * self.of_tenant else 0.0

    def pay(self, owner: int, seconds: float) -> None:
        """Take a time from a purse."""
        self.spent[owner] = self.spent.get(owner, 0.0) + seconds
        if owner != SHARED and not self.left(owner):
            self.slow.add(owner)


def guarded(work: Work, attempt: Attempt, purses: Purses) -> tuple[TemplateResult, dict[int, str]]:
    """The result without the computations that fail, and why they failed; the others are not affected."""
    touched = work.touched
    if not touched.num_rows:
        return TemplateResult(), {}
    owners = owners_of(touched)
    payer = _payer(owners)
    slow = np.isin(owners, np.array(list(purses.slow), np.int64))
    if purses.left(payer) and not slow.any():
        tried = attempt(work, purses.seconds)
        if tried.result is not None:
            purses.pay(payer, tried.seconds)
            return tried.result, {}
        apart = _Apart(work, attempt, purses)
        apart.failed(touched, tried)
    else:
        apart = _Apart(work, attempt, purses)
        apart.compute(touched.filter(pa.array(~slow)))
        for owner in np.unique(owners[slow]).tolist():
            apart.compute(touched.filter(pa.array(owners == owner)))
    return apart.result(), apart.faults


def owners_of(constants: pa.Table) -> NDArray[np.int64]:
    """The tenant of each computation, as a number."""
    if "owner" not in constants.column_names:
        return np.zeros(constants.num_rows, np.int64)
    return np.asarray(constants.column("owner").to_numpy())


class _Apart:
    """Computes parts of a template, one after the other."""

    def __init__(self, work: Work, attempt: Attempt, purses: Purses) -> None:
        loaded = dict[int, pa.Table]()

        def load(pieces: Sequence[Piece]) -> list[pa.Table]:
            missing = [piece for piece in pieces if id(piece) not in loaded]
            loaded.update(zip(map(id, missing), work.load(missing), strict=True))
            return [loaded[id(piece)] for piece in pieces]

        self._work = replace(work, everyone=work.constants, apart=True, load=load)
        self._attempt, self._purses = attempt, purses
        self._done = list[TemplateResult]()
        self.faults = dict[int, str]()

    def compute(self, part: pa.Table) -> None:
        """Compute some of the touched computations."""
        if not part.num_rows:
            return
        owner = _payer(owners_of(part))
        left = self._purses.left(owner)
        if left:
            limit = min(self._purses.seconds, OF_WHAT_IS_LEFT * left)
            tried = self._attempt(replace(self._work, constants=part), limit)
            if tried.result is None:
                self.failed(part, tried)
            else:
                self._purses.pay(owner, tried.seconds)
                self._done.append(tried.result)
        elif owner == SHARED:
            self._divide(part)
        else:
            why = (
                f"its tenant has used up its {self._purses.of_tenant:g} s of a batch on this server: "
                "remove or simplify the queries that are slow, and resume this one"
            )
            self.faults |= dict.fromkeys(part.column("id").to_pylist(), why)

    def failed(self, part: pa.Table, tried: Tried) -> None:
        """Find out what it is in a part that failed, and compute the rest of it."""
        owner = _payer(owners_of(part))
        self._purses.pay(owner, tried.seconds)
        if tried.too_long and owner != SHARED:
            self._purses.slow.add(owner)
        if part.num_rows == 1:
            self.faults[part.column("id")[0].as_py()] = tried.why
        else:
            self._divide(part)

    def _divide(self, part: pa.Table) -> None:
        """Compute a part as two: between two tenants if there are several, else in the middle."""
        part = part.take(pa.array(np.argsort(owners_of(part), kind="stable")))
        owners = owners_of(part)
        borders = np.flatnonzero(np.diff(owners)) + 1
        middle = len(owners) // 2
        at = int(borders[np.argmin(np.abs(borders - middle))]) if len(borders) else middle
        self.compute(part.slice(0, at))
        self.compute(part.slice(at))

    def result(self) -> TemplateResult:
        """The results of all parts that succeeded."""
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
