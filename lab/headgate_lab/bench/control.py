"""Controllers on one modelled stage: static, Flux's load policy, LQR, MPC, and an oracle that knows
the loads to come.

Loads: Poisson, cyclic Poisson, a step and a drift, on one, half and all of 3 to 128 channels; then
loads drawn by number (`control_loads`), to which nothing was tuned, from `--seed` on; each repetition draws
more. `--only` takes `paper`, `drawn`, `forecast`: MPC alone on the loads of the paper, one seed each, and
`tried`: ideas that were not kept (`control_tried`).

The LQR has the weight that is best in each row; `mpc squares` is the paper's cost with R from what a move
takes; `mpc` assumes that speeds last, `mpc forecast`, the default, learns to predict them. Two more know
what nobody can know (`control_known`): the rates of the jobs of the paper's random loads, and the loads of
the next ten batches. Response time is the sum of the batches' times, moves included. No Spark: `bench
rebalance` has that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from rich.console import Group
from rich.text import Text

from headgate.cli import pictures
from headgate.cli.console import Tick, numbers_grid, unknown
from headgate.policies import FluxLoad, Lqr, Mpc, Policy, Static
from headgate_lab.bench import control_tried
from headgate_lab.bench.control_known import foreseeing, knowing
from headgate_lab.bench.control_loads import Drawn, drawn
from headgate_lab.bench.control_stage import Run, Setting, drive, oracle
from headgate_lab.bench.result import Goal, Report, Result, machine
from headgate_lab.papers.gedik.plots import new
from headgate_lab.papers.mpc.load import KINDS

WEIGHTS = (0.1, 1.0, 10.0)
POLICIES: Mapping[str, Policy] = {
    "static": Static(),
    "flux-load": FluxLoad(),
    **{f"lqr {weight:g}": Lqr(weight) for weight in WEIGHTS},
    "mpc squares": Mpc("quadratic", forecast=False),
    "mpc": Mpc(forecast=False),
    "mpc forecast": Mpc(forecast=True),
}
AS_IT_COMES = "mpc forecast" if Mpc().forecast else "mpc"
MPC = ("mpc", "mpc forecast")
RATE = 3.0
KNOWING = "mpc knowing the rates"
FORESEEING = "mpc knowing the next ten batches"
PARTS = ("paper", "drawn", "forecast", "tried")
DRAWN, DRAWN_QUICK = 40, 4
"""How many loads are drawn in each repetition."""
WORSE = 1.01
"""What counts as longer than without a forecast: less is a matter of chance."""
COLOURS = {
    "static": pictures.GREY,
    "flux-load": pictures.GREEN,
    "lqr": pictures.GOLD,
    "mpc squares": pictures.VIOLET,
    "mpc": pictures.BLUE,
    "mpc forecast": pictures.RED,
}
SHOWN = ("static", "flux-load", "lqr", "mpc squares", "mpc", "mpc forecast", "oracle")


@dataclass(frozen=True)
class Row:
    """One setting: the runs of each policy, one for each seed; `lqr` is the best of its weights."""

    setting: Setting
    runs: Mapping[str, Sequence[Run]]

    def seconds(self, policy: str) -> float:
        """The mean response time."""
        return float(np.mean([run.seconds for run in self.runs[policy]]))

    def moved_mb(self, policy: str) -> float:
        """The mean of what was moved."""
        return float(np.mean([run.moved_mb for run in self.runs[policy]]))

    def adaptations(self, policy: str) -> float:
        """The mean number of new tables."""
        return float(np.mean([run.adaptations for run in self.runs[policy]]))

    def planning_ms(self, policy: str) -> float:
        """The median time of a decision, in ms of the processor."""
        spent = [ms for run in self.runs[policy] for ms in run.planning_ms]
        return float(np.median(spent)) if spent else 0.0


def draws(*, quick: bool, repeat: int, first: int = 0) -> list[tuple[Setting, int]]:
    """The loads that are drawn, the first with this number, each with its number of seeds."""
    return [(drawn(first + number), 1) for number in range(repeat * (DRAWN_QUICK if quick else DRAWN))]


def settings(*, quick: bool) -> list[tuple[Setting, int]]:
    """The settings to measure, each with its number of seeds."""
    if quick:
        sizes: Sequence[tuple[int, int, int, int]] = ((3, 60, 16, 1), (6, 60, 16, 1))
        rates: tuple[int, ...] = (6,)
    else:
        sizes = ((3, 150, 32, 3), (6, 150, 32, 3), (32, 100, 16, 1), (128, 60, 8, 1))
        rates = (1, 2, 4, 5, 6)
    rows = [
        (Setting(kind, size, number, RATE, batches, bins), seeds)
        for size, batches, bins, seeds in sizes
        for kind in KINDS
        for number in (1, (size + 1) // 2, size)
    ]
    size, batches, bins, seeds = sizes[0]
    return rows + [(Setting("cyclic", size, 1, float(rate), batches, bins), seeds) for rate in rates]


def run_row(setting: Setting, seeds: int, names: Sequence[str] = tuple(POLICIES)) -> Row:
    """All policies in one setting, or those named."""
    runs: dict[str, Sequence[Run]] = {
        name: [drive(setting, POLICIES[name], seed) for seed in range(seeds)] for name in names
    }
    tried = [runs.pop(name) for name in names if name.startswith("lqr")]
    if tried:
        runs["lqr"] = min(tried, key=lambda runs_of_weight: sum(each.seconds for each in runs_of_weight))
    runs["oracle"] = [oracle(setting, seed) for seed in range(seeds)]
    if setting.kind in ("poisson", "cyclic"):
        runs[KNOWING] = [drive(setting, knowing(setting, seed), seed) for seed in range(seeds)]
    runs[FORESEEING] = [drive(setting, foreseeing(setting, seed), seed) for seed in range(seeds)]
    return Row(setting, runs)


def measure(
    *, quick: bool, repeat: int, progress: Tick, only: Sequence[str] = (), seed: int = 0
) -> list[Row]:
    """Every row of the table, or of some of its parts."""
    every = tuple(POLICIES)
    wanted: list[tuple[Setting, int, Sequence[str]]] = []
    if not only or "paper" in only:
        wanted += [(one, seeds, every) for one, seeds in settings(quick=quick)]
    if not only or "drawn" in only:
        wanted += [(one, seeds, every) for one, seeds in draws(quick=quick, repeat=repeat, first=seed)]
    if "forecast" in only:
        wanted += [(one, 1, MPC) for one, _ in settings(quick=quick) if one.rate == RATE]
    rows = []
    for number, (setting, seeds, names) in enumerate(wanted):
        progress(f"{setting.channels} channels: {setting.name}", number / len(wanted))
        rows.append(run_row(setting, seeds, names))
    return rows


def goals(rows: Sequence[Row]) -> tuple[Goal, ...]:
    """The goals for the policy with its defaults, and for planning with 6 and 128 channels
    where these were measured.
    """
    fresh = [row for row in rows if isinstance(row.setting, Drawn)]
    rows = [row for row in rows if row not in fresh]
    asked: list[Goal] = []
    if rows:
        asked += _paper_goals(rows)
    if fresh:
        saved = [1 - row.seconds(AS_IT_COMES) / row.seconds("lqr") for row in fresh]
        above = [row.seconds(AS_IT_COMES) / row.seconds("oracle") for row in fresh]
        worst = max(row.seconds(AS_IT_COMES) / row.seconds("static") for row in fresh)
        asked += [
            Goal("drawn loads: time saved over the best LQR, mean", 0.10, float(np.mean(saved)), unit=""),
            Goal("drawn loads: worst row, time over static", 1.02, worst, at_most=True),
            Goal("drawn loads: time over the oracle, mean", 1.15, float(np.mean(above)), at_most=True),
        ]
    for name, some in (("rows", rows), ("drawn loads", fresh)):
        worse = [row for row in some if row.seconds("mpc forecast") > WORSE * row.seconds("mpc")]
        if some:
            asked.append(
                Goal(f"{name} that the forecast makes slower by 1%", 0, len(worse), at_most=True, unit="")
            )
    for channels, bound in ((6, 2.0), (128, 50.0)):
        spent = [row.planning_ms(AS_IT_COMES) for row in rows if row.setting.channels == channels]
        if spent:
            name = f"planning with {channels} channels, slowest row's median"
            asked.append(Goal(name, bound, max(spent), at_most=True, unit=" ms"))
    return tuple(asked)


def _paper_goals(rows: Sequence[Row]) -> list[Goal]:
    """The goals for the loads of the paper."""
    cyclic = [
        r for r in rows if r.setting.kind == "cyclic" and (r.setting.channels, r.setting.perturbed) == (3, 1)
    ]
    ideal = float(np.mean([row.seconds(AS_IT_COMES) / row.seconds("oracle") for row in rows]))
    if any("lqr" not in row.runs for row in rows):
        return [Goal("time over the oracle, mean over all rows", 1.15, ideal, at_most=True)]
    better = [1 - row.seconds(AS_IT_COMES) / row.seconds("lqr") for row in cyclic]
    worst = max(row.seconds(AS_IT_COMES) / row.seconds("static") for row in rows)
    return [
        Goal(
            "time saved over the best LQR, cyclic, mean over the rates", 0.10, float(np.mean(better)), unit=""
        ),
        Goal("worst row, time over static", 1.02, worst, at_most=True),
        Goal("time over the oracle, mean over all rows", 1.15, ideal, at_most=True),
    ]


def results(rows: Sequence[Row]) -> tuple[Result, ...]:
    """Every number of the table, beside static's."""
    measured = []
    for row in rows:
        rival = "static" if "static" in row.runs else "oracle"
        for name in (name for name in SHOWN if name in row.runs):
            what = f"{row.setting.name}: {name}"
            measured.append(
                Result(f"{what}, response", "s", row.seconds(name), rival, row.seconds(rival), {})
            )
            if name == "static":
                continue
            measured.append(Result(f"{what}, moved", "MB", row.moved_mb(name), None, None, {}))
            measured.append(Result(f"{what}, adaptations", "tables", row.adaptations(name), None, None, {}))
            if name != "oracle":
                measured.append(Result(f"{what}, planning", "ms", row.planning_ms(name), None, None, {}))
        for name in (KNOWING, FORESEEING):
            if name in row.runs:
                what = f"{row.setting.name}: {name}, response"
                measured.append(Result(what, "s", row.seconds(name), rival, row.seconds(rival), {}))
    return tuple(measured)


