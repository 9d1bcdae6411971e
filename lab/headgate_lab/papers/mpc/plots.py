"""Figures 1 and 2 redrawn as PNG."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from headgate.cli import pictures
from headgate_lab.papers.gedik.plots import new
from headgate_lab.papers.mpc.lab import Lab, mean_s
from headgate_lab.papers.mpc.load import STEP_S
from headgate_lab.papers.mpc.rows import example, panel, smooth

COLOURS = {"static": pictures.GREY, "lqr": pictures.GOLD, "mpc": pictures.BLUE, "ours": pictures.RED}
NAMES = {
    "static": "static",
    "lqr": "LQR, tuned once",
    "mpc": "MPC of the paper",
    "ours": "ours: in seconds, with forecast",
}
MACHINES = (pictures.BLUE, pictures.RED, pictures.GREEN)


def figure_1(lab: Lab) -> Figure:
    """Load, shares and completion times of three machines."""
    figure, axes = new(
        3, "Figure 1: three machines under cyclic Poisson load (MPC of the paper, R=10; over a second)"
    )
    outcome = lab.mpc(example(), weight=10.0, gate=None)[0]
    load = outcome.unit_s * lab.query.tuples_per_s / lab.query.tuples - 1
    for axis, values, label in zip(
        axes,
        (load, outcome.shares, outcome.unit_s * outcome.shares),
        ("external jobs", "share", "expected completion time, s"),
        strict=True,
    ):
        drawn = values if label == "share" else smooth(values)
        seconds = np.arange(len(drawn)) * STEP_S
        for machine, colour in enumerate(MACHINES):
            axis.plot(seconds, drawn[:, machine], color=colour, linewidth=1.1, label=f"machine {machine}")
        axis.set_xlabel("seconds")
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
    axes[0].legend(fontsize=7, frameon=False)
    return figure


def figure_2(lab: Lab) -> Figure:
    """Response times of the four controllers in three settings."""
    figure, axes = new(3, "Figure 2: response time of the query")
    for axis, kind in zip(axes, ("poisson", "cyclic"), strict=False):
        _lines(
            axis, lab.rates, panel(lab, kind, tuple(NAMES)), f"external jobs/s on 1 of 3 machines ({kind})"
        )
    right = lab.right()
    rows: dict[str, list[float]] = {
        "static": [mean_s(lab.static(scenario)) for scenario in right],
        "lqr": [mean_s(lab.fixed_lqr(scenario)[1]) for scenario in right],
        "mpc": [mean_s(lab.mpc(scenario)) for scenario in right],
        "ours": [mean_s(lab.ours(scenario)) for scenario in right],
    }
    _lines(axes[2], lab.perturbed, rows, "perturbed of 6 machines (poisson, 3 jobs/s)")
    axes[0].legend(fontsize=7, frameon=False)
    return figure


def _lines(axis: Any, x: tuple[int, ...], rows: Mapping[str, list[float]], label: str) -> None:
    for name, y in rows.items():
        axis.plot(x, y, color=COLOURS[name], label=NAMES[name], marker="o", markersize=4, linewidth=1.4)
    axis.set_xlabel(label)
    axis.set_ylabel("seconds")
    axis.set_ylim(bottom=0)


_DRAWN: Mapping[str, Callable[[Lab], Figure]] = {"fig1": figure_1, "fig2": figure_2}


def draw(name: str, lab: Lab, folder: Path) -> None:
    """Draw a figure, if it has a picture."""
    if name in _DRAWN:
        pictures.save(_DRAWN[name](lab), folder / f"mpc-{name}.png")
