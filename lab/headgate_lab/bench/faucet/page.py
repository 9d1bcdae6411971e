"""What a gate costs and saves, in `docs/research/faucet.md`, from the results file:
`python -m headgate_lab.bench.faucet.page`.

The file is what `headgate bench faucet --json` prints. Results named "who: what" in MB are the profile of memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headgate_lab.bench.faucet.gate import KINDS, TENTH_TOOK
from headgate_lab.bench.table_page import placed, standard, write

PAGE, RESULTS = Path("docs/research/faucet.md"), Path("benchmarks/results/faucet.json")
BEGIN, END = "<!-- bench faucet: begin -->", "<!-- bench faucet: end -->"
NO_PROFILE = "The last run has no profile yet: it is older than the part of the bench that makes one."
PROFILE_BEGIN, PROFILE_END = "<!-- faucet profile: begin -->", "<!-- faucet profile: end -->"


def table(report: dict[str, Any]) -> str:
    """A line for each result that is not in the profile, then one for each goal."""
    rest = [one for one in report["results"] if not _in_profile(one)]
    return standard({**report, "results": rest}, ours="Headgate")


def profile_table(report: dict[str, Any]) -> str:
    """A line for each kind of memory, a column for each run."""
    found: dict[str, dict[str, float]] = {}
    for one in filter(_in_profile, report["results"]):
        who, _, what = one["name"].partition(": ")
        found.setdefault(what, {})[who] = one["value"]
        if one["rival"] is not None:
            found[what][one["rival"]] = one["rival_value"]
    if not found:
        return NO_PROFILE
    heads = list(dict.fromkeys(who for figures in found.values() for who in figures))
    lines = [f"| MB | {' | '.join(heads)} |", f"|---{'|---' * len(heads)}|"]
    for what, figures in found.items():
        cells = [f"{figures[who]:,.0f}" if who in figures else "" for who in heads]
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


def written(text: str, report: dict[str, Any]) -> str:
    """The page with the tables in their place."""
    text = placed(text, BEGIN, END, table(report))
    return placed(text, PROFILE_BEGIN, PROFILE_END, profile_table(report))


def _in_profile(one: dict[str, Any]) -> bool:
    return one["name"].partition(": ")[2] in {*KINDS.values(), TENTH_TOOK}


if __name__ == "__main__":
    write(PAGE, RESULTS, written)
