"""What one batch of a stage did, for whoever watches: metrics, traces, listeners, logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.control.loop import Decision
from headgate.control.report import BatchReport
from headgate.operators.event_time import Clock


@dataclass(frozen=True, slots=True)
class StepTime:
    """When a step of a batch began and ended, in seconds of the engine's clock."""

    name: str
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.began


@dataclass(frozen=True, kw_only=True)
class BatchFacts:
    """One committed and published batch."""

    rows: int
    """Rows of the source that arrived. The report counts them after map tasks have combined them."""
    report: BatchReport
    decision: Decision
    clock: Clock
    """Event time after the batch."""
    unused: Mapping[str, int]
    """Rows of this batch that could not be used, or were doubted, by reason."""
    steps: tuple[StepTime, ...]
    output_bytes: int
    stage: int = 0
    """The number of the stage in its query."""

    @property
    def batch(self) -> int:
        """The number of the batch."""
        return self.report.batch

    @property
    def seconds(self) -> float:
        """How long the batch took, from its first step to its last."""
        return self.steps[-1].ended - self.steps[0].began
