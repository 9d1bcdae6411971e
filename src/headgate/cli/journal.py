"""`headgate journal`: what a stage decided, read from its checkpoint. Needs no Spark."""

from __future__ import annotations

from typing import Any

from rich.table import Table as Grid

from headgate.control import journal
from headgate.errors import ConfigError, CorruptState
from headgate.storage.checkpoint import read_journal
from headgate.storage.store import Store


def read(checkpoint: str) -> tuple[list[journal.Entry], str]:
    """The entries, oldest first, and a word on a torn last line (empty if there is none)."""
    lines, torn = read_journal(Store(checkpoint))
    if not lines:
        raise ConfigError(
            f"{checkpoint} holds no journal: give the folder that the stage has as its checkpoint, after its first batch"
        )
    entries, _ = decoded(lines, f"{checkpoint}, journal")
    return entries, f"the last line is torn and was left out: {torn[:60]!r}" if torn else ""


def entry_of(checkpoint: str, batch: int | None) -> journal.Entry:
    """The entry of a batch, or the last."""
    entries, _ = read(checkpoint)
    found = {entry.report.batch: entry for entry in entries}
    if batch is not None and batch not in found:
        raise ConfigError(
            f"batch {batch} is not in the journal of {checkpoint}: it has {min(found)} to {max(found)}"
        )
    return entries[-1] if batch is None else found[batch]


def decoded(lines: list[str], where: str) -> tuple[list[journal.Entry], str]:
    """The entries of some lines, and a word on a torn last one; any other bad line is an error that names it."""
    entries: list[journal.Entry] = []
    for number, line in enumerate(lines, start=1):
        try:
            entries.append(journal.decode(line))
        except CorruptState as error:
            if entries and number == len(lines):
                return entries, f"the last line is torn and was left out: {line[:60]!r}"
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
    said = [decision.plan.reason] if decision.plan else []
    if decision.refusal:
        said.append(f"{decision.refusal.name.value}: {decision.refusal.detail}")
    return "; ".join(said)


def as_table(rows: list[dict[str, Any]], checkpoint: str) -> Grid:
    """The decisions for a terminal."""
    grid = Grid(title=f"journal of {checkpoint}", title_justify="left", expand=False)
    heads = ("batch", "rows", "ms", "busiest/mean", "table", "channels", "moves", "MB", "gain", "done")
    for head in heads:
        grid.add_column(head, justify="right", no_wrap=True)
    grid.add_column("why", overflow="fold")
    for one in rows:
        planned = one["policy"] is not None
        grid.add_row(
            str(one["batch"]),
            f"{one['rows']:,}",
            f"{one['wall_ms']:,.0f}",
            f"{one['imbalance']:.2f}",
            str(one["table"]),
            str(one["channels"]),
            str(one["moves"]) if planned else "",
            f"{one['bytes_moved'] / 1e6:,.2f}" if planned else "",
            f"{one['gain']:.0%}" if planned else "",
            ("yes" if one["carried_out"] else "no") if planned else "",
            one["why"],
            style="bold" if one["carried_out"] else None,
        )
    return grid
