"""What it costs to be watched, in `docs/operate/metrics.md`, from the results file: `python -m headgate_lab.bench.observe_page`.

The file is what `headgate bench observe --json` prints.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headgate_lab.bench.table_page import placed, write

PAGE, RESULTS = Path("docs/operate/metrics.md"), Path("benchmarks/results/observe.json")
BEGIN, END = "<!-- bench observe: begin -->", "<!-- bench observe: end -->"


def table(report: dict[str, Any]) -> str:
    """A line for each size of batch."""
    lines = [
        "| batch | everything on | nothing on | ratio of the medians | median of the ratios |",
        "|---|---|---|---|---|",
    ]
    for one, goal in zip(report["results"], report["goals"], strict=True):
        name = one["name"].removeprefix("batch of ").removesuffix(", everything on")
        cells = [name, f"{one['value']:.1f} ms", f"{one['rival_value']:.1f} ms"]
        lines.append(f"| {' | '.join(cells)} | {one['ratio']:.3f}x | {goal['measured']:.3f}x |")
    return "\n".join(lines)


def written(text: str, report: dict[str, Any]) -> str:
    """The page with the table in its place."""
    return placed(text, BEGIN, END, table(report))


if __name__ == "__main__":
    write(PAGE, RESULTS, written)