def as_grid(rows: Sequence[Row]) -> Group:
    """The tables for a terminal: response times, then what it took; the least of those that don't
    know the future is bold.
    """
    heads = ("load", *(name.replace(" ", "\n") for name in SHOWN))
    grid = numbers_grid("bench control: response time, s (LQR at its best weight in each row)", heads)
    spent = numbers_grid(
        "what it took: lqr / mpc / mpc with a forecast", ("load", "moved MB", "tables", "plan ms")
    )
    for each in (grid, spent):
        each.columns[0].justify = "left"
    for row in rows:
        least = min(row.seconds(name) for name in SHOWN if name != "oracle" and name in row.runs)
        cells = [
            Text(f"{row.seconds(n):.1f}", style="bold" if row.seconds(n) == least else "")
            if n in row.runs
            else Text("")
            for n in SHOWN
        ]
        compared = [name for name in ("lqr", *MPC) if name in row.runs]
        took = (
            " / ".join(f"{of(name):{digits}}" for name in compared)
            for of, digits in ((row.moved_mb, ".0f"), (row.adaptations, ".0f"), (row.planning_ms, ".1f"))
        )
        grid.add_row(row.setting.name, *cells)
        spent.add_row(row.setting.name, *took)
    return Group(grid, "", spent)


def picture(rows: Sequence[Row]) -> Figure:
    """Response time over the oracle's, a panel for each load."""
    figure, axes = new(
        4, "bench control: response time over an oracle's that knows the loads to come", height=3.0
    )
    for axis, kind in zip(axes, KINDS, strict=True):
        mine = [row for row in rows if row.setting.kind == kind and row.setting.rate == RATE]
        for name, colour in COLOURS.items():
            if not all(name in row.runs for row in mine):
                continue
            axis.plot(
                range(len(mine)),
                [row.seconds(name) / row.seconds("oracle") for row in mine],
                color=colour, label=name, marker="o", markersize=3.5, linewidth=1.0,
            )  # fmt: skip
        axis.set_title(kind, fontsize=9)
        axis.set_yscale("log")
        ticks = (1, 1.2, 1.5, 2, 3, 4)
        axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
        labels = [f"{row.setting.perturbed} of {row.setting.channels}" for row in mine]
        axis.set_xticks(range(len(mine)), labels, rotation=60, fontsize=7)
        axis.set_ylabel("times the oracle's")
    figure.legend(
        *axes[0].get_legend_handles_labels(), fontsize=8, frameon=False, ncols=6, loc="outside lower center"
    )
    return figure


def run(*, quick: bool, repeat: int, progress: Tick, only: Sequence[str] = (), seed: int = 0) -> Report:
    """Measure and judge all loads, or `only` some. `seed` is the number of the first drawn load, and repeating
    draws more: everything but the planning times is modelled.
    """
    for part in only:
        if part not in PARTS:
            raise unknown("part of bench control", part, PARTS)
    where = machine()
    rows = measure(quick=quick, repeat=repeat, progress=progress, only=only, seed=seed)
    tried = control_tried.measured(quick=quick, progress=progress) if "tried" in only else ()
    return Report(
        "control",
        (*results(rows), *tried),
        goals(rows),
        machine=where,
        quick=quick,
        shown=as_grid(rows) if rows else None,
        picture=picture(rows) if rows else None,
    )
