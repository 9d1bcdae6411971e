"""`headgate simulate`: a scenario under one or several policies, in the simulator. Needs no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table as Grid

from headgate import policies
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
class Run:
    """How the policies run. `paper`: as printed, every plan carried out, collection time not tuned."""

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
    scenario: str, options: Options, run: Run, plot: Path | None, progress: Tick
) -> dict[str, Result]:
    """Each policy's run, by its name; drawn into `plot`."""
    if scenario not in SCENARIOS:
        raise unknown("scenario", scenario, tuple(SCENARIOS))
    if plot is not None and plot.suffix.lower() not in PICTURES:
        raise ConfigError(f"--plot {plot}: name a file that ends in {', '.join(PICTURES)}")
    if plot is not None:
        required("matplotlib", "--plot")  # before the run, and not after it
    if run.journal is not None and set(run.policies) <= {"static"}:
        raise ConfigError("--journal: static has no rounds to write down; add another --policy")
    chosen = {name: _policy(name, run.paper) for name in dict.fromkeys(run.policies)}
    setup = SCENARIOS[scenario](options)
    found = {}
    for number, (name, policy) in enumerate(chosen.items()):
        lines: list[str] = []
        simulation = _simulation(setup, policy, options, run, lines if run.journal else None)

        def tell(part: float, number: int = number, name: str = name) -> None:
            progress(f"{name}: {part:.0%} of {options.seconds} s", (number + part) / len(chosen))

        found[name] = simulation.run(tell)
        if run.journal is not None and lines:
            path = run.journal if len(chosen) == 1 else run.journal.with_stem(f"{run.journal.stem}-{name}")
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if plot is not None:
        draw(scenario, found, plot)
    return found


def _policy(name: str, paper: bool) -> Policy:
    policy = policies.get(name)
    printed = getattr(policy, "paper", None)
    return policies.get(printed()) if paper and printed is not None else policy


def _simulation(
    setup: Setup, policy: Policy, options: Options, run: Run, lines: list[str] | None
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
    """Everything, second by second too."""
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


def as_table(scenario: str, options: Options, results: dict[str, Result]) -> Grid:
    """The runs for a terminal."""
    title = f"{scenario}: {about(scenario)} {options.nodes} nodes, {options.seconds} s, seed {options.seed}"
    grid = Grid(title=title, title_justify="left")
    grid.add_column("policy", no_wrap=True)
    for head in ("rows/s", "last 5 s", "of ideal", "latency ms", "last 5 s", "on disk", "moves", "MB moved",
                 "last move s", "time moving"):  # fmt: skip
        grid.add_column(head, justify="right", no_wrap=True)
    for name, result in results.items():
        one = row(name, result)
        grid.add_row(
            name,
            f"{one['rows_per_s']:,.0f}",
            f"{one['last_rows_per_s']:,.0f}",
            f"{one['of_ideal']:.2f}",
            f"{one['latency_ms']:,.2f}",
            f"{one['last_latency_ms']:,.2f}",
            str(one["bins_on_disk"]),
            str(one["moves"]),
            f"{one['moved_bytes'] / 1e6:,.1f}",
            f"{one['last_move_s']:.1f}" if one["moves"] else "",
            f"{one['moving_share']:.0%}",
        )
        if not one["all_rows_accounted_for"]:
            raise ConfigError(f"{name}: rows were lost or out of order in the simulator; please report this")
    return grid


def draw(scenario: str, results: dict[str, Result], path: Path) -> None:
    """Throughput and latency over time, a curve for each policy."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for name, result in results.items():
        at = np.arange(result.seconds) + 0.5
        left.plot(at, result.throughput, label=name, linewidth=1.4)
        right.plot(at, 1e3 * np.maximum(result.latency_s, 1e-6), label=name, linewidth=1.4)
    ideal = next(iter(results.values())).cluster.ideal_rate
    left.axhline(ideal, color="#8d8d8d", linestyle="--", linewidth=1, label="all nodes busy")
    left.set_ylim(bottom=0)
    right.set_yscale("log")
    right.set_ylim(0.01, max(10.0, right.get_ylim()[1]))
    for axis, label in ((left, "rows/s"), (right, "mean latency, ms")):
        axis.set_xlabel("s")
        axis.set_ylabel(label)
        axis.grid(visible=True, alpha=0.25, linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    left.legend(fontsize=8, frameon=False)
    figure.suptitle(f"{scenario}: {about(scenario)}", fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
