"""What a hostile tenant costs the others, in `docs/operate/service.md`, from the results file:
`python -m headgate_lab.bench.tenants_page`.

The file is what `headgate bench tenants --json` prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headgate_lab.bench.table_page import placed, write

PAGE, RESULTS = Path("docs/operate/service.md"), Path("benchmarks/results/tenants.json")
BEGIN, END = "<!-- bench tenants: begin -->", "<!-- bench tenants: end -->"


def table(report: Mapping[str, Any]) -> str:
    """How long good tenants wait, with and without the hostile one, and the goals."""
    first, median = report["results"][:2]
    counts = [len(samples) for samples in first["samples"].values()]
    lines = [
        "| from a push to its result | beside a hostile tenant | without it | ratio |",
        "|---|---|---|---|",
        *(
            f"| {name} | {one['value']:.2f} s | {one['rival_value']:.2f} s | {one['ratio']:.2f}x |"
            for name, one in (("95th percentile", first), ("median", median))
        ),
        f"| samples | {counts[0]} | {counts[1]} | |",
        "",
        "| goal | at most | measured | |",
        "|---|---|---|---|",
        *(
            f"| {goal['name']} | {goal['goal']} | {goal['measured']:.3g} | {'met' if goal['ok'] else 'missed'} |"
            for goal in report["goals"]
        ),
    ]
    return "\n".join(lines)


def written(text: str, report: Mapping[str, Any]) -> str:
    """The page with the tables in their place."""
    return placed(text, BEGIN, END, table(report))


if __name__ == "__main__":
    write(PAGE, RESULTS, written)
