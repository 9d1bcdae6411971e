"""The files that `headgate alerts` writes: rules for Prometheus, and a board for Grafana."""

from __future__ import annotations

import json
from pathlib import Path

from rich.table import Table as Grid

from headgate.observe.board import board
from headgate.observe.rules import ALERTS, rule_file

RULES, BOARD = "prometheus/headgate-rules.yml", "grafana/headgate.json"


def files() -> dict[str, str]:
    """The files by their names."""
    return {RULES: rule_file(), BOARD: f"{json.dumps(board(), indent=2)}\n"}


def write(folder: Path) -> list[Path]:
    """Write the files, and return where they are."""
    written = []
    for name, text in files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def as_json() -> dict[str, object]:
    """The alerts as plain data."""
    return {
        "alerts": [
            {"name": a.name, "severity": a.severity, "for": a.hold, "expr": a.expr, "remedy": a.remedy}
            for a in ALERTS
        ]
    }


def as_table() -> Grid:
    """The alerts for a terminal."""
    grid = Grid("alert", "severity", "what to do", title="headgate alerts", title_justify="left")
    for alert in ALERTS:
        grid.add_row(alert.name, alert.severity, alert.remedy)
    return grid
