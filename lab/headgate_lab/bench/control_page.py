"""Policies on the modelled stage, in `docs/research/control.md`, from the results files: `python -m headgate_lab.site.figures`.

The files are what `headgate bench control --json` prints with `--only forecast`, `--only drawn` and `--only tried`.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from headgate_lab.bench.control import FORESEEING, KNOWING, MPC, WORSE
from headgate_lab.bench.control_tried import OVER_IT
from headgate_lab.bench.table_page import goals_of, machine_of, marks, placed, wrapped

PAGE = Path("docs/research/control.md")
FORECAST, DRAWN, TRIED = (
    Path(f"benchmarks/results/control-{part}.json") for part in ("forecast", "drawn", "tried")
)
_ROW = re.compile(r"(?P<load>\w+) [\d.]+/s, \d+ of (?P<channels>\d+)")
_ORACLE, _OVER = "oracle, response", "time over the oracle"


def forecast(report: Mapping[str, Any]) -> str:
    """The paper's loads: time over the oracle's without a forecast, with it, and knowing what nobody can; what it took."""
    found = {one["name"]: one["value"] for one in report["results"]}
    groups: dict[str, list[str]] = defaultdict(list)
    for name in found:
        setting, _, what = name.rpartition(": ")
        row = _ROW.fullmatch(setting)
        if what == _ORACLE and row is not None:
            groups[f"{row['load']}, {row['channels']}"].append(setting)
    heads = ["no forecast", "`mpc`", "knowing the rates", "knowing the next ten batches"]
    took = ("moved", "moved MB"), ("adaptations", "tables"), ("planning", "ms to plan")
    heads += [f"{title}: none / `mpc`" for _, title in took]
    lines = [f"| load, channels | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for group, settings in groups.items():
        cells = []
        for policy in (*MPC, KNOWING, FORESEEING):
            known = [s for s in settings if f"{s}: {policy}, response" in found]
            ratios = [found[f"{s}: {policy}, response"] / found[f"{s}: {_ORACLE}"] for s in known]
            cells.append(f"{fmean(ratios):.2f}" if ratios else "")
        for what, _ in took:
            means = (fmean(found[f"{s}: {policy}, {what}"] for s in settings) for policy in MPC)
            cells.append(" / ".join(f"{mean:.3g}" if mean < 10 else f"{mean:,.0f}" for mean in means))
        lines.append(f"| {group} | {' | '.join(cells)} |")
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


def tried(report: Mapping[str, Any]) -> str:
    """Ideas that were tried: time over the oracle's, and over that of the policy as it is."""
    heads = [_OVER + ", mean", f"{OVER_IT}: mean", "least", "most", "loads slower by 1%"]
    lines = [f"| idea | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for one in report["results"]:
        idea, each = one["name"].partition(": ")[0], one["samples"][OVER_IT]
        slower = sum(ratio > WORSE for ratio in each)
        cells = [f"{one['value']:.3f}", *(f"{x:.3f}" for x in (fmean(each), min(each), max(each)))]
        lines.append(f"| {idea} | {' | '.join(cells)} | {slower} of {len(each)} |")
    return "\n".join(lines)


def written(text: str, root: Path) -> str:
    """The page with the tables in their places."""
    parts = (
        ("bench control", FORECAST, forecast),
        ("bench control drawn", DRAWN, drawn),
        ("bench control tried", TRIED, tried),
    )
    for name, file, table in parts:
        report = json.loads((root / file).read_text(encoding="utf-8"))
        text = placed(text, *marks(name), table(report))
    return text
