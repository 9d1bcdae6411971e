"""What was measured, in `docs/operate/service.md`, from the results file: `python -m headgate_lab.bench.service_page`.

The file is what `headgate bench service --json` prints. With `--measure`, this measures first, and writes the file and
the picture too.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PAGE, RESULTS = Path("docs/operate/service.md"), Path("benchmarks/results/service.json")
PICTURES = Path("docs/img")
BEGIN, END = "<!-- bench service: begin -->", "<!-- bench service: end -->"
CLUSTER = ", cluster of two workers"
CPU = ": CPU of a batch's tasks"
_UNITS = (" us", " s", "/s", " GB", "%", "x")


def sections(report: Mapping[str, Any]) -> str:
    """The table of sizes, that of the cluster, and that of the goals."""
    return "\n\n".join([_sizes(report), _cluster(report), _goals(report)])


def _named(report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The results by their names; of two with one name, the first."""
    return {one["name"]: one for one in reversed(report["results"])}


def _median(one: Mapping[str, Any]) -> float:
    (spent,) = one["samples"].values()
    return float(statistics.median(spent))


def _sizes(report: Mapping[str, Any]) -> str:
    named = _named(report)
    lines = [
        "| queries | registered over HTTP | a batch, median | 95th percentile | CPU of its tasks | a query and batch"
        " | few rows | memory of all processes | results of a batch |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in [n.partition(":")[0] for n in named if n.endswith(": registered over HTTP")][::-1]:
        batch = named[f"{name}: a batch, 95th percentile"]
        cells = [
            name.removesuffix(" queries"),
            f"{named[f'{name}: registered over HTTP']['value']:,.0f}/s",
            f"{_median(batch):.2f} s",
            f"{batch['value']:.2f} s",
            f"{named[name + CPU]['value']:.2f} s",
            f"{named[f'{name}: a batch, for each query']['value']:,.1f} us",
            f"{named[f'{name}: a batch of few rows of one source']['value']:.2f} s",
            f"{named[f'{name}: memory of all processes']['value']:.1f} GB",
            f"{named[f'{name}: results of a batch']['value']:,.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cluster(report: Mapping[str, Any]) -> str:
    named = _named(report)
    lines = [
        "| queries, on a cluster | start | a batch, median | 95th percentile | memory of all processes |",
        "|---|---|---|---|---|",
    ]
    for name in [n.partition(":")[0] for n in named if n.endswith(f"{CLUSTER}: start")][::-1]:
        batch = named[f"{name}: a batch, 95th percentile"]
        cells = [
            name.removesuffix(f" queries{CLUSTER}"),
            f"{named[f'{name}: start']['value']:.1f} s",
            f"{_median(batch):.2f} s",
            f"{batch['value']:.2f} s",
            f"{named[f'{name}: memory of all processes']['value']:.1f} GB",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _goals(report: Mapping[str, Any]) -> str:
    lines = ["| goal | | measured | |", "|---|---|---|---|"]
    for goal in report["goals"]:
        unit = next((unit for unit in _UNITS if goal["goal"].endswith(unit)), "")
        met = "met" if goal["ok"] else "missed"
        lines.append(f"| {goal['name']} | {goal['goal']} | {_figure(goal['measured'])}{unit} | {met} |")
    return "\n".join(lines)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def written(text: str, report: Mapping[str, Any]) -> str:
    """The page with the tables in their place."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{sections(report)}\n\n{END}{rest.partition(END)[2]}"


def main(*arguments: str) -> None:
    """Write the tables into the page."""
    if "--measure" in arguments:
        from headgate_lab.bench import service

        report = service.run(quick=False, repeat=1, progress=lambda what, _: print(what, flush=True))
        RESULTS.write_text(json.dumps(report.as_json(), indent=1) + "\n", encoding="utf-8")
        report.save_picture(PICTURES)
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
