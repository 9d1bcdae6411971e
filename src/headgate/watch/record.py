"""What is known of a query from outside: the journal of each stage, and its newest commits. Values; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.control.journal import Entry
from headgate.far_ahead import NEVER
from headgate.operators.event_time import COMPLETE, Clock

MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class Commit:
    """What the commit of a batch says beyond the journal: event time, and when it was written."""

    batch: int
    clock: Clock
    at: float | None = None
    """Seconds since 1970, if the store knows."""

    @property
    def complete(self) -> bool:
        """Whether the input was declared complete."""
        return self.clock.watermark == COMPLETE

    @property
    def watermark(self) -> float | None:
        """Seconds since 1970; None if there is no event time, or none yet."""
        at = self.clock.watermark
        return at / MICROSECONDS if NEVER < at < COMPLETE else None

    @property
    def newest(self) -> float | None:
        """The newest event so far, in seconds since 1970: the oldest of the sources' newest ones."""
        known = [at for at in self.clock.newest if at > NEVER]
        return min(known) / MICROSECONDS if known else None


@dataclass(frozen=True)
class Timing:
    """How long parts of a batch took that the journal does not have. Only the query's own process knows."""

    plan_ms: float
    commit_ms: float
    publish_ms: float


@dataclass(frozen=True)
class StageRecord:
    """One stage of a query, as it was read."""

    operator: str
    key: tuple[str, ...]
    entries: tuple[Entry, ...] = ()
    """Reports and decisions, oldest first; the newest ones, if there are many."""
    commits: Mapping[int, Commit] = field(default_factory=dict)
    """By batch, as far as they were seen."""
    timings: Mapping[int, Timing] = field(default_factory=dict)

    @classmethod
    def of(cls, identity: Mapping[str, Any], **known: Any) -> StageRecord:
        """A stage with the identity that its checkpoint has."""
        key = tuple(str(name) for name, _ in identity.get("key", []))
        return cls(str(identity.get("operator", "a stage")), key, **known)
