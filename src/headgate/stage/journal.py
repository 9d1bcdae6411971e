"""The journal of a stage, for people: a list of entries that prints as a table, and renders in a notebook."""

from __future__ import annotations

from headgate.control.journal import Entry
from headgate.control.loop import Decision
from headgate.stage.shown import as_html, as_text, html_lines, html_table, numbers_grid

HEADS = ("batch", "rows", "ms", "busiest/mean", "rows, at best", "table", "decision")


class Journal(list[Entry]):
    """The reports and decisions of a stage, oldest first.

    >>> Journal()
    no batch has been processed yet
    """

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                str(entry.report.batch),
                f"{entry.report.rows:,}",
                f"{entry.report.wall_ms:,.0f}",
                f"{entry.report.imbalance:.2f}",
                f"{entry.report.row_imbalance:.2f}, {entry.report.row_bound:.2f}",
                str(entry.report.table_version),
                in_words(entry.decision),
            )
            for entry in self
        ]

    def __str__(self) -> str:
        if not self:
            return "no batch has been processed yet"
        grid = numbers_grid(None, HEADS[:-1])
        grid.add_column(HEADS[-1], overflow="fold", vertical="bottom")
        for row in self._rows():
            grid.add_row(*row)
        return as_text(grid)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        if not self:
            return as_html(html_lines(str(self)))
        changed = [entry.decision.changed for entry in self]
        return as_html(html_table(HEADS, self._rows(), text=1, strong=changed))


def in_words(decision: Decision) -> str:
    """A decision in one line."""
    plan, refusal = decision.plan, decision.refusal
    refused = f"refused: {refusal.name.value}, {refusal.detail}" if refusal else ""
    if plan is None:
        return refused or "nothing to change"
    changes = f"{len(plan.moves)} moves, {len(plan.pins)} pins, {len(plan.unpins)} unpins; {plan.reason}"
    return f"{changes}; {refused}" if refused else changes
