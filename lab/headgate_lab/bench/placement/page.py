"""The family of workloads in `docs/research/placement.md`, from the results file: `python -m headgate_lab.bench.placement.page`.

The file is what `headgate bench placement --only family --json` prints.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headgate_lab.bench.table_page import placed, write

PAGE, RESULTS = Path("docs/research/placement.md"), Path("benchmarks/results/placement.json")
BEGIN, END = "<!-- bench placement: begin -->", "<!-- bench placement: end -->"


def table(report: Mapping[str, Any]) -> str:
    """By kind of workload: the default over the best rule over the lower bound and over repair alone, and what is
    without them; then the goals, and what an event costs.
    """
    kinds: dict[str, list[Mapping[str, Sequence[float]]]] = defaultdict(list)
    for one in report["results"]:
        if one["rival"] == "best rule":
            kinds[one["name"].partition(":")[0]].append(one["samples"])
    everything = [samples for members in kinds.values() for samples in members]
    value = {one["name"]: one["value"] for one in report["results"]}
    lines = [
        "| workloads | instances | default over the best rule | over the lower bound | over repair alone | repair alone over "
        "the lower bound | without repair over the best rule |",
        "|---|---|---|---|---|---|---|",
        *(_line(kind, members) for kind, members in kinds.items()),
        _line("all", everything),
        "",
        "| goal | asked | measured | |",
        "|---|---|---|---|",
        *(
            f"| {goal['name']} | {goal['goal']} | {goal['measured']:.3g} | {'met' if goal['ok'] else '**missed**'} |"
            for goal in report["goals"]
        ),
        "",
        "| for each event | queries moved | CPU time |",
        "|---|---|---|",
        *(
            f"| {name} | {value[f'family: queries moved for each event, {name}']:.2f} | "
            f"{value[f'family: CPU time of an event, {name}']:.1f} µs |"
            for name in ("without repair", "without refinement", "default")
        ),
    ]
    return "\n".join(lines)


def _line(kind: str, members: Sequence[Mapping[str, Sequence[float]]]) -> str:
    """A row of the table."""

    def all_of(name: str) -> list[float]:
        return [ratio for samples in members for ratio in samples[name]]

    alone = [
        plain / best
        for samples in members
        for plain, best in zip(samples["without repair"], samples["best rule"], strict=True)
    ]
    cells = (
        all_of("over the best rule"),
        all_of("over the lower bound"),
        all_of("over repair alone"),
        all_of("without refinement over the lower bound"),
        alone,
    )
    return f"| {kind} | {len(members)} | {' | '.join(map(_spread, cells))} |"


def _spread(ratios: Sequence[float]) -> str:
    """The mean, and the range."""
    return f"{sum(ratios) / len(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def written(text: str, report: Mapping[str, Any]) -> str:
    """The page with the tables in their place."""
    return placed(text, BEGIN, END, table(report))


if __name__ == "__main__":
    write(PAGE, RESULTS, written)
