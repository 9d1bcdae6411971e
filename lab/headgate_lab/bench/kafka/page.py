"""The numbers of `docs/reference/kafka.md`, made from the results file: `python -m headgate_lab.bench.kafka.page`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headgate_lab.bench.kafka import RESULTS
from headgate_lab.bench.kafka.parts import OURS
from headgate_lab.bench.table_page import placed, wrapped, write

PAGE = Path("docs/reference/kafka.md")
BEGIN, END = "<!-- bench kafka: begin -->", "<!-- bench kafka: end -->"


def table(report: Mapping[str, Any]) -> str:
    """Every result: ours, native's, the ratio, and how far the samples lie apart."""
    lines = ["| what | Headgate | native | ratio | samples of Headgate |", "|---|---|---|---|---|"]
    for result in report["results"]:
        mine = result["samples"][OURS]
        spread = f"{len(mine)}: {_figure(min(mine), '')} to {_figure(max(mine), '')}"
        cells = [
            result["name"],
            _figure(result["value"], result["unit"]),
            f"{_figure(result['rival_value'], result['unit'])} ({result['rival'].removeprefix('native, ')})",
            f"{result['ratio']:.2f}x",
            spread,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _figure(value: float, unit: str) -> str:
    return (f"{value:,.0f}" if value >= 20 else f"{value:.1f}") + (f" {unit}" if unit else "")


def written(text: str, report: Mapping[str, Any]) -> str:
    """The page with the numbers in their place."""
    where = report["machine"]
    differ = sum(int(goal["measured"]) for goal in report["goals"] if "answers" in goal["name"])
    said = (
        f"{where['cores']} cores ({where['cpu']}), Spark {where['spark']}, Apache Kafka {where['kafka']}, Spark's connector "
        f"{where['connector']}; load {where['load']:g} before the start. Answers that differ from native's: {differ}."
    )
    return placed(text, BEGIN, END, f"{table(report)}\n\n{wrapped(said)}")


if __name__ == "__main__":
    write(PAGE, RESULTS, written)
