"""The table of codecs in `docs/reference/kafka.md`, made from the results file: `python -m headgate_lab.bench.codecs_page`.

The file is what `headgate bench codecs --json` prints.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headgate_lab.bench.codecs import JSON
from headgate_lab.bench.table_page import placed, write

PAGE, RESULTS = Path("docs/reference/kafka.md"), Path("benchmarks/results/kafka-codecs.json")
BEGIN, END = "<!-- codecs: begin -->", "<!-- codecs: end -->"


def table(report: dict[str, Any]) -> str:
    """Rows a second of each codec beside JSON and beside its library."""
    lines = [
        "| values | rows/s | JSON, the same rows | ratio | a library for one record at a time |",
        "|---|---|---|---|---|",
    ]
    beside = {one["name"]: one for one in report["results"] if one["rival"] == JSON}
    for one in report["results"]:
        if one["rival"] != JSON:
            name, rival = one["name"], beside[one["name"]]
            cells = [name, _rate(one["value"]), _rate(rival["rival_value"]), f"{rival['ratio']:.1f}x"]
            lines.append(
                f"| {' | '.join(cells)} | {one['rival'].partition(',')[0]}: {_rate(one['rival_value'])} |"
            )
    return "\n".join(lines)


def _rate(value: float) -> str:
    return f"{value / 1e6:.1f}M" if value >= 1e6 else f"{value / 1e3:.0f}k"


def written(text: str, report: dict[str, Any]) -> str:
    """The page with the table in its place."""
    return placed(text, BEGIN, END, table(report))


if __name__ == "__main__":
    write(PAGE, RESULTS, written)
