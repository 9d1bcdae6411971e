"""`headgate journal`: what a stage decided, read from its checkpoint. Needs no Spark."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table as Grid

from headgate.cli.console import numbers_grid
from headgate.control import journal
from headgate.errors import ConfigError, CorruptState
from headgate.storage.journal_files import read_journal
from headgate.storage.store import Store


def read(checkpoint: str) -> tuple[list[journal.Entry], str]:
    """Read a checkpoint's journal; return the entries, oldest first, and a warning if the last line
    is torn (or "").
    """
    lines, torn = read_journal(Store(checkpoint))
    if not lines:
        raise ConfigError(
            f"{checkpoint} holds no journal: give the checkpoint folder of a stage, after its first batch"
        )
    entries, _ = decoded(lines, f"{checkpoint}, journal")
    return entries, f"the last line is torn and was omitted: {torn[:60]!r}" if torn else ""


def entry_of(checkpoint: str, batch: int | None) -> journal.Entry:
    """The entry of a batch, by default of the last one."""
    entries, _ = read(checkpoint)
    by_batch = {entry.report.batch: entry for entry in entries}
    if batch is not None and batch not in by_batch:
        raise ConfigError(
            f"batch {batch} is not in the journal of {checkpoint}: it has {min(by_batch)} to {max(by_batch)}"
        )
    return entries[-1] if batch is None else by_batch[batch]


def decoded(lines: list[str], where: str) -> tuple[list[journal.Entry], str]:
    """Decode lines; a torn last line is omitted with a warning, any other bad line is an
    error that names it.
    """
    entries: list[journal.Entry] = []
    for number, line in enumerate(lines, start=1):
        try:
            entries.append(journal.decode(line))
        except CorruptState as error:
            if entries and number == len(lines):
                return entries, f"the last line is torn and was omitted: {line[:60]!r}"
            raise CorruptState(f"{where} line {number}: {error}") from error
    return entries, ""


def row(entry: journal.Entry) -> dict[str, Any]:
    """One decision as plain data."""
    report, decision = entry.report, entry.decision
    plan, refusal = decision.plan, decision.refusal
    return {
        "batch": report.batch,
        "rows": report.rows,
        "wall_ms": report.wall_ms,
        "imbalance": round(report.imbalance, 4),
        "row_imbalance": round(report.row_imbalance, 4),
        "row_bound": round(report.row_bound, 4),
        "table": report.table_version,
        "channels": len(report.channels),
        "mode": decision.mode.value,
        "policy": plan.policy if plan else None,
        "moves": len(plan.moves) if plan else 0,
        "pins": len(plan.pins) if plan else 0,
        "unpins": len(plan.unpins) if plan else 0,
        "bytes_moved": int(plan.cost) if plan else 0,
        "gain": round(plan.gain, 4) if plan else None,
        "carried_out": decision.changed,
        "refusal": refusal.name.value if refusal else None,
        "why": _why(decision),
    }


def _why(decision: Any) -> str:
    reasons = [decision.plan.reason] if decision.plan else []
    if decision.refusal:
        reasons.append(f"{decision.refusal.name.value}: {decision.refusal.detail}")
    return "; ".join(reasons)


def as_table(rows: list[dict[str, Any]], checkpoint: str) -> Group:
    """The decisions for a terminal: their figures, and below them the reasons. The wide one has how even the rows
    are and can be.
    """
    heads = (
        "batch",
        "rows",
        "ms",
        "busiest\n/ mean",
        "table",
        "chan-\nnels",
        "moves",
        "MB\nmoved",
        "gain",
        "done",
    )
    figures = numbers_grid(f"journal of {checkpoint}", heads)
    reasons = Grid(title="why", title_justify="left", box=box.SIMPLE, show_header=False, show_edge=False)
    reasons.add_column("batch", justify="right", no_wrap=True)
    reasons.add_column("why", overflow="fold")
    for decision in rows:
        planned = decision["policy"] is not None
        style = "bold" if decision["carried_out"] else None
        figures.add_row(
            str(decision["batch"]),
            f"{decision['rows']:,}",
            f"{decision['wall_ms']:,.0f}",
            f"{decision['imbalance']:.2f}",
            str(decision["table"]),
            str(decision["channels"]),
            str(decision["moves"]) if planned else "",
            f"{decision['bytes_moved'] / 1e6:,.2f}" if planned else "",
            f"{decision['gain']:.0%}" if planned else "",
            ("yes" if decision["carried_out"] else "no") if planned else "",
            style=style,
        )
        if decision["why"]:
            reasons.add_row(str(decision["batch"]), decision["why"], style=style)
    parts: list[RenderableType] = [figures]
    if reasons.row_count:
        parts += ["", reasons]
    return Group(*parts)


def as_wide_table(rows: list[dict[str, Any]], checkpoint: str) -> Grid:
    """Everything about each decision in one row."""
    heads = ("batch", "rows", "ms", "busiest / mean", "rows, at best", "table", "channels", "mode", "policy")
    changes = ("moves", "pins", "unpins", "MB moved", "gain", "done", "refusal")
    grid = numbers_grid(f"journal of {checkpoint}", (*heads, *changes))
    grid.add_column("why", overflow="fold")
    for decision in rows:
        grid.add_row(
            str(decision["batch"]),
            f"{decision['rows']:,}",
            f"{decision['wall_ms']:,.0f}",
            f"{decision['imbalance']:.2f}",
            f"{decision['row_imbalance']:.2f}, {decision['row_bound']:.2f}",
            str(decision["table"]),
            str(decision["channels"]),
            decision["mode"],
            decision["policy"] or "",
            *(str(decision[name]) for name in ("moves", "pins", "unpins")),
            f"{decision['bytes_moved'] / 1e6:,.2f}",
            "" if decision["gain"] is None else f"{decision['gain']:.0%}",
            "yes" if decision["carried_out"] else "no",
            decision["refusal"] or "",
            decision["why"],
            style="bold" if decision["carried_out"] else None,
        )
    return grid
