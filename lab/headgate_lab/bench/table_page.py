"""A table in a page of the documentation, between two marks, made from a results file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def marks(name: str) -> tuple[str, str]:
    """The line before a made block, and the one after it."""
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def placed(text: str, begin: str, end: str, table: str) -> str:
    """The page with the table in its place.

    >>> placed("a <!-- b --> old <!-- e --> z", "<!-- b -->", "<!-- e -->", "new").split()
    ['a', '<!--', 'b', '-->', 'new', '<!--', 'e', '-->', 'z']
    """
    before, found, rest = text.partition(begin)
    if not found or end not in rest:
        raise ValueError(f"the page has no lines {begin!r} and {end!r}")
    return f"{before}{begin}\n\n{table}\n\n{end}{rest.partition(end)[2]}"


def wrapped(text: str, width: int = 100) -> str:
    """A sentence in lines of a page."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


def machine_of(report: dict[str, Any]) -> str:
    """On what a report was measured, as a sentence.

    >>> machine_of({"machine": {"cores": 2, "cpu": "EPYC", "python": "3.11.7", "load": 1.5, "date": "2026-11-18"}})
    'On 2 cores (EPYC), Python 3.11.7; load 1.5 before the start; 2026-11-18.'
    """
    where = report["machine"]
    engine = f", Spark {where['spark']}" if where.get("spark") else ""
    date = f"; {where['date']}" if where.get("date") else ""
    return (
        f"On {where['cores']} cores ({where['cpu']}){engine}, Python {where['python']}; "
        f"load {where['load']:g} before the start{date}."
    )


def shown(value: float) -> str:
    """A figure with as many digits as say something.

    >>> shown(1234.5), shown(3.0), shown(0.76672)
    ('1,234', '3', '0.767')
    """
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def goals_of(report: dict[str, Any]) -> list[str]:
    """The lines of a table of goals."""
    lines = ["| goal | asked | measured | reached |", "|---|---|---|---|"]
    for goal in report["goals"]:
        met = "yes" if goal["ok"] else "**no**"
        lines.append(f"| {goal['name']} | {goal['goal']} | {shown(goal['measured'])} | {met} |")
    return lines


def standard(report: dict[str, Any], ours: str = "measured") -> str:
    """A line for each result, one for each goal, and the machine."""
    lines = [f"| | {ours} | rival | ratio |", "|---|---|---|---|"]
    for one in report["results"]:
        unit = "" if one["unit"] == "x" else f" {one['unit']}"
        rival = "" if one["rival"] is None else f"{shown(one['rival_value'])}{unit}, {one['rival']}"
        ratio = "" if one["ratio"] is None else f"{one['ratio']:.2f}x"
        lines.append(f"| {one['name']} | {shown(one['value'])}{unit} | {rival} | {ratio} |")
    return "\n".join([*lines, "", *goals_of(report), "", wrapped(machine_of(report))])


def write(page: Path, results: Path, written: Callable[[str, dict[str, Any]], str]) -> None:
    """Write what a results file says into a page."""
    report = json.loads(results.read_text(encoding="utf-8"))
    page.write_text(written(page.read_text(encoding="utf-8"), report), encoding="utf-8")
