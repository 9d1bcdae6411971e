"""Figures of policies and controllers in the documentation, from results files:
`python -m headgate_lab.bench.policy_pages`.

A file is what `headgate bench NAME --json` prints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from headgate_lab.bench.control import FORESEEING, KNOWING, MPC, SHOWN
from headgate_lab.bench.policies import DEFAULT, FIXED
from headgate_lab.bench.table_page import placed, write

Report = Mapping[str, Any]
RESULTS = Path("benchmarks/results")
CONTROL = re.compile(r"(\w+) [\d.]+/s, \d+ of (\d+)")


@dataclass(frozen=True)
class Part:
    """One table of one page."""

    name: str
    page: Path
    table: Callable[[Report], str]

    @property
    def results(self) -> Path:
        """The results file."""
        return RESULTS / f"{self.name}.json"

    @property
    def marks(self) -> tuple[str, str]:
        """Where the table begins and ends in the page."""
        return f"<!-- bench {self.name}: begin -->", f"<!-- bench {self.name}: end -->"

    def written(self, text: str, report: Report) -> str:
        """The page with the table in its place."""
        return placed(text, *self.marks, self.table(report))


def rows(heads: Sequence[str], cells: Iterator[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(line)} |" for line in (heads, *cells)]
    return "\n".join([lines[0], "|---" * len(heads) + "|", *lines[1:]])


def goals(report: Report) -> str:
    """What was asked for and what was measured, and on which machine."""
    cells = (
        [goal["name"], goal["goal"], f"{goal['measured']:.4g}", "yes" if goal["ok"] else "**no**"]
        for goal in report["goals"]
    )
    return rows(["goal", "asked for", "measured", "reached"], cells)


def values(report: Report) -> dict[str, float]:
    """The figures by name."""
    return {one["name"]: one["value"] for one in report["results"]}


def policies(report: Report) -> str:
    """The default policy beside each fixed one."""

    def cells() -> Iterator[Sequence[str]]:
        for one in report["results"]:
            name = one["name"].removesuffix(": time")
            spent = [fmean(one["samples"][f"{name}, {policy} (s)"]) for policy in (*FIXED, DEFAULT)]
            yield [name, *(f"{each:.1f}" for each in spent), f"{one['ratio']:.2f}"]

    return rows(["stream", *FIXED, DEFAULT, "over the best"], cells())


def skew(report: Report) -> str:
    """Balance of hot keys."""
    found = values(report)

    def cells() -> Iterator[Sequence[str]]:
        for one in report["results"]:
            what, _, name = one["name"].partition(": ")
            if what == "busiest over mean":
                yield [
                    name, f"{one['rival_value']:.2f}", f"{one['value']:.2f}", f"{found[f'at best: {name}']:.2f}",
                    f"{found[f'moved: {name}'] / 1e3:.0f} kB", f"{found[f'pins: {name}']:.0f}",
                    f"{found[f'planning: {name}']:.0f} ms",
                ]  # fmt: skip

    heads = ["stream", "static", "rebuild", "at best, keys whole", "moved", "pins", "the slowest plan"]
    return rows(heads, cells())


def default(report: Report) -> str:
    """What the default policy costs."""

    def cells() -> Iterator[Sequence[str]]:
        for one, goal in zip(report["results"], report["goals"], strict=True):
            name = one["name"].removeprefix("batch of ")
            times = [f"{one[key]:.0f} ms" for key in ("value", "rival_value")]
            asked = goal["goal"].replace("<=", "at most")
            yield [name, *times, f"{goal['measured']:.2f}x", asked, "yes" if goal["ok"] else "**no**"]

    return rows(["stage", "default", "static", "median ratio", "goal", "reached"], cells())


def forecast(report: Report) -> str:
    """Time over the oracle's by load and number of channels, what it took, and the goals."""
    found = values(report)
    groups: dict[tuple[str, str], list[str]] = {}
    for name in found:
        if name.endswith(": oracle, response"):
            setting = name.removesuffix(": oracle, response")
            match = CONTROL.fullmatch(setting)
            assert match is not None, setting
            groups.setdefault((match[1], match[2]), []).append(setting)

    def mean(settings: Sequence[str], policy: str, what: str, over: str = "") -> float:
        below = (found[f"{each}: {over}, {what}"] if over else 1.0 for each in settings)
        return fmean(found[f"{s}: {policy}, {what}"] / one for s, one in zip(settings, below, strict=True))

    def cells() -> Iterator[Sequence[str]]:
        for group, settings in groups.items():
            known = [n for n in (*MPC, KNOWING, FORESEEING) if f"{settings[0]}: {n}, response" in found]
            ratios = {name: f"{mean(settings, name, 'response', 'oracle'):.2f}" for name in known}
            took = (
                " / ".join(f"{mean(settings, each, what):{digits}}" for each in MPC)
                for what, digits in (("moved", ".0f"), ("adaptations", ".0f"), ("planning", ".1f"))
            )
            yield [", ".join(group), *(ratios.get(n, "") for n in (*MPC, KNOWING, FORESEEING)), *took]

    heads = ["load, channels", "no forecast", "`mpc`", "knowing the rates", "knowing the next ten batches"]
    heads += ["moved MB: none / `mpc`", "tables", "ms to plan"]
    return f"{rows(heads, cells())}\n\n{goals(report)}"


def drawn(report: Report) -> str:
    """Time over the oracle's on drawn loads, in the mean and at worst, and the goals."""
    found = values(report)
    loads = [name.removesuffix(": oracle, response") for name in found if name.endswith(": oracle, response")]
    names = [name for name in (*SHOWN[:-1], FORESEEING) if f"{loads[0]}: {name}, response" in found]

    def cells() -> Iterator[Sequence[str]]:
        for name in names:
            ratios = [
                found[f"{load}: {name}, response"] / found[f"{load}: oracle, response"] for load in loads
            ]
            yield [name, f"{fmean(ratios):.3f}", f"{max(ratios):.2f}"]

    heads = [f"{len(loads)} drawn loads", "time over the oracle's, mean", "at worst"]
    return f"{rows(heads, cells())}\n\n{goals(report)}"


def pipeline(report: Report) -> str:
    """One controller for both stages beside a controller each."""
    found = values(report)

    def cells() -> Iterator[Sequence[str]]:
        for one in report["results"]:
            if one["rival"]:
                policy, _, rest = one["name"].partition(", ")
                case, _, way = rest.rpartition(", ")
                times = [one["rival_value"], one["value"], found[f"{one['name']}: least possible"]]
                yield [policy, case, way, *(f"{each:.1f}" for each in times), f"{one['ratio']:.2f}"]

    heads = [
        "policy",
        "load",
        "the stages run",
        "a controller each",
        "one for both",
        "least possible",
        "ratio",
    ]
    return rows(heads, cells())


PERFORMANCE, PARTITIONING = Path("docs/research/performance.md"), Path("docs/research/partitioning.md")
CONTROL_PAGE = Path("docs/research/control.md")
PARTS = (
    Part("policies", PERFORMANCE, policies),
    Part("default", PERFORMANCE, default),
    Part("partitioning", PARTITIONING, goals),
    Part("control-forecast", CONTROL_PAGE, forecast),
    Part("control-drawn", CONTROL_PAGE, drawn),
    Part("pipeline", Path("docs/research/flux.md"), pipeline),
)


if __name__ == "__main__":
    for part in PARTS:
        write(part.page, part.results, part.written)
