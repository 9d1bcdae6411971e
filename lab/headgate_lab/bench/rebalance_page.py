"""What a channel that is short of memory costs, in `docs/research/flux.md`, from the results file:
`python -m headgate_lab.bench.rebalance_page`.

The file is what `headgate bench rebalance --only memory --json` prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headgate.sizes import show_bytes
from headgate_lab.bench.table_page import placed, write

PAGE, RESULTS = Path("docs/research/flux.md"), Path("benchmarks/results/rebalance-memory.json")
BEGIN, END = "<!-- bench rebalance memory: begin -->", "<!-- bench rebalance memory: end -->"
SPEED = "speed after over before: "


def table(report: Mapping[str, Any]) -> str:
    """A line for each number of channels and policy."""
    found = {one["name"]: one["value"] for one in report["results"]}
    lines = [
        "| channels | policy | throughput after | time from the trouble on | rows that wait | on disk | moved | reading state |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in (name.removeprefix(SPEED) for name in found if name.startswith(SPEED)):
        where, policy = name.split(": ")
        cells = [
            where.split(", ")[1].removesuffix(" channels"),
            f"`{policy}`" if policy != "default" else "the default",
            f"{found[SPEED + name]:.2f}",
            f"{found[f'time from the trouble on: {name}']:.0f} s",
            f"{found[f'waiting: {name}']:,.0f}",
            show_bytes(found[f"on disk: {name}"]),
            show_bytes(found[f"moved: {name}"]),
            f"{found[f'moving: {name}']:.1%}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def written(text: str, report: Mapping[str, Any]) -> str:
    """The page with the table in its place."""
    return placed(text, BEGIN, END, table(report))


if __name__ == "__main__":
    write(PAGE, RESULTS, written)
