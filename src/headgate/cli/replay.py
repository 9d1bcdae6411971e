"""`headgate replay`: what another policy would have done with a recorded run. Needs no Spark."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table as Grid

from headgate.cli.console import numbers_grid
from headgate.cli.journal import decoded, read
from headgate.control import journal
from headgate.errors import ConfigError
from headgate.watch.replayed import ABOUT, BatchFigures, ReplayedBatch, replay, summary, under

__all__ = [
    "ABOUT",
    "BatchFigures",
    "ReplayedBatch",
    "as_json",
    "as_table",
    "entries_of",
    "replay",
    "summary",
    "under",
]


def entries_of(path: str) -> tuple[list[journal.Entry], str]:
    """Read a checkpoint's journal, or one file of it; return the entries, and a warning if the
    last line is torn.
    """
    if not os.path.isfile(path):
        return read(path)
    lines = [line for line in Path(path).read_text(encoding="utf-8", errors="replace").splitlines() if line]
    if not lines:
        raise ConfigError(
            f"{path} is empty: give a journal, or the folder that a stage has as its checkpoint"
        )
    return decoded(lines, f"{path},")


def as_json(path: str, policy: str, steps: list[ReplayedBatch]) -> dict[str, Any]:
    """All batches, the totals, and which figures are measured and which predicted."""
    batches = [asdict(step) for step in steps]
    return {"journal": path, "policy": policy, "about": ABOUT, "batches": batches, "summary": summary(steps)}


def as_table(path: str, recorded: str, policy: str, steps: list[ReplayedBatch]) -> Grid:
    """The two runs for a terminal: for each batch a row as recorded, and below it a row as replayed."""
    grid = numbers_grid(
        f"{path}: recorded with {recorded}, replayed with {policy}",
        ("batch", "rows", "run", "busiest\n/ mean", "busiest\nms", "moves", "pins", "MB\nmoved"),
        caption=ABOUT,
    )

    def add(batch: str, rows: int, run: str, figures: dict[str, float], *, mean: float, last: bool) -> None:
        changed = figures["moves"] + figures["pins"]
        moved = f"{figures['moves']:.0f}", f"{figures['pins']:.0f}", f"{figures['moved_bytes'] / 1e6:,.2f}"
        grid.add_row(
            "" if last else batch,
            "" if last else f"{rows:,}",
            run,
            f"{mean:.2f}",
            f"{figures['busiest_ms']:,.0f}",
            *(moved if changed else ("", "", "")),
            style="bold" if batch == "all" else None,
            end_section=last,
        )

    for step in steps:
        for run, figures in (("recorded", step.recorded), ("replayed", step.replayed)):
            last = run == "replayed"
            add(str(step.batch), step.rows, run, asdict(figures), mean=figures.imbalance, last=last)
    for run, totals in summary(steps).items():
        rows = sum(step.rows for step in steps)
        add("all", rows, run, totals, mean=totals["mean_imbalance"], last=run == "replayed")
    return grid


def as_wide_table(path: str, recorded: str, policy: str, steps: list[ReplayedBatch]) -> Grid:
    """The two runs side by side, a row for each batch."""
    heads = ("busiest\n/ mean", "busiest\nms", "moves", "pins", "MB\nmoved")
    grid = numbers_grid(
        f"{path}: recorded with {recorded} on the left, replayed with {policy} on the right",
        ("batch", "rows", *heads, *heads),
        caption=ABOUT,
    )
    for step in steps:
        grid.add_row(str(step.batch), f"{step.rows:,}", *_cells(step.recorded), *_cells(step.replayed))
    totals = summary(steps)
    rows = sum(step.rows for step in steps)
    both = (_total(totals[run]) for run in ("recorded", "replayed"))
    grid.add_row("all", f"{rows:,}", *(cell for cells in both for cell in cells), style="bold")
    return grid


def _cells(figures: BatchFigures) -> tuple[str, ...]:
    return _total({**asdict(figures), "mean_imbalance": figures.imbalance})


def _total(figures: dict[str, float]) -> tuple[str, ...]:
    return (
        f"{figures['mean_imbalance']:.2f}",
        f"{figures['busiest_ms']:,.0f}",
        f"{figures['moves']:,.0f}",
        f"{figures['pins']:,.0f}",
        f"{figures['moved_bytes'] / 1e6:,.2f}",
    )
