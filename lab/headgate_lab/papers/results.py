"""The results file: the rows of every paper, as they were last measured, figure by figure.

`headgate reproduce --save benchmarks/results/papers.json` writes it, for all papers, one paper or one
figure; what was not run stays as it was. Each figure says whether it was run with `--quick`, and when.
The README and the pages about the papers take their figures from it (`papers.page`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from headgate_lab.papers.claims import Claim
from headgate_lab.papers.overview import tallies, totals

RESULTS = Path("benchmarks/results/papers.json")


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Return the figures of each paper: `{paper: {figure: {"quick", "at", "claims"}}}`; nothing if there is no file."""
    if not path.exists():
        return {}
    known: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["papers"]
    return known


def rows(known: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Claim]]:
    """Return the rows of each paper."""
    return {
        paper: [Claim(**claim) for figure in figures.values() for claim in figure["claims"]]
        for paper, figures in known.items()
    }


def save(
    path: Path,
    paper: str,
    figures: Mapping[str, Sequence[Claim]],
    *,
    quick: bool,
    order: Mapping[str, Sequence[str]],
    at: date | None = None,
) -> None:
    """Put figures of a paper into the file; the others stay. ``order`` has all papers and figures in their order."""
    known = read(path)
    of_paper = known.setdefault(paper, {})
    for figure, claims in figures.items():
        of_paper[figure] = {
            "quick": quick,
            "at": str(at or date.today()),
            "claims": [claim.as_json() for claim in claims],
        }
    sorted_ = {
        name: {figure: known[name][figure] for figure in names if figure in known[name]}
        for name, names in order.items()
        if name in known
    }
    data = {"totals": totals(tallies(rows(sorted_))), "papers": sorted_}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")
