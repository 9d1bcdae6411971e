"""The figures redrawn as PNG: our curves, and the paper's values as white discs where its text gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from headgate.cli import pictures
from headgate_lab.papers.gedik.rows_cost import FIGURE_9_SIGMAS
from headgate_lab.papers.gedik.sweeps import ALL, COMBINATIONS, OURS, UTILITIES, Lab

COLOURS = {
    "consistent": pictures.GREY,
    "uniform": pictures.GOLD,
    "scan": pictures.GREEN,
    "redist": pictures.BLUE,
    "readj": pictures.RED,
}
MARKS = {"consistent": "s", "uniform": "D", "scan": "v", "redist": "o", "readj": "^"}


def new(columns: int, title: str, *, height: float = 3.4) -> tuple[Figure, Sequence[Any]]:
    """Return a figure with that many axes, in the house style."""
    rows = 2 if columns > 3 else 1
    figure = Figure(figsize=(4.4 * columns / rows, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(rows, columns // rows, squeeze=False).ravel())
    for axis in axes:
        pictures.plain(axis)
    figure.suptitle(title, fontsize=11)
    return figure, axes


def curves(
    axis: Any, x: Sequence[float], lines: Mapping[str, Sequence[float]], *, x_label: str, y_label: str
) -> None:
    """Draw one curve for each algorithm."""
    for name, y in lines.items():
        colour, mark = COLOURS.get(name), MARKS.get(name, "o")
        axis.plot(x, y, label=name, color=colour, marker=mark, markersize=4, linewidth=1.4)
    axis.set_xlabel(x_label)
    axis.set_ylabel(y_label)


def paper_mark(axis: Any, x: float, y: float, name: str) -> None:
    """Draw a value that the paper's text gives: a white disc with a ring in the colour of its algorithm."""
    axis.plot([x], [y], marker="o", markersize=7, markerfacecolor="white", markeredgewidth=2.0,
              markeredgecolor=COLOURS[name], linestyle="none", zorder=5)  # fmt: skip
    axis.plot([x], [y], marker="o", markersize=9.5, markerfacecolor="none", markeredgewidth=0.8,
              markeredgecolor=pictures.BLACK, linestyle="none", zorder=6)  # fmt: skip


def figure_3(lab: Lab) -> Figure:
    """Bars of b and m for the four combinations."""
    figure, axes = new(2, "Figure 3: resource functions (white discs: the paper, LLL)")
    for axis, what in zip(axes, ("b", "m"), strict=True):
        for i, a in enumerate(ALL):
            y = [getattr(lab.mean(a, r), what) for r in COMBINATIONS]
            axis.bar(np.arange(4) + (i - 2) * 0.16, y, 0.15, color=COLOURS[a], label=a)
        axis.set_xticks(range(4), COMBINATIONS)
        axis.set_ylabel("relative imbalance b" if what == "b" else "relative migration m")
        axis.axhline(1, color=pictures.BLACK, linewidth=0.8)
        axis.set_yscale("log")
    said = {"b": {"consistent": 1.75, "uniform": 1.55, "readj": 1.2, "redist": 1.32, "scan": 1.32},
            "m": {"readj": 1.34, "redist": 1.23, "scan": 1.23}}  # fmt: skip
    for axis, what in zip(axes, ("b", "m"), strict=True):
        for name, value in said[what].items():
            paper_mark(axis, 2 + (ALL.index(name) - 2) * 0.16, value, name)
    axes[0].legend(fontsize=7, frameon=False)
    return figure


def figure_4(lab: Lab) -> Figure:
    """Balance and migration against skew."""
    figure, axes = new(4, "Figure 4: skew (the line is the tolerated imbalance)")
    for axis, r in zip(axes, ("LCL", "LLL", "LQL"), strict=False):
        x = lab.quadratic_skews if r == "LQL" else lab.skews
        lines = {a: [lab.mean(a, r, skew=z).b for z in x] for a in ALL}
        curves(axis, x, lines, x_label=f"Zipf z ({r})", y_label="relative imbalance b")
        axis.axhline(1, color=pictures.BLACK, linewidth=0.8)
    lines = {a: [lab.mean(a, "LCL", skew=z).m for z in lab.skews] for a in ALL}
    curves(axes[3], lab.skews, lines, x_label="Zipf z (LCL)", y_label="relative migration m")
    axes[3].set_yscale("log")
    axes[0].legend(fontsize=7, frameon=False)
    return figure


def figure_5(lab: Lab) -> Figure:
    """Balance and migration against sigma."""
    figure, axes = new(4, "Figure 5: threshold scaler sigma")
    for row, r in enumerate(("LCL", "LQL")):
        for column, what in enumerate(("m", "b")):
            axis = axes[2 * row + column]
            x = lab.sigmas if r == "LCL" else lab.costly_sigmas
            lines = {
                a: [getattr(lab.mean(a, r, sigma=s, runs=lab.sigma_runs), what) for s in x] for a in OURS
            }
            curves(axis, x, lines, x_label=f"sigma ({r})", y_label=what)
            axis.set_xscale("log")
    axes[0].legend(fontsize=7, frameon=False)
    return figure


