"""The table of `docs/research/performance.md`, made from the results files: `python -m headgate_lab.bench.direct.page`."""

from __future__ import annotations

from pathlib import Path

from headgate_lab.bench.direct import RESULTS
from headgate_lab.bench.direct.merge import merged
from headgate_lab.bench.direct.works import STAGE
from headgate_lab.bench.result import Goal, Report, Result
from headgate_lab.bench.table_page import machine_of, placed, wrapped

PAGE = Path("docs/research/performance.md")
BEGIN, END = "<!-- direct streams: begin -->", "<!-- direct streams: end -->"


def table(report: Report) -> str:
    """Every goal: direct, `foreachBatch`, native, what was measured, and the goal."""
    lines = [
        "| what | direct | `foreachBatch` | native | measured | goal | reached |",
        "|---|---|---|---|---|---|---|",
    ]
    works: dict[str, list[Result]] = {}
    for result in report.results:
        works.setdefault(result.name, []).append(result)
    for name, results in works.items():
        staged = next((r for r in results if r.rival == STAGE), None)
        native = next((r for r in results if r.rival != STAGE), None)
        goals: list[Goal | None] = [
            goal
            for goal in report.goals
            if (goal.name == name or goal.name.startswith(f"{name}:")) and "answers" not in goal.name
        ]
        for goal in goals or [None]:
            cells = [
                name if goal is None else goal.name,
                shown_figure((native or results[0]).value, (native or results[0]).unit),
                "" if staged is None else shown_figure(staged.rival_value, staged.unit),
                "" if native is None else f"{shown_figure(native.rival_value, native.unit)} {native.rival}",
                _ratio(native, goal),
                "" if goal is None else goal.goal,
                "" if goal is None else ("yes" if goal.ok else "**no**"),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _ratio(native: Result | None, goal: Goal | None) -> str:
    """What the goal is about, or native's ratio."""
    if goal is not None:
        return f"{goal.measured:,.3g}{goal.unit}" if goal.unit == "x" else f"{goal.measured:,.3g} {goal.unit}"
    return "" if native is None or native.ratio is None else f"{native.ratio:.3g}x"


def shown_figure(value: float | None, unit: str) -> str:
    """A rate or a time, as tables have it."""
    if value is None:
        return ""
    if unit == "rows/s":
        return f"{value / 1e3:,.0f}k rows/s" if value >= 1e4 else f"{value:,.0f} rows/s"
    return f"{value:,.0f} {unit}" if value >= 20 else f"{value:.2f} {unit}"


def answers(report: Report) -> tuple[int, int]:
    """How many comparisons of answers were made, and how many found a difference."""
    compared: list[Goal] = [goal for goal in report.goals if "answers" in goal.name]
    return len(compared), sum(not goal.ok for goal in compared)


def written(text: str, report: Report) -> str:
    """The page with the table in its place."""
    count, differing = answers(report)
    said = f"{count} comparisons of whole answers were made, and {differing} of them differ."
    where = machine_of({"machine": report.machine})
    return placed(text, BEGIN, END, "\n\n".join([table(report), wrapped(f"{said} {where}")]))


def main() -> None:
    """Write the table into the page."""
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), merged(RESULTS)), encoding="utf-8")


if __name__ == "__main__":
    main()
