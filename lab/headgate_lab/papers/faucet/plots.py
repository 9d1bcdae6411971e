"""Figures 4 and 5 redrawn as PNG, from the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from headgate.cli import pictures
from headgate_lab.papers.faucet.lab import SHARE, Lab
from headgate_lab.papers.faucet.rows import growth, peaks, times
from headgate_lab.papers.gedik.plots import new

COLOURS = (pictures.GREY, pictures.GREEN, pictures.BLUE, pictures.RED)


def figure_4(lab: Lab) -> Figure:
    """Time and peak memory against the size of a batch."""
    figure, (left, right) = new(2, "Figure 4: size of a batch, 4 in flight (model)")
    for workers, colour in zip(lab.workers, COLOURS, strict=False):
        seconds = times(lab, workers)
        label = f"{workers} workers"
        how = {"color": colour, "marker": "o", "markersize": 4, "linewidth": 1.4, "label": label}
        left.plot(lab.shares, np.array(seconds) / min(seconds), **how)
        right.plot(lab.shares, peaks(lab, workers), **how)
    left.axvline(SHARE, color=pictures.INK, linewidth=0.9, linestyle=":")
    left.annotate("paper's threshold", (SHARE, 1), xytext=(4, 60), textcoords="offset points", fontsize=7)
    for axis in (left, right):
        axis.set_xscale("log")
        axis.set_xlabel("rows of a batch for each worker, B/C")
    left.set_ylim(bottom=0)
    left.set_ylabel("time, times the best")
    right.set_yscale("log")
    right.set_ylabel("peak tuples")
    left.legend(fontsize=7, frameon=False)
    return figure


def figure_5(lab: Lab) -> Figure:
    """What gates cost, and what they save as the input grows."""
    figure, (left, right) = new(2, "Figure 5: with gates and without (model)")
    ratios = [lab.near_best(workers) for workers in lab.workers]
    mean = np.array([np.mean(ratio) for ratio in ratios])
    ends = np.array([[min(ratio), max(ratio)] for ratio in ratios]).T
    places = np.arange(len(lab.workers))
    left.errorbar(
        places,
        mean,
        yerr=np.abs(ends - mean),
        fmt="o",
        color=COLOURS[2],
        capsize=4,
        label="mean, least, most",
    )
    left.axhline(1.15, color=pictures.INK, linewidth=0.9, linestyle=":", label="the paper's mean")
    left.set_xticks(places, [str(workers) for workers in lab.workers])
    left.set_xlabel("workers")
    left.set_ylabel("time with gates over time without")
    left.set_ylim(bottom=0.9)
    left.legend(fontsize=7, frameon=False)
    for name, values, colour in zip(
        ("without gates", "with gates"), growth(lab), COLOURS[:1] + COLOURS[3:], strict=True
    ):
        right.plot(lab.parts, values, color=colour, marker="o", markersize=4, linewidth=1.4, label=name)
    right.set_yscale("log")
    right.set_xlabel("part of the input")
    right.set_ylabel("peak tuples")
    right.set_ylim(bottom=min(growth(lab)[1]) / 5)
    right.legend(fontsize=7, frameon=False)
    return figure


_DRAWN: Mapping[str, Callable[[Lab], Figure]] = {"fig4": figure_4, "fig5": figure_5}


def draw(name: str, lab: Lab, folder: Path) -> None:
    """Draw a figure, if it has a picture."""
    if name in _DRAWN:
        pictures.save(_DRAWN[name](lab), folder / f"faucet-{name}.png")
