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
PROFILE = Path("benchmarks/results/faucet-profile.json")
"""Where the memory is: single runs of the bench's jobs with two sizes of waves, by hand."""
PROFILE_BEGIN, PROFILE_END = "<!-- faucet profile: begin -->", "<!-- faucet profile: end -->"


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


def profile_table(report: dict[str, Any]) -> str:
    """A line for each kind of memory, a column for each size of waves."""
    found: dict[str, dict[str, float]] = {}
    for one in report["results"]:
        who, _, what = one["name"].partition(": ")
        found.setdefault(what, {})[who] = one["value"]
        if one["rival"] is not None:
            found[what][one["rival"]] = one["rival_value"]
    heads = list(dict.fromkeys(who for figures in found.values() for who in figures))
    lines = [f"| MB | {' | '.join(heads)} |", f"|---{'|---' * len(heads)}|"]
    for what, figures in found.items():
        cells = [f"{figures[who]:,.0f}" if who in figures else "" for who in heads]
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


def written_profile(text: str, report: dict[str, Any]) -> str:
    """The page with the profile in its place."""
    return placed(text, PROFILE_BEGIN, PROFILE_END, profile_table(report))


def written(text: str, report: dict[str, Any]) -> str:
    """The page with the tables in their place."""
    return placed(text, BEGIN, END, table(report))


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


if __name__ == "__main__":
    write(PAGE, RESULTS, written)
    write(PAGE, PROFILE, written_profile)
