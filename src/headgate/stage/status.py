"""The status of a stage, for people: it prints as a table, and renders in a notebook."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from rich.console import RenderableType

from headgate.control.loop import Decision
from headgate.control.report import BatchReport
from headgate.far_ahead import NEVER
from headgate.operators.event_time import COMPLETE, Clock
from headgate.routing.table import Table
from headgate.stage.journal import in_words
from headgate.stage.shown import as_html, as_text, html_lines, html_table, numbers_grid


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
            f"table {self.table.version} on {self.table.channels} channels, busiest {r.balance}"
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
        parts: list[RenderableType] = [self.headline]
        if self._rows():
            grid = numbers_grid(None, [_narrow(head) for head in self._heads])
            grid.columns[-1].justify = "left"
            for row in self._rows():
                grid.add_row(*row)
            parts.append(grid)
        return as_text(*parts, *self._lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        rows = self._rows()
        grid = html_table(self._heads, rows, text=1) if rows else ""
        return as_html(html_lines(self.headline, tag="b"), grid, html_lines(*self._lines))


def _narrow(head: str) -> str:
    r"""A head in two lines.

    >>> _narrow("busy ms"), _narrow("on disk, of limit MB")
    ('busy\nms', 'on disk,\nof limit MB')
    """
    first, comma, rest = head.partition(", ")
    return f"{first},\n{rest}" if comma else head.replace(" ", "\n")
