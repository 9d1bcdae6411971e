"""The default policy beside the fixed ones, in `docs/research/performance.md`, from the results file:
`python -m headgate_lab.site.figures`.

The file is what `headgate bench policies --json` prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from headgate_lab.bench.policies import DEFAULT, FIXED
from headgate_lab.bench.table_page import marks, placed

PAGE, RESULTS = Path("docs/research/performance.md"), Path("benchmarks/results/policies.json")
BEGIN, END = marks("bench policies")


def table(report: Mapping[str, Any]) -> str:
    """Seconds of each stream under each policy, and the worst of the goals."""
    lines = [
        f"| stream | {' | '.join((*FIXED, DEFAULT))} | over the best | over static |",
        "|---" * (len(FIXED) + 4) + "|",
    ]
    asked = {goal["name"]: goal for goal in report["goals"]}
    for one in report["results"]:
        stream = one["name"].removesuffix(": time")
        times = [fmean(one["samples"][f"{stream}, {name} (s)"]) for name in (*FIXED, DEFAULT)]
        over = [
            asked[f"{stream}: time over {what}"]["measured"] for what in ("the best fixed policy", "static")
        ]
        cells = [*(f"{time:.1f}" for time in times), *(f"{ratio:.3f}" for ratio in over)]
        lines.append(f"| {stream} | {' | '.join(cells)} |")
    missed = sum(not goal["ok"] for goal in report["goals"])
    worst = {
        what: max(goal["measured"] for name, goal in asked.items() if name.endswith(what))
        for what in ("the best fixed policy", "static")
    }
    said = (
        f"Over all streams the default takes at most {worst['the best fixed policy']:.3f} times as long as the best fixed"
        f" policy, and at most {worst['static']:.3f} times as long as static. Of {len(asked)} goals {missed} are missed."
    )
    return "\n".join([*lines, "", said])


def written(text: str, report: Mapping[str, Any]) -> str:
    """The page with the table in its place."""
    return placed(text, BEGIN, END, table(report))
