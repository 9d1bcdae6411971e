"""The table of `docs/port/doctor.md`, made from the results file: `python -m headgate_lab.bench.doctor.page`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from headgate_lab.bench.table_page import placed, write

PAGE, RESULTS = Path("docs/port/doctor.md"), Path("benchmarks/results/doctor.json")
BEGIN, END = "<!-- bench doctor: begin -->", "<!-- bench doctor: end -->"


def table(report: Mapping[str, Any]) -> str:
    """A line for each job, and one for each goal."""
    lines = [
        "| job | native | predicted | measured | off by | said | measured |",
        "|---|---|---|---|---|---|---|",
    ]
    results = report["results"]
    for batch, verdict in zip(results[::2], results[1::2], strict=True):
        name = batch["name"].partition(": ")[0]
        native = median(batch["samples"][f"{name}, native"])
        said = "would not help" if "would not" in verdict["name"] else f"{verdict['value']:.1f}x"
        lines.append(
            f"| {name} | {native:,.0f} ms | {batch['value']:,.0f} ms | {batch['rival_value']:,.0f} ms "
            f"| {batch['ratio'] - 1:+.0%} | {said} | {verdict['rival_value']:.1f}x |"
        )
    goals = [
        f"- {goal['name']}: {goal['measured']:g} ({goal['goal']})" + ("" if goal["ok"] else ", **not met**")
        for goal in report["goals"]
    ]
    return "\n".join([*lines, "", *goals])


def written(text: str, report: Mapping[str, Any]) -> str:
    """The page with the table in its place."""
    return placed(text, BEGIN, END, table(report))


if __name__ == "__main__":
    write(PAGE, RESULTS, written)
