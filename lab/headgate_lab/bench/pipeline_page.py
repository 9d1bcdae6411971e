"""One controller for two stages beside a controller each, in `docs/research/flux.md`, from the results file:
`python -m headgate_lab.site.figures`.

The file is what `headgate bench pipeline --json` prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headgate_lab.bench.table_page import marks, placed

PAGE, RESULTS = Path("docs/research/flux.md"), Path("benchmarks/results/pipeline.json")
BEGIN, END = marks("bench pipeline")


def table(report: Mapping[str, Any]) -> str:
    """Seconds of each load under each policy, and the least that is possible."""
    found = {one["name"]: one["value"] for one in report["results"]}
    lines = [
        "| policy | load | the stages run | a controller each | one for both | least possible | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in report["results"]:
        if one["rival"]:
            policy, _, rest = one["name"].partition(", ")
            case, _, way = rest.rpartition(", ")
            times = [one["rival_value"], one["value"], found[f"{one['name']}: least possible"]]
            cells = [policy, case, way, *(f"{time:.1f}" for time in times), f"{one['ratio']:.2f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def written(text: str, report: Mapping[str, Any]) -> str:
    """The page with the table in its place."""
    return placed(text, BEGIN, END, table(report))
