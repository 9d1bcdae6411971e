"""The rounds of Flux (FLUX-23, FLUX-31): collect for a time delta, decide, move; then collect again.

    after a move phase      delta = its duration, so that at most half of the time goes into moving
    after a round without   delta = delta / 2
    always                  delta >= delta_min, which a `Tuner` may find while running (FLUX-F1)

The simulator and the stage share this rule. On a stage time comes in batches, so delta_min is one batch,
and a decision follows the first batch that completes delta. The move phase lasts from the decision until
the state has arrived: the batches until the new table takes effect, and what its first batch reads.

Law: a round depends on the reports alone (5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from headgate.control.report import BatchReport
from headgate.control.tuning import Tuner

MOST_BATCHES = 64
"""A tuner waits for at most this many batches."""


def next_delta(delta: float, move: float, least: float) -> float:
    """The time to collect after a round whose move phase took the time `move`; 0 if nothing was moved.

    >>> next_delta(4.0, 3.0, 1.0), next_delta(4.0, 0.0, 1.0), next_delta(1.5, 0.0, 1.0)
    (3.0, 2.0, 1.0)
    """
    return max(move if move > 0 else delta / 2, least)


@dataclass(frozen=True)
class Damping:
    """A round on a stage: how long it has collected, and how long its move phase has taken so far."""

    delta_ms: float = 0.0
    collected_ms: float = 0.0
    rows: int = 0
    moving_ms: float = 0.0
    awaits: int | None = None
    """The version of the table whose state is moving; None while the round collects."""
    tuner: Tuner | None = None

    @classmethod
    def start(cls, *, tuned: bool) -> Damping:
        """Before the first batch."""
        return cls(tuner=Tuner(0.0) if tuned else None)

    @property
    def ready(self) -> bool:
        """Whether it has collected enough for a decision."""
        return self.awaits is None and self.collected_ms >= self.delta_ms

    @property
    def said(self) -> str:
        """Why it is not ready, for people."""
        if self.awaits is not None:
            return f"table {self.awaits} is on its way"
        return f"{self.collected_ms:.0f} of {self.delta_ms:.0f} ms have been collected since the last move"

    def after(self, report: BatchReport) -> Damping:
        """The round after one more batch."""
        wall_ms = float(report.wall_ms)
        tuner = self.tuner
        if tuner is not None and tuner.least_s <= 0 < wall_ms:
            tuner = Tuner(wall_ms / 1e3, MOST_BATCHES * wall_ms / 1e3)
        now = replace(self, tuner=tuner)
        if self.awaits is None:
            return replace(now, collected_ms=self.collected_ms + wall_ms, rows=self.rows + int(report.rows))
        if report.table_version < self.awaits:
            return replace(now, moving_ms=self.moving_ms + wall_ms)
        move_ms = self.moving_ms + max((float(c.read_ms) for c in report.channels), default=0.0)
        return now._over(move_ms)

    def seen(self) -> Damping:
        """The round when it decides: the tuner learns the rate of the stage."""
        if self.tuner is None or self.collected_ms <= 0 or self.tuner.least_s <= 0:
            return self
        return replace(self, tuner=self.tuner.saw(self.rows, self.collected_ms / 1e3))

    def decided(self, version: int | None) -> Damping:
        """The round after its decision: it moves state for the table of this version, or the next one begins."""
        if version is None:
            return self._over(0.0)
        return replace(self, awaits=version, moving_ms=0.0)

    def _over(self, move_ms: float) -> Damping:
        tuner = None if self.tuner is None else self.tuner.moved(self.awaits is not None)
        least_ms = 0.0 if tuner is None else 1e3 * tuner.delta_min_s
        return Damping(delta_ms=next_delta(self.delta_ms, move_ms, least_ms), tuner=tuner)

    def to_json(self) -> dict[str, Any]:
        """JSON-native values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Damping:
        """Read what `to_json` wrote."""
        tuner = data["tuner"]
        return cls(**{**data, "tuner": None if tuner is None else Tuner(**tuner)})
