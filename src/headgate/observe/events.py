"""What a listener of a query is told: that it started, what each batch did, that it found nothing to do, how it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headgate.control.report import BatchReport
from headgate.stage.facts import BatchFacts
from headgate.streams.drive import Progress


class Event(StrEnum):
    """What happened."""

    started = "started"
    batch = "batch"
    idle = "idle"
    """The sources had no rows, and nothing was due. It is told when the query becomes idle, and every
    10 seconds while it stays so."""
    ended = "ended"
    """All rows of a query with `available_now` were processed."""
    stopped = "stopped"
    failed = "failed"


@dataclass(frozen=True, kw_only=True)
class QueryEvent:
    """One event of a query."""

    event: Event
    query: str
    """The name of the query."""
    at: float
    """When, in seconds since 1970."""
    progress: Progress | None = None
    """Of a batch of a direct stream: rows, time of planning and of all of it."""
    stages: tuple[BatchFacts, ...] = ()
    """Of a batch: what each stage did, the first one first. A gate makes several of one stage."""
    interval: float | None = None
    """Seconds between two looks at the sources, if `every` sets them."""
    requests: int = 0
    """Requests to object stores since the last event."""
    retries: int = 0
    """Requests to object stores that the driver sent again since the last event."""
    error: BaseException | None = None
    """Why the query failed."""

    @property
    def batch(self) -> int | None:
        """The number of the batch."""
        if self.progress is not None:
            return self.progress.batch
        return self.stages[0].batch if self.stages else None

    @property
    def rows(self) -> int:
        """Rows that arrived at the first stage."""
        return sum(facts.rows for facts in self.stages if facts.stage == 0)

    @property
    def report(self) -> BatchReport | None:
        """What happened in the first stage, by channel and by bin."""
        return self.stages[0].report if self.stages else None

    @property
    def seconds(self) -> float:
        """How long the batch took."""
        if self.progress is not None:
            return self.progress.batch_ms / 1e3
        return sum(facts.seconds for facts in self.stages)

    def to_json(self) -> dict[str, Any]:
        """The event in values that JSON can hold, without bins and without keys."""
        told: dict[str, Any] = {"event": self.event.value, "query": self.query, "at": self.at}
        if self.error is not None:
            told["error"] = f"{type(self.error).__name__}: {self.error}"
        if self.event is not Event.batch:
            return told
        return told | {
            "batch": self.batch,
            "rows": self.rows,
            "seconds": round(self.seconds, 6),
            "stages": [
                {
                    "stage": facts.stage,
                    "batch": facts.batch,
                    "rows": facts.rows,
                    "seconds": round(facts.seconds, 6),
                    "steps": {step.name: round(step.seconds, 6) for step in facts.steps},
                    "busiest_over_mean": round(facts.report.imbalance, 4),
                    "table": facts.report.table_version,
                }
                for facts in self.stages
            ],
        }

    def __str__(self) -> str:
        if self.event is not Event.batch:
            return f"{self.query}: {self.event.value}" + (f": {self.error}" if self.error else "")
        worst = max((facts.report.imbalance for facts in self.stages), default=1.0)
        return f"{self.query}: batch {self.batch}, {self.rows:,} rows in {1e3 * self.seconds:,.0f} ms, busiest {worst:.2f}x the mean"


Listener = Callable[[QueryEvent], object]
