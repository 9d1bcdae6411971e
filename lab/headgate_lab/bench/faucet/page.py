"""What a gate costs and saves, in `docs/research/faucet.md`, from the results file:
`python -m headgate_lab.bench.faucet.page`.

The file is what `headgate bench faucet --json` prints.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headgate_lab.bench.table_page import placed, standard, write

PAGE, RESULTS = Path("docs/research/faucet.md"), Path("benchmarks/results/faucet.json")
BEGIN, END = "<!-- bench faucet: begin -->", "<!-- bench faucet: end -->"


def table(report: dict[str, Any]) -> str:
    """A line for each result, then one for each goal."""
    return standard(report, ours="behind a gate")


def written(text: str, report: dict[str, Any]) -> str:
    """The page with the tables in their place."""
    return placed(text, BEGIN, END, table(report))


if __name__ == "__main__":
    write(PAGE, RESULTS, written)
