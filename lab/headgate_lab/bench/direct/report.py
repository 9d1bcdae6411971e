"""What the bench of direct streams reports: results, goals, a table and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.table import Table as Grid

from headgate.cli import pictures
from headgate.cli.console import numbers_grid
from headgate_lab.bench.direct.parts import FIRST, Plan, Same, state_name, task_name
from headgate_lab.bench.direct.picture import picture
from headgate_lab.bench.direct.works import DIRECT, STAGE, Sizes, Work, native_way
from headgate_lab.bench.result import Goal, Report, Result
from headgate_lab.bench.rounds import Times, median


class DirectReport(Report):
    """A report whose picture is `direct-speed`, as PNG and as SVG."""

    def save_picture(self, folder: Path) -> None:
        if self.picture is not None:
            folder.mkdir(parents=True, exist_ok=True)
            pictures.save(self.picture, folder / "direct-speed.png")
            pictures.save(self.picture, folder / "direct-speed.svg")


@dataclass(frozen=True)
class Found:
    """The results and goals of a part."""

    results: tuple[Result, ...]
    goals: tuple[Goal, ...]


def found(plan: Plan, times: Times, same: Mapping[str, Same], sizes: Sizes) -> Found:
    """Results and goals of a part from its steady times."""
    if plan.part == "first":
        return _first(times, sizes)
    if plan.part == "state":
        return _state(times, sizes)
    results: list[Result] = []
    goals: list[Goal] = []
    for one in plan.works:
        mine, beside = _results(one, times)
        results += beside
        goals += _goals(one, mine, beside, same[one.name])
    return Found(tuple(results), tuple(goals))


def _value(one: Work, way: str, times: Times) -> float:
    """A way's figure in the unit of its work."""
    took = median(times[task_name(one.name, way)])
    rows = one.twin.rows if one.twin is not None and one.slow and way in one.native else one.rows
    return 1e3 * rows / took if one.unit == "rows/s" else took


def _results(one: Work, times: Times) -> tuple[float, list[Result]]:
    """The direct way's figure, and results beside native on its faster store and beside `foreachBatch`."""
    mine = _value(one, DIRECT, times)
    best = max if one.unit == "rows/s" else min
    ran = [way for way in one.native if times[task_name(one.name, way)]]
    rivals = [best(ran, key=lambda way: _value(one, way, times))] if ran else []
    found = []
    for rival in (*rivals, STAGE):
        shown = (DIRECT, *(ran if rival in ran else [rival]))
        samples = {task_name(one.name, way): times[task_name(one.name, way)] for way in shown}
        found.append(Result(one.title, one.unit, mine, rival, _value(one, rival, times), samples))
    return mine, found


def _goals(one: Work, mine: float, beside: Sequence[Result], same: Same) -> list[Goal]:
    goals = []
    native = next((result.ratio for result in beside if result.rival != STAGE), None)
    if one.faster is not None and native is not None:
        goals.append(Goal(f"{one.title}: rows/s over native's", one.faster, native))
    if one.time is not None and native is not None:
        goals.append(Goal(f"{one.title}: median trigger over native's", one.time, native, at_most=True))
    if one.rate is not None:
        goals.append(Goal(f"{one.title}: rows/s", one.rate, mine, unit=""))
    for way, rows in same.differing.items():
        name = f"{one.title}: of {same.rows:,} answers, rows in which {way} and native differ"
        goals.append(Goal(name, 0, rows, at_most=True, unit=""))
    return goals


def _first(times: Times, sizes: Sizes) -> Found:
    results, goals = [], []
    for operator in sizes.first_of:
        seconds = {
            way: [1e-3 * ms for ms in times[name]]
            for way in (DIRECT, native_way("hdfs"), STAGE)
            if (name := task_name(f"first {operator}", way)) in times
        }
        name = f"first batch of {sizes.first_rows:,} rows, {FIRST[operator]}"
        mine = median(seconds[DIRECT])
        for rival in list(seconds)[1:]:
            samples = {f"first {operator}, {way} (s)": seconds[way] for way in (DIRECT, rival)}
            results.append(Result(name, "s", mine, rival, median(seconds[rival]), samples))
        goals.append(Goal(name, 5.0, mine, at_most=True, unit=" s"))
    return Found(tuple(results), tuple(goals))


def _state(times: Times, sizes: Sizes) -> Found:
    turns = range(sizes.state_turns)
    many, few = (
        [ms for turn in turns for ms in times[state_name(keys, turn)]]
        for keys in (sizes.many_keys, sizes.few_keys)
    )
    value, rival = median(many), median(few)
    title = f"batch of {sizes.state_rows:,} rows beside {sizes.many_keys:,} untouched keys"
    names = [f"direct, {keys:,} untouched keys" for keys in (sizes.many_keys, sizes.few_keys)]
    samples = dict(zip(names, (many, few), strict=True))
    goal = f"{title}: time over that beside {sizes.few_keys:,}"
    return Found(
        (Result(title, "ms", value, names[1], rival, samples),),
        (Goal(goal, 1.2, value / rival, at_most=True),),
    )


def reported(founds: Sequence[Found], where: Mapping[str, Any], *, quick: bool) -> Report:
    """One report of several parts."""
    results = tuple(result for one in founds for result in one.results)
    goals = tuple(goal for one in founds for goal in one.goals)
    shown: Figure = picture(results)
    table = grid(results, quick=quick)
    return DirectReport("direct", results, goals, machine=where, quick=quick, shown=table, picture=shown)


def grid(results: Sequence[Result], *, quick: bool = False) -> Grid:
    """A line for each work with all three ways, and the direct way's figure over each of the others."""
    said = "rival: native on the faster of its state stores, or what the name says; the samples have all"
    title = f"bench direct{' (quick)' if quick else ''}"
    table = numbers_grid(title, ("", DIRECT, STAGE, "ratio", "rival's", "ratio"), caption=said)
    table.columns[0].justify = "left"
    by_name: dict[str, list[Result]] = {}
    for result in results:
        by_name.setdefault(result.name, []).append(result)
    for name, beside in by_name.items():
        stage = next((one for one in beside if one.rival == STAGE), None)
        other = next((one for one in beside if one.rival != STAGE), None)
        cells = []
        for one in (stage, other):
            ratio = f"{one.ratio:.2f}x" if one is not None and one.ratio else ""
            cells += [_number(one.rival_value) if one is not None else "", ratio]
        table.add_row(f"{name} ({beside[0].unit})", _number(beside[0].value), *cells)
    return table


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
