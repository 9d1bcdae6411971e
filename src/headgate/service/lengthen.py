"""By how much one tenant may lengthen a batch that others wait for (`pace`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

INFINITE = float("inf")
LEAST_S = 0.002
"""A tenant may lengthen a batch by this at least."""


@dataclass(frozen=True)
class Lengthen:
    """By how many seconds a tenant, by its number, may lengthen a batch on a server."""

    seconds: float = INFINITE
    """The time of a batch without heavy tenants."""
    part: float = 1.0
    parts: Mapping[int, float] = field(default_factory=dict)
    """Of tenants that have a part of their own."""

    def __call__(self, owner: int) -> float:
        """The seconds of a tenant."""
        return max(LEAST_S, self.seconds * self.parts.get(owner, self.part))
