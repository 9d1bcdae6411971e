"""Policies on the modelled stage, in `docs/research/control.md`, from the results files: `python -m headgate_lab.site.figures`.

`control-forecast.json` has the paper's loads with and without a forecast, `control-drawn.json` is what
`headgate bench control --only drawn --json` prints.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from headgate_lab.bench.table_page import goals_of, machine_of, marks, placed, wrapped

PAGE = Path("docs/research/control.md")
FORECAST, DRAWN = (
    Path("benchmarks/results/control-forecast.json"),
    Path("benchmarks/results/control-drawn.json"),
)
_ROW = re.compile(r"(?P<load>\w+)(?: \d+/s)?(?P<drawn>: \w+)?, \d+ of (?P<channels>\d+): (?P<what>.*)")
_OVER = "time over the oracle"


def forecast(report: Mapping[str, Any]) -> str:
    """The paper's loads: time over the oracle's without a forecast, with it, and knowing more than anybody can."""
    found: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in report["results"]:
        row = _ROW.fullmatch(one["name"])
        if row is None or "forecast before" in row["what"]:
            continue
        known = found[row["load"], int(row["channels"])]
        name = row["what"].removesuffix(_OVER).removesuffix(", ").removeprefix("mpc ") or "forecast"
        known[name].append(one["value"])
        if name == "forecast":
            known["none"].append(one["rival_value"])
    heads = list(dict.fromkeys(["none", "forecast", *(name for known in found.values() for name in known)]))
    lines = [f"| load, channels | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for (load, channels), known in found.items():
        cells = [f"{fmean(known[head]):.2f}" if known[head] else "" for head in heads]
        lines.append(f"| {load}, {channels} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *goals_of(dict(report)), "", wrapped(machine_of(dict(report)))])


def drawn(report: Mapping[str, Any]) -> str:
    """Loads that are drawn by number: the mean of each policy's time over the oracle's, and what it took."""
    rows: dict[str, dict[str, float]] = defaultdict(dict)
    for one in report["results"]:
        load, _, what = one["name"].rpartition(": ")
        rows[load][what] = one["value"]
    policies = list(dict.fromkeys(what.partition(", ")[0] for known in rows.values() for what in known))
    lines = [
        f"| policy | {_OVER}, mean | worst | moved MB, mean | tables, mean | ms to plan, worst mean of a load |",
        "|---|---|---|---|---|---|",
    ]
    for policy in policies:
        over = [known[f"{policy}, response"] / known["oracle, response"] for known in rows.values()]
        cells = [f"{fmean(over):.3f}", f"{max(over):.2f}"]
        for what, join, digits in (("moved", fmean, 0), ("adaptations", fmean, 0), ("planning", max, 1)):
            values = [known[f"{policy}, {what}"] for known in rows.values() if f"{policy}, {what}" in known]
            cells.append(f"{join(values):,.{digits}f}" if values else "")
        lines.append(f"| {policy} | {' | '.join(cells)} |")
    said = f"{len(rows)} loads. {machine_of(dict(report))}"
    return "\n".join([*lines, "", *goals_of(dict(report)), "", wrapped(said)])


def written(text: str, root: Path) -> str:
    """The page with the tables in their places."""
    for name, file, table in (("bench control", FORECAST, forecast), ("bench control drawn", DRAWN, drawn)):
        report = json.loads((root / file).read_text(encoding="utf-8"))
        text = placed(text, *marks(name), table(report))
    return text
