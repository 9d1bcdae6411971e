"""The table of a rescale in `docs/research/performance.md`, from the results file: `python -m headgate_lab.bench.rescale.page`.

The file is what `headgate bench rescale --json` prints.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headgate_lab.bench.table_page import placed, write

PAGE, RESULTS = Path("docs/research/performance.md"), Path("benchmarks/results/rescale.json")
BEGIN, END = "<!-- bench rescale: begin -->", "<!-- bench rescale: end -->"


def table(report: dict[str, Any]) -> str:
    """A line for each kind of change, and native's pauses."""
    found = {one["name"]: one for one in report["results"]}
    lines = [
        "| state, change | p99 of a batch in it | without | ratio | longest batch |",
        "|---|---|---|---|---|",
    ]
    pauses = []
    for name, one in found.items():
        what, _, figure = name.rpartition(": ")
        if figure == "p99":
            cells = [f"{one['value']:,.0f} ms", f"{one['rival_value']:,.0f} ms", f"{one['ratio']:.2f}x"]
            longest = found[f"{what}: longest"]["value"]
            lines.append(f"| {what.replace(': ', ', ')} | {' | '.join(cells)} | {longest:,.0f} ms |")
        elif figure == "longest pause":
            pauses.append(f"{what}: {one['rival_value']:.1f} s (Headgate {one['value']:.2f} s)")
    return "\n".join(
        [*lines, "", f"Native Spark, stopped, repartitioned and started again: {'; '.join(pauses)}."]
    )


def written(text: str, report: dict[str, Any]) -> str:
    """The page with the table in its place."""
    return placed(text, BEGIN, END, table(report))


if __name__ == "__main__":
    write(PAGE, RESULTS, written)
