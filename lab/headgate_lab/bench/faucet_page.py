"""What a gate costs and saves, in `docs/research/faucet.md`, from the results file: `python -m headgate_lab.bench.faucet_page`.

The file is what `headgate bench faucet --json` prints; it may hold some of the parts only.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PAGE, RESULTS = Path("docs/research/faucet.md"), Path("benchmarks/results/faucet.json")
BEGIN, END = "<!-- bench faucet: begin -->", "<!-- bench faucet: end -->"


def table(report: dict[str, Any]) -> str:
    """A line for each result, then one for each goal."""
    lines = ["| | behind a gate | rival | ratio |", "|---|---|---|---|"]
    for one in report["results"]:
        unit = "" if one["unit"] == "x" else f" {one['unit']}"
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
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{table(report)}\n\n{END}{rest.partition(END)[2]}"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def main() -> None:
    """Write the tables into the page."""
    report = json.loads(RESULTS.read_text(encoding="utf-8"))
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), report), encoding="utf-8")


if __name__ == "__main__":
    main()