def figure_6(lab: Lab) -> Figure:
    """Balance and migration against channels."""
    figure, axes = new(2, "Figure 6: channels (white discs: the paper)")
    runs = 3 if lab.quick else 10
    for axis, what in zip(axes, ("m", "b"), strict=True):
        lines = {a: [getattr(lab.mean(a, channels=n, runs=runs), what) for n in lab.channels] for a in ALL}
        curves(axis, lab.channels, lines, x_label="channels N", y_label=what)
    axes[0].set_yscale("log")
    paper_mark(axes[0], 32, 22, "uniform")
    paper_mark(axes[0], 32, 1.15, "redist")
    paper_mark(axes[0], 32, 3, "scan")
    axes[0].legend(fontsize=7, frameon=False)
    return figure


def figure_7(lab: Lab) -> Figure:
    """Utility functions, readj and redist."""
    figure, axes = new(4, "Figure 7: utility functions")
    runs = min(lab.runs, 10)
    shades = (pictures.NAVY, pictures.BLUE, pictures.GREEN, pictures.GOLD, pictures.RED)
    for row, a in enumerate(("readj", "redist")):
        for column, what in enumerate(("m", "b")):
            axis = axes[2 * row + column]
            for i, u in enumerate(UTILITIES):
                y = [getattr(lab.mean(a, r, utility=u, runs=runs), what) for r in COMBINATIONS]
                axis.bar(np.arange(4) + (i - 2) * 0.16, y, 0.15, color=shades[i], label=u)
            axis.set_xticks(range(4), COMBINATIONS)
            axis.set_ylabel(f"{what} of {a}")
    axes[0].legend(fontsize=7, frameon=False)
    return figure


def figure_8(lab: Lab) -> Figure:
    """Balance and migration against domain size."""
    figure, axes = new(2, "Figure 8: domain size")
    runs = min(lab.runs, 10)
    for axis, what in zip(axes, ("b", "m"), strict=True):
        lines = {a: [getattr(lab.mean(a, domain=d, runs=runs), what) for d in lab.domains] for a in ALL}
        curves(axis, lab.domains, lines, x_label="keys", y_label=what)
        axis.set_xscale("log")
    axes[1].set_yscale("log")
    axes[0].legend(fontsize=7, frameon=False)
    return figure


def sizes(lab: Lab, title: str, x: Sequence[float], axis_name: str, label: str) -> Figure:
    """Counter entries and explicit map sizes against one parameter: Figures 9, 10 and 11."""
    figure, axes = new(2, title)
    for r, colour in (("LCL", pictures.BLUE), ("LQL", pictures.RED)):
        points = lab.quadratic_skews if axis_name == "skew" and r == "LQL" else x
        held = [lab.counter_entries(r, **{axis_name: p}) for p in points]  # type: ignore[arg-type]
        pins = [lab.pins(r, **{axis_name: p}) for p in points]  # type: ignore[arg-type]
        axes[0].plot(points, held, color=colour, marker="o", markersize=4, label=r)
        axes[1].plot(points, pins, color=colour, marker="o", markersize=4, label=r)
    axes[0].set_ylabel("lossy counter entries")
    axes[1].set_ylabel("explicit map entries")
    for axis in axes:
        axis.set_xlabel(label)
        if axis_name == "sigma":
            axis.set_xscale("log")
            axis.set_yscale("log")
    axes[0].legend(fontsize=7, frameon=False)
    return figure


def times(lab: Lab, title: str, x: Sequence[float], axis_name: str, label: str) -> Figure:
    """Building times against one parameter: Figures 12, 13 and 14."""
    figure, axes = new(1, title)
    lines = {
        a: [lab.build_seconds(a, **{axis_name: p}).build_seconds for p in x]  # type: ignore[arg-type]
        for a in OURS
    }
    curves(axes[0], x, lines, x_label=label, y_label="seconds (explicit part)")
    axes[0].set_yscale("log")
    if axis_name == "sigma":
        axes[0].set_xscale("log")
        paper_mark(axes[0], 0.008, 10, "readj")
        paper_mark(axes[0], 0.008, 0.5, "redist")
    axes[0].legend(fontsize=7, frameon=False)
    return figure


def _sigma_points(lab: Lab) -> tuple[float, ...]:
    return FIGURE_9_SIGMAS[4 if lab.quick else 0 :]


DRAW: Mapping[str, Callable[[Lab], Figure]] = {
    "fig3": figure_3,
    "fig4": figure_4,
    "fig5": figure_5,
    "fig6": figure_6,
    "fig7": figure_7,
    "fig8": figure_8,
    "fig9": lambda lab: sizes(lab, "Figure 9: size by sigma", _sigma_points(lab), "sigma", "sigma"),
    "fig10": lambda lab: sizes(lab, "Figure 10: size by skew", lab.skews, "skew", "Zipf z"),
    "fig11": lambda lab: sizes(lab, "Figure 11: size by channels", lab.channels, "channels", "channels N"),
    "fig12": lambda lab: times(lab, "Figure 12: time by sigma", _sigma_points(lab), "sigma", "sigma"),
    "fig13": lambda lab: times(lab, "Figure 13: time by channels", (4, 8, 16, 32), "channels", "channels N"),
    "fig14": lambda lab: times(lab, "Figure 14: time by skew", (0.2, 0.5, 0.8, 0.9, 1.0), "skew", "Zipf z"),
}


def draw(figure: str, lab: Lab, out: Path) -> Path | None:
    """Draw one figure into a folder; None if there is nothing to draw."""
    if figure not in DRAW:
        return None
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"gedik-{figure}.png"
    pictures.save(DRAW[figure](lab), path)
    return path
