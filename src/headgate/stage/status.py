"""The status of a stage, for people: it prints as a table, and renders in a notebook."""

from __future__ import annotations

import html
import io
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table as Grid

from headgate.control.loop import Decision
from headgate.control.report import BatchReport
from headgate.far_ahead import NEVER
from headgate.operators.event_time import COMPLETE, Clock
from headgate.routing.table import Table
from headgate.stage.journal import in_words


@dataclass(frozen=True)
class Status:
    """The state of a stage at one moment."""

    operator: str
    key: tuple[str, ...]
    policy: str
    mode: str
    table: Table | None
    report: BatchReport | None
    decision: Decision | None
    clock: Clock | None = None

    @property
    def event_time(self) -> str:
        """The watermark, and counts of rows that were put aside or are far ahead in time;
        empty if there is nothing to say.
        """
        if self.clock is None:
            return ""
        parts = [f"{count:,} rows {reason}" for reason, count in sorted(self.clock.counts.items())]
        if self.clock.watermark == COMPLETE:
            parts.insert(0, "input complete")
        elif self.clock.watermark > NEVER:
            parts.insert(0, f"watermark {np.datetime64(self.clock.watermark, 'us')}")
        return ", ".join(parts)

    @property
    def headline(self) -> str:
        """The status in one line."""
        if self.report is None or self.table is None:
            return f"{self.operator} by {', '.join(self.key)}: no batch yet"
        r = self.report
        rate = r.rows / r.wall_ms * 1e3 if r.wall_ms else 0.0
        return (
            f"{self.operator} by {', '.join(self.key)}: batch {r.batch}, {r.rows:,} rows in {r.wall_ms:,.0f} ms ({rate:,.0f}/s), "
            f"table {self.table.version} on {self.table.channels} channels, busiest {r.imbalance:.2f}x the mean"
        )

    @property
    def last_decision(self) -> str:
        """What was decided after the last batch, in words."""
        d = self.decision
        if d is None:
            return f"{self.policy} ({self.mode}): nothing decided yet"
        return f"{self.policy} ({self.mode}): {in_words(d)}"

    def _rows(self) -> list[tuple[str, ...]]:
        if self.report is None or self.table is None:
            return []
        counts = {c: len(self.table.bins_of(c)) for c in range(self.table.channels)}
        return [
            (
                str(c.channel),
                str(counts.get(c.channel, 0)),
                f"{c.rows:,}",
                f"{c.busy_ms:,.1f}",
                f"{c.idle_ms:,.1f}",
                f"{c.state_bytes / 1e6:,.2f}",
                *((f"{c.disk_bytes / 1e6:,.2f} of {c.memory_limit / 1e6:,.0f}",) if self._bounded else ()),
                *((f"{c.backlog_rows:,}",) if self._waiting else ()),
                str(c.rebuilt_bins),
                c.executor,
            )
            for c in self.report.channels
        ]

    @property
    def _bounded(self) -> bool:
        return self.report is not None and any(c.memory_limit for c in self.report.channels)

    @property
    def _waiting(self) -> bool:
        return self.report is not None and any(c.backlog_rows for c in self.report.channels)

    @property
    def _heads(self) -> tuple[str, ...]:
        disk = ("on disk, of limit MB",) if self._bounded else ()
        waiting = ("rows waiting",) if self._waiting else ()
        return (
            "channel",
            "bins",
            "rows",
            "busy ms",
            "idle ms",
            "state MB",
            *disk,
            *waiting,
            "rebuilt",
            "executor",
        )

    @property
    def _lines(self) -> list[str]:
        return [line for line in (self.event_time, self.last_decision) if line]

    def __str__(self) -> str:
        console = Console(file=io.StringIO(), width=120, markup=False)
        console.print(self.headline, highlight=False, markup=False)
        if self._rows():
            grid = Grid(*self._heads)
            for column in grid.columns[:-1]:
                column.justify = "right"
            for row in self._rows():
                grid.add_row(*row)
            console.print(grid)
        for line in self._lines:
            console.print(line, highlight=False, markup=False)
        out = console.file
        assert isinstance(out, io.StringIO)
        return out.getvalue().rstrip()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        heads = "".join(f"<th>{h}</th>" for h in self._heads)
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(v)}</td>" for v in row) + "</tr>" for row in self._rows()
        )
        grid = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in self._lines)
        return f"<div><b>{html.escape(self.headline)}</b>{grid}{lines}</div>"
