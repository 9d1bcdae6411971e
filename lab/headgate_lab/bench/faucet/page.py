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
PROFILE = Path("benchmarks/results/faucet-profile.json")
"""Where the memory is: single runs of the bench's jobs with two sizes of waves, by hand."""
PROFILE_BEGIN, PROFILE_END = "<!-- faucet profile: begin -->", "<!-- faucet profile: end -->"


def table(report: dict[str, Any]) -> str:
    """A line for each result, then one for each goal."""
    return standard(report, ours="Headgate")


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


if __name__ == "__main__":
    write(PAGE, RESULTS, written)
    write(PAGE, PROFILE, written_profile)
