"""What a benchmark reports: results beside their rivals, goals as they were set, and the machine.

The JSON is the shape that DESIGN fixes: `{"bench", "machine", "results", "goals"}`.
"""

from __future__ import annotations

import datetime
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from headgate.cli import pictures
from headgate.cli.versions import java, spark

Samples = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Result:
    """One measurement beside its rival's, if it has one. `ratio` is value over rival_value,
    whichever way is better.
    """

    name: str
    unit: str
    value: float
    rival: str | None
    rival_value: float | None
    samples: Samples

    @property
    def ratio(self) -> float | None:
        """Value over the rival's."""
        return self.value / self.rival_value if self.rival_value else None

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "name": self.name,
            "unit": self.unit,
            "value": round(self.value, 6),
            "rival": self.rival,
            "rival_value": None if self.rival_value is None else round(self.rival_value, 3),
            "ratio": None if self.ratio is None else round(self.ratio, 4),
            "samples": {name: [round(x, 6) for x in values] for name, values in self.samples.items()},
        }


@dataclass(frozen=True)
class Goal:
    """A goal as it was set: a figure is to be at least (`>=`) or at most (`<=`) so much."""

    name: str
    bound: float
    measured: float
    at_most: bool = False
    unit: str = "x"

    @property
    def ok(self) -> bool:
        """Whether it is met."""
        return self.measured <= self.bound if self.at_most else self.measured >= self.bound

    @property
    def goal(self) -> str:
        """The bound in words.

        >>> Goal("g", 3, 3.2).goal, Goal("g", 1.3, 1.2, at_most=True).goal
        ('>= 3x', '<= 1.3x')
        """
        return f"{'<=' if self.at_most else '>='} {self.bound:g}{self.unit}"

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"name": self.name, "goal": self.goal, "measured": round(self.measured, 6), "ok": self.ok}


@dataclass(frozen=True)
class Report:
    """The whole report of a benchmark."""

    bench: str
    results: tuple[Result, ...]
    goals: tuple[Goal, ...]
    machine: Mapping[str, Any] = field(default_factory=lambda: machine())
    quick: bool = False
    shown: RenderableType | None = None
    """A table for the terminal, where one line for each result would be hard to read."""
    picture: Figure | None = None

    def save_picture(self, folder: Path) -> None:
        """Write the picture, if there is one, as `bench-NAME.png`."""
        if self.picture is not None:
            pictures.save(self.picture, folder / f"bench-{self.bench}.png")

    def as_json(self) -> dict[str, Any]:
        """Plain data, in the shape of DESIGN."""
        return {
            "bench": self.bench,
            "machine": {**self.machine, "quick": self.quick},
            "results": [result.as_json() for result in self.results],
            "goals": [goal.as_json() for goal in self.goals],
        }

    def as_table(self) -> RenderableType:
        """The figures for a terminal."""
        results = Grid(title=f"bench {self.bench}{' (quick)' if self.quick else ''}", title_justify="left")
        results.add_column("measured", overflow="fold")
        for head in ("unit", "headgate", "rival's", "ratio"):
            results.add_column(head, justify="right", no_wrap=True)
        results.add_column("rival", overflow="fold")
        for result in self.results:
            results.add_row(
                result.name,
                result.unit,
                _number(result.value),
                "" if result.rival_value is None else _number(result.rival_value),
                "" if result.ratio is None else f"{result.ratio:.2f}x",
                result.rival or "",
            )
        goals = Grid(title="goals", title_justify="left")
        goals.add_column("goal", overflow="fold")
        for head in ("asked", "measured", "met"):
            goals.add_column(head, justify="right", no_wrap=True)
        for goal in self.goals:
            met = Text("yes", style="green") if goal.ok else Text("no", style="bold red")
            goals.add_row(goal.name, goal.goal, f"{goal.measured:.4g}{goal.unit}", met)
        samples = Grid(
            title="samples (ms a batch in steady state, if not said otherwise)", title_justify="left"
        )
        samples.add_column("of")
        samples.add_column("median", justify="right")
        samples.add_column("all", overflow="fold", style="dim")
        seen: dict[str, Sequence[float]] = {}
        for result in self.results:
            seen.update(result.samples)
        for name, values in seen.items():
            samples.add_row(name, _number(statistics.median(values)), " ".join(f"{x:.4g}" for x in values))
        where = ", ".join(f"{name} {value}" for name, value in self.machine.items())
        small = "small sizes: these figures say that it runs, not how fast" if self.quick else ""
        raw = samples if seen else None
        return Group(
            *(x for x in (self.shown or results, goals, raw, Text(where, style="dim"), Text(small)) if x)
        )


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def machine() -> dict[str, Any]:
    """What the figures were measured on. `load` is the machine's load before the start: above 0,
    other processes were running. `date` is the day, in UTC.
    """
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "spark": spark(),
        "java": java(),
        "load": round(os.getloadavg()[0], 2),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
