"""What the demonstration measured: a lane for each stage, the final table and the JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table as Grid

from headgate.control.loop import Decision
from headgate.control.report import BatchReport


@dataclass(frozen=True)
class Step:
    """One batch of one lane. `batch_ms` is the whole trigger, with Spark's own bookkeeping; None
    while it is not known.
    """

    report: BatchReport
    decision: Decision
    batch_ms: float | None = None

    @property
    def ms(self) -> float:
        """The time of the batch: that of the trigger, or if unknown that of the stage."""
        return self.report.wall_ms if self.batch_ms is None else self.batch_ms

    @property
    def moves(self) -> int:
        """Bins that change their channel after this batch."""
        return len(self.decision.plan.moves) if self.decision.changed and self.decision.plan else 0

    @property
    def bytes_moved(self) -> int:
        """The bytes of state in them."""
        return int(self.decision.plan.cost) if self.decision.changed and self.decision.plan else 0


@dataclass(frozen=True)
class Lane:
    """One stage's run over the stream."""

    name: str
    policy: str
    steps: tuple[Step, ...]

    @property
    def rows(self) -> int:
        """Rows processed."""
        return sum(step.report.rows for step in self.steps)

    @property
    def rows_per_s(self) -> float:
        """Rows divided by the time of their batches."""
        return 1e3 * self.rows / max(sum(step.ms for step in self.steps), 1e-9)

    def batch_ms(self, quantile: float) -> float:
        """A quantile of the batch times."""
        return float(np.quantile([step.ms for step in self.steps], quantile))

    @property
    def imbalance(self) -> float:
        """The median over the batches of busiest channel over mean."""
        return float(np.median([step.report.imbalance for step in self.steps]))

    @property
    def moves(self) -> int:
        """The number of bins moved."""
        return sum(step.moves for step in self.steps)

    @property
    def bytes_moved(self) -> int:
        """The bytes of state moved."""
        return sum(step.bytes_moved for step in self.steps)

    def as_json(self) -> dict[str, Any]:
        """Plain data, with every batch."""
        return {
            "name": self.name,
            "policy": self.policy,
            "batches": len(self.steps),
            "rows": self.rows,
            "rows_per_s": round(self.rows_per_s, 1),
            "batch_ms_median": round(self.batch_ms(0.5), 1),
            "batch_ms_p95": round(self.batch_ms(0.95), 1),
            "imbalance_median": round(self.imbalance, 4),
            "plans": sum(step.decision.changed for step in self.steps),
            "moves": self.moves,
            "bytes_moved": self.bytes_moved,
            "batch_ms": [round(step.ms, 1) for step in self.steps],
            "imbalance": [round(step.report.imbalance, 4) for step in self.steps],
            "plans_after": [step.report.batch for step in self.steps if step.decision.changed],
        }


@dataclass(frozen=True)
class DemoResult:
    """Both lanes over the same batches. `differing` is the first batch whose answers differ, None
    if all are equal.
    """

    fixed: Lane
    adaptive: Lane
    shifts: tuple[int, ...]
    differing: int | None
    pace_us: float
    channels: int
    seconds: float
    picture: str = ""

    @property
    def equal(self) -> bool:
        """Whether both lanes gave the same rows, bit for bit."""
        return self.differing is None

    @property
    def speedup(self) -> float:
        """Throughput of the adaptive lane over the fixed one."""
        return self.adaptive.rows_per_s / self.fixed.rows_per_s

    @property
    def answer(self) -> str:
        """Whether the answers are equal, in words."""
        return "yes" if self.differing is None else f"NO, first in batch {self.differing}"

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "demo": "skew",
            "channels": self.channels,
            "pace_us": self.pace_us,
            "paced": pacing(self.pace_us, self.channels),
            "seconds": round(self.seconds, 1),
            "shifts": list(self.shifts),
            "lanes": [self.fixed.as_json(), self.adaptive.as_json()],
            "speedup": round(self.speedup, 3),
            "answers_equal": self.equal,
            "picture": self.picture,
        }

    def as_table(self) -> Grid:
        """The comparison for a terminal."""
        grid = Grid(title=f"{len(self.fixed.steps)} batches, {self.fixed.rows:,} rows", title_justify="left")
        grid.add_column("")
        for lane in (self.fixed, self.adaptive):
            grid.add_column(lane.name, justify="right")
        grid.add_column("", justify="right")
        a, b = self.fixed, self.adaptive
        grid.add_row(
            "rows/s", f"{a.rows_per_s:,.0f}", f"{b.rows_per_s:,.0f}", f"{self.speedup:.2f}x", style="bold"
        )
        for name, q in (("median batch (whole trigger)", 0.5), ("p95 batch", 0.95)):
            x, y = a.batch_ms(q), b.batch_ms(q)
            grid.add_row(name, f"{x:,.0f} ms", f"{y:,.0f} ms", f"{y / x:.2f}x")
        grid.add_row("busiest / mean channel", f"{a.imbalance:.2f}", f"{b.imbalance:.2f}", "")
        grid.add_row("bins moved", f"{a.moves}", f"{b.moves}", "")
        grid.add_row("state moved", f"{a.bytes_moved / 1e3:,.0f} kB", f"{b.bytes_moved / 1e3:,.0f} kB", "")
        grid.add_row("answers equal", "", self.answer, "", style="green" if self.equal else "bold red")
        return grid


def pacing(pace_us: float, channels: int) -> str:
    """A sentence on what is modelled and what is real."""
    return (
        f"Channels are paced: every row is given a service time of {pace_us:g} µs, slept and not burnt, so that "
        f"{channels} channels are real on few cores. Routing, state, commits and all other times are as they are."
    )
