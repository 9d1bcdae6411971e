"""The tables of `docs/research/reliability.md`, made from the results files: `python -m headgate_lab.chaos.page`.

The files are what `headgate chaos --json` and `headgate chaos --plant --json` print.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headgate_lab.bench.table_page import marks, placed
from headgate_lab.chaos.faults import KINDS

RESULTS, PLANTED = Path("benchmarks/results/chaos.json"), Path("benchmarks/results/chaos-plant.json")
PAGES = (Path("docs/research/reliability.md"),)


def faults(report: dict[str, Any]) -> str:
    """Every kind of fault, what it is, and how often it struck."""
    lines = ["| fault | what happens | struck |", "|---|---|---|"]
    lines += [f"| {kind} | {words} | {report['faults'].get(kind, 0):,} |" for kind, words in KINDS.items()]
    return "\n".join(lines)


def figures(report: dict[str, Any], planted: dict[str, Any] | None) -> str:
    """The figures of both runs in one table; `planted` is None if that was not run."""
    lines = [
        "| what was run | figure |",
        "|---|---|",
        f"| histories | {report['histories']:,} |",
        f"| faults injected | {sum(report['faults'].values()):,} |",
        f"| histories with a row lost, doubled or out of order, or another law broken | {report['failed']:,} |",
    ]
    if planted is not None:
        found = f"{planted['planted']}, {planted['caught']}"
        lines.append(f"| mistakes planted in the code, and found by the simulator | {found} |")
    return "\n".join(lines)


def missed(planted: dict[str, Any] | None) -> str:
    """The planted mistakes that were not found, and after how many histories."""
    if planted is None:
        return "(The whole list has not been run yet.)"
    if not planted["missed"]:
        return "All of them were found."
    missed = [mutant for mutant in planted["mutants"] if mutant["seed"] is None]
    return "\n".join(f"- {mutant['name']} ({mutant['histories']:,} histories)" for mutant in missed)


def written(text: str, report: dict[str, Any], planted: dict[str, Any] | None) -> str:
    """A page with its parts in their places."""
    parts = {"faults": faults(report), "figures": figures(report, planted), "missed": missed(planted)}
    for name, part in parts.items():
        text = placed(text, *marks(f"chaos {name}"), part)
    return text


def results(root: Path) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """What the results files have."""
    report = json.loads((root / RESULTS).read_text(encoding="utf-8"))
    planted = root / PLANTED
    return report, json.loads(planted.read_text(encoding="utf-8")) if planted.exists() else None


def main() -> None:
    """Write the tables into the pages."""
    report, planted = results(Path())
    for page in PAGES:
        page.write_text(written(page.read_text(encoding="utf-8"), report, planted), encoding="utf-8")


if __name__ == "__main__":
    main()
