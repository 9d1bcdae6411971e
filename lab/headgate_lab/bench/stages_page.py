"""Stages in `foreachBatch` beside native Spark, in `docs/research/operators.md`, from the results files of
`headgate bench direct`: `python -m headgate_lab.site.figures`.
"""

from __future__ import annotations

from pathlib import Path

from headgate_lab.bench.direct.page import shown_figure
from headgate_lab.bench.direct.works import STAGE
from headgate_lab.bench.result import Report
from headgate_lab.bench.table_page import machine_of, marks, placed, wrapped

PAGE = Path("docs/research/operators.md")
BEGIN, END = marks("stages")


def table(report: Report) -> str:
    """Every work that runs as a stage: ours, native's, and how many times as fast ours is."""
    lines = ["| work | a stage | native | as fast as native |", "|---|---|---|---|"]
    native = {one.name: one for one in report.results if one.rival and one.rival.startswith("native")}
    for one in report.results:
        if one.rival != STAGE or one.rival_value is None:
            continue
        other = native.get(one.name)
        beside, ratio = "", "not compared"
        if other is not None and other.rival_value:
            beside = f"{shown_figure(other.rival_value, other.unit)}, {other.rival}"
            faster = one.rival_value / other.rival_value
            ratio = f"{faster if one.unit == 'rows/s' else 1 / faster:.3g}x"
        lines.append(f"| {one.name} | {shown_figure(one.rival_value, one.unit)} | {beside} | {ratio} |")
    return "\n".join([*lines, "", wrapped(machine_of({"machine": report.machine}))])


def written(text: str, report: Report) -> str:
    """The page with the table in its place."""
    return placed(text, BEGIN, END, table(report))
