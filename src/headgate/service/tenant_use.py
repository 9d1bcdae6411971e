"""What a batch took for a tenant, and what the next batch has to know of it. Tenants are numbers here (`number_of`)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.sql.purses import Use

COMMON = 0
"""Takes a tenant's place for computations that several tenants share."""
MOST_OWNERS = 32
"""Of how many tenants a table tells how much of it is theirs."""


def number_of(tenant: str) -> int:
    """The number of a tenant: the same after a restart, and in every process."""
    return int.from_bytes(hashlib.sha256(tenant.encode()).digest()[:6], "big") | 1


class TenantUse(NamedTuple):
    """What a batch took for one tenant. Its part of what several tenants have together is that of its computations
    among those that the batch had rows for.
    """

    cpu_ms: float = 0.0
    rows: int = 0
    """Rows of the sources that it reads, once for each server."""
    results: int = 0
    result_bytes: int = 0
    waiting_rows: int = 0
    """Rows that wait for it after the batch."""
    peak_bytes: int = 0
    """The most memory that an attempt of its own had, where that is known."""

    def plus(self, other: TenantUse) -> TenantUse:
        """The use of both together."""
        return TenantUse(
            self.cpu_ms + other.cpu_ms,
            self.rows + other.rows,
            self.results + other.results,
            self.result_bytes + other.result_bytes,
            self.waiting_rows + other.waiting_rows,
            max(self.peak_bytes, other.peak_bytes),
        )


@dataclass(frozen=True)
class Fairness:
    """What a server has to know to divide the time of its next batch."""

    uses: Mapping[int, Use] = field(default_factory=dict)
    """Of the tenants that used much of late (`headgate.sql.purses`)."""
    trials: Mapping[int, int] = field(default_factory=dict)
    """By template that takes long for several tenants: the batch in which they are computed apart, to find out for
    whom.
    """

    def to_json(self) -> list[Any]:
        """Plain data."""
        uses = [[owner, *use] for owner, use in self.uses.items()]
        return [uses, [[template, batch] for template, batch in self.trials.items()]]

    @classmethod
    def from_json(cls, body: list[Any]) -> Fairness:
        """Read what `to_json` gave."""
        return cls({owner: (recent, debt) for owner, recent, debt in body[0]}, dict(body[1]))


class Owners:
    """Whose the computations of a template are. What is sorted is sorted once."""

    def __init__(self, known: NDArray[np.int64], owners: NDArray[np.int64]) -> None:
        self._known, self._owners = known, owners

    @cached_property
    def _only(self) -> int | None:
        """The tenant of all computations, if there is only one."""
        one = len(self._owners) > 0 and self._owners.min() == self._owners.max()
        return int(self._owners[0]) if one else None

    @cached_property
    def _sorted(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        order = np.argsort(self._known, kind="stable")
        return self._known[order], self._owners[order]

    def weights(self, ids: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
        """(Tenant, rows) of the tenants that have most of some rows, given the computation of each row."""
        if not len(ids) or not len(self._known):
            return ()
        if self._only is not None:
            return ((self._only, len(ids)),)
        known, owners = self._sorted
        numbers, counts = np.unique(ids, return_counts=True)
        at = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
        found = known[at] == numbers
        who, inverse = np.unique(owners[at[found]], return_inverse=True)
        sums = np.bincount(inverse, counts[found], minlength=len(who))
        most = np.argsort(-sums, kind="stable")[:MOST_OWNERS]
        return tuple((int(who[i]), int(sums[i])) for i in most)
