"""`headgate simulate`: a scenario under one or several policies, in the simulator. Needs no Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table as Grid

from headgate import policies
from headgate.cli import pictures
from headgate.cli.console import Tick, unknown
from headgate.control import journal
from headgate.control.guard import Guard
from headgate.control.policy import Policy
from headgate.errors import ConfigError, required
from headgate.simulator.run import EAGER, Result, Simulation
from headgate.simulator.scenarios import SCENARIOS, Options, Setup, about

OURS_DELTA_MS, PAPER_DELTA_MS = 200.0, 10.0
PICTURES = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class RunOptions:
    """How the policies run. With `paper` they run as printed: every plan is carried out,
    `delta_ms` is not tuned.
    """

    policies: Sequence[str]
    paper: bool = False
    delta_ms: float | None = None
    gap_ms: float | None = None
    journal: Path | None = None


def listing() -> Grid:
    """The scenarios for a terminal."""
    grid = Grid(title="scenarios", title_justify="left", show_header=False)
    for name in SCENARIOS:
        grid.add_row(name, about(name))
    return grid


def simulate(
    scenario: str, options: Options, run: RunOptions, plot: Path | None, progress: Tick
) -> dict[str, Result]:
    """Run every policy; return the results by name, and draw them into `plot`."""
    if scenario not in SCENARIOS:
        raise unknown("scenario", scenario, tuple(SCENARIOS))
    if plot is not None and plot.suffix.lower() not in PICTURES:
        raise ConfigError(f"--plot {plot}: name a file that ends in {', '.join(PICTURES)}")
    if plot is not None:
        required("matplotlib", "--plot")  # before the run, and not after it
    if run.journal is not None and set(run.policies) <= {"static"}:
        raise ConfigError("--journal: static has no rounds to record; add another --policy")
    chosen = {name: _policy(name, run.paper) for name in dict.fromkeys(run.policies)}
    setup = SCENARIOS[scenario](options)
    results = {}
    for number, (name, policy) in enumerate(chosen.items()):
        lines: list[str] = []
        simulation = _simulation(setup, policy, options, run, lines if run.journal else None)

        def tell(part: float, number: int = number, name: str = name) -> None:
            progress(f"{name}: {part:.0%} of {options.seconds} s", (number + part) / len(chosen))

        results[name] = simulation.run(tell)
        if run.journal is not None and lines:
            path = run.journal if len(chosen) == 1 else run.journal.with_stem(f"{run.journal.stem}-{name}")
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if plot is not None:
        draw(scenario, results, plot)
    return results


def _policy(name: str, paper: bool) -> Policy:
    policy = policies.get(name)
    return policy.as_printed() if paper else policy


def _simulation(
    setup: Setup, policy: Policy, options: Options, run: RunOptions, lines: list[str] | None
) -> Simulation:
    delta_ms = run.delta_ms or (PAPER_DELTA_MS if run.paper else OURS_DELTA_MS)
    return Simulation(
        setup.cluster,
        policy,
        setup.shares,
        seconds=options.seconds,
        seed=options.seed,
        events=setup.events,
        table=setup.table,
        guard=EAGER if run.paper else Guard(),
        tuned=not run.paper and run.delta_ms is None,
        delta_min_s=delta_ms / 1e3,
        gap_s=None if run.gap_ms is None else run.gap_ms / 1e3,
        record=None if lines is None else lambda r, d: lines.append(journal.encode(r, d)),
    )


def row(name: str, result: Result) -> dict[str, Any]:
    """One policy's run as plain data."""
    last = max(result.seconds - 5, 0)
    return {
        "policy": name,
        "rows_per_s": result.mean(0),
        "last_rows_per_s": result.mean(last),
        "of_ideal": result.mean(last) / result.cluster.ideal_rate,
        "latency_ms": 1e3 * result.mean_latency(0),
        "last_latency_ms": 1e3 * result.mean_latency(last),
        "bins_on_disk": int(result.on_disk[-1].sum()),
        "moves": result.moves,
        "moved_bytes": result.moved_bytes,
        "last_move_s": result.last_move_s,
        "moving_share": result.moving_share,
        "all_rows_accounted_for": result.accounted,
    }


