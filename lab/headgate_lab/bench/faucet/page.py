"""What a gate costs and saves, in `docs/research/faucet.md`, from the results file:
`python -m headgate_lab.bench.faucet.page`.

The file is what `headgate bench faucet --json` prints.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headgate_lab.bench.table_page import placed, write

PAGE, RESULTS = Path("docs/research/faucet.md"), Path("benchmarks/results/faucet.json")
BEGIN, END = "<!-- bench faucet: begin -->", "<!-- bench faucet: end -->"


def table(report: dict[str, Any]) -> str:
    """A line for each result, then one for each goal."""
    lines = ["| | Headgate | rival | ratio |", "|---|---|---|---|"]
    for one in report["results"]:
        unit = "" if one["unit"] in ("", "x") else f" {one['unit']}"
        ours = f"{_shown(one['value'])}{unit}"
        rival = "" if one["rival"] is None else f"{_shown(one['rival_value'])}{unit}, {one['rival']}"
        ratio = "" if one["ratio"] is None else f"{one['ratio']:.2f}x"
        lines.append(f"| {one['name']} | {ours} | {rival} | {ratio} |")
    lines += ["", "| goal | asked | measured | |", "|---|---|---|---|"]
    for goal in report["goals"]:
        met = "yes" if goal["ok"] else "**no**"
        lines.append(f"| {goal['name']} | {goal['goal']} | {_shown(goal['measured'])} | {met} |")
    return "\n".join(lines)


def written(text: str, report: dict[str, Any]) -> str:
    """The page with the tables in their place."""
    return placed(text, BEGIN, END, table(report))


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


if __name__ == "__main__":
    write(PAGE, RESULTS, written)