def as_json(scenario: str, options: Options, results: dict[str, Result]) -> dict[str, Any]:
    """All results, with the series by second."""
    return {
        "scenario": scenario,
        "options": asdict(options),
        "results": [
            {
                **row(name, result),
                "throughput": result.throughput.tolist(),
                "latency_by_second_ms": (1e3 * result.latency_s).tolist(),
                "on_disk_by_second": result.on_disk.sum(axis=1).tolist(),
            }
            for name, result in results.items()
        ],
    }


FIGURES: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
    ("rows/s", lambda run: f"{run['rows_per_s']:,.0f}"),
    ("  last 5 s", lambda run: f"{run['last_rows_per_s']:,.0f}"),
    ("  of ideal, last 5 s", lambda run: f"{run['of_ideal']:.2f}"),
    ("latency, ms", lambda run: f"{run['latency_ms']:,.2f}"),
    ("  last 5 s", lambda run: f"{run['last_latency_ms']:,.2f}"),
    ("bins on disk", lambda run: f"{run['bins_on_disk']}"),
    ("moves", lambda run: f"{run['moves']}"),
    ("  MB moved", lambda run: f"{run['moved_bytes'] / 1e6:,.1f}"),
    ("  last move at, s", lambda run: f"{run['last_move_s']:.1f}" if run["moves"] else ""),
    ("  time moving", lambda run: f"{run['moving_share']:.0%}"),
)
SIDE_BY_SIDE = 4
"""Policies in one table, so that it fits into 80 columns."""


def as_table(scenario: str, options: Options, results: dict[str, Result], *, wide: bool = False) -> Group:
    """The runs for a terminal: a row for each figure, a column for each policy; with `wide`, all
    policies in one table.
    """
    title = f"{scenario}: {about(scenario)} {options.nodes} nodes, {options.seconds} s, seed {options.seed}"
    runs = []
    for name, result in results.items():
        if not result.accounted:
            raise ConfigError(f"{name}: rows were lost or out of order in the simulator; please report this")
        runs.append(row(name, result))
    parts: list[RenderableType] = [title]
    abreast = max(1, len(runs)) if wide else SIDE_BY_SIDE
    for first in range(0, len(runs), abreast):
        beside = runs[first : first + abreast]
        grid = Grid("", box=box.ROUNDED)
        for run in beside:
            grid.add_column(run["policy"], justify="right", overflow="fold")
        for label, cell in FIGURES:
            grid.add_row(label, *map(cell, beside))
        parts.append(grid)
    return Group(*parts)


def draw(scenario: str, results: dict[str, Result], path: Path) -> None:
    """Throughput and latency over time, a curve for each policy."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for name, colour in pictures.colours(list(results)).items():
        result = results[name]
        at = np.arange(result.seconds) + 0.5
        style = {"label": name, "color": colour, "linewidth": 1.4}
        left.plot(at, result.throughput, **style)
        right.plot(at, 1e3 * np.maximum(result.latency_s, 1e-6), **style)
    ideal = next(iter(results.values())).cluster.ideal_rate
    left.axhline(ideal, color=pictures.GREY, linestyle="--", linewidth=1, label="all nodes busy")
    left.set_ylim(bottom=0)
    right.set_yscale("log")
    right.set_ylim(min(0.01, right.get_ylim()[0]), max(10.0, right.get_ylim()[1]))
    for axis, label in ((left, "rows/s"), (right, "mean latency, ms")):
        axis.set_xlabel("s")
        axis.set_ylabel(label)
        pictures.plain(axis)
    left.legend(fontsize=8, frameon=False)
    figure.suptitle(f"{scenario}: {about(scenario)}", fontsize=10)
    pictures.save(figure, path, dpi=130)
