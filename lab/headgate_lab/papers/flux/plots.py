"""Figures 3, 7, 8, 9 and 11 to 15 redrawn as PNG: our curves; rings mark what the paper's
text says of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from headgate.cli import pictures
from headgate.simulator.run import Result
from headgate_lab.papers.flux.lab import Lab
from headgate_lab.papers.flux.rows_load import steady
from headgate_lab.papers.gedik.plots import new

Points = Sequence[float] | npt.NDArray[Any]

COLOURS = {
    "unloaded": pictures.GREY,
    "static": pictures.RED,
    "exchange": pictures.RED,
    "flux": pictures.BLUE,
    "load": pictures.BLUE,
    "memory": pictures.GREEN,
    "hybrid": pictures.VIOLET,
    "tuned": pictures.GOLD,
}


def line(axis: Any, name: str, x: Points, y: Points, label: str = "", **style: Any) -> None:
    """One curve in the colour of its name."""
    axis.plot(x, y, color=COLOURS[name], label=label or name, **{"linewidth": 1.4, **style})


def said(axis: Any, x: float, y: float) -> None:
    """A ring around what the paper's text says."""
    axis.plot(
        [x],
        [y],
        marker="o",
        markersize=9,
        markerfacecolor="none",
        markeredgecolor=pictures.BLACK,
        linestyle="none",
    )


def finish(figure: Figure, axes: Sequence[Any], x_label: str, y_label: str) -> Figure:
    """Label the axes."""
    for axis in axes:
        axis.set_xlabel(x_label)
        axis.set_ylabel(y_label)
        axis.legend(fontsize=7, frameon=False)
    return figure


def figure_3(lab: Lab) -> Figure:
    """Throughput against the buffer."""
    figure, axes = new(1, "Figure 3: a load that goes around")
    x = [size * 80 / 1e3 for size in lab.buffers]
    for transport in ("flux", "exchange"):
        line(
            axes[0],
            transport,
            x,
            [lab.rotating(size, transport).mean(0) for size in lab.buffers],
            marker="o",
            markersize=4,
        )
    axes[0].axhline(lab.unloaded(), color=COLOURS["unloaded"], linestyle="--", label="unloaded")
    axes[0].set_ylim(bottom=0)
    axes[0].set_xscale("symlog", linthresh=5)
    axes[0].set_xlim(left=0)
    return finish(figure, axes, "buffer of a producer, KB", "tuples/s")


def figure_7(lab: Lab) -> Figure:
    """Throughput over time, one machine loaded."""
    figure, axes = new(1, "Figure 7: one of 32 machines loaded from t = 1 s")
    for policy in ("static", "load"):
        done = lab.one_loaded(policy)
        line(axes[0], policy, np.arange(done.seconds) + 0.5, done.throughput)
    axes[0].axhline(lab.unloaded(), color=COLOURS["unloaded"], linestyle="--", label="unloaded")
    axes[0].set_ylim(bottom=0)
    for at, text in ((5, "paper: felt"), (14, "paper: steady")):
        axes[0].axvline(at, color=pictures.BLACK, linewidth=0.7, linestyle=":")
        axes[0].text(at + 0.2, 2e4, text, fontsize=7, rotation=90, verticalalignment="bottom")
    return finish(figure, axes, "s", "tuples/s")


def figure_8(lab: Lab) -> Figure:
    """Throughput against loaded machines."""
    figure, axes = new(1, "Figure 8: graceful degradation")
    ns = list(lab.perturbed)
    for policy in ("static", "load"):
        line(axes[0], policy, ns, [steady(lab.loaded(n, policy)) for n in ns], marker="o", markersize=4)
    top = [lab.unloaded() * (lab.nodes - 0.57 * n) / lab.nodes for n in ns]
    line(axes[0], "unloaded", ns, top, "all capacity used", linestyle="--")
    axes[0].set_ylim(bottom=0)
    return finish(figure, axes, "loaded machines", "tuples/s")


def figure_9(lab: Lab) -> Figure:
    """Throughput against the least collection time."""
    figure, axes = new(2, "Figure 9: 80/20 keys (dotted: the paper's crossing)")
    still = lab.skewed("static", loaded=False).mean(0)
    for axis, loaded, paper in zip(axes, (False, True), (250, 150), strict=True):
        y = [lab.skewed("load", loaded=loaded, delta_ms=d).mean(0) for d in lab.deltas_ms]
        line(axis, "load", lab.deltas_ms, y, marker="o", markersize=4)
        axis.axhline(still, color=COLOURS["unloaded"], linestyle="--", label="static, unloaded")
        if loaded:
            axis.axhline(
                lab.skewed("static", loaded=True).mean(0), color=COLOURS["static"], label="static, 8 loaded"
            )
        tuned = lab.skewed("load", loaded=loaded, tuned=True).mean(0)
        axis.axhline(tuned, color=COLOURS["tuned"], label="collection time tuned (ours)")
        axis.axvline(paper, color=pictures.BLACK, linewidth=0.7, linestyle=":")
        axis.set_xscale("log")
        axis.set_ylim(bottom=0)
        axis.set_title("8 machines loaded" if loaded else "no external load", fontsize=9)
    return finish(figure, axes, "least collection time, ms", "tuples/s")


def figure_11(lab: Lab) -> Figure:
    """Throughput over time, one machine short of memory."""
    figure, axes = new(1, "Figure 11: one machine from 1 GB to 512 MB at t = 1 s")
    for policy in ("static", "memory"):
        done = lab.short_of_memory(1, policy)
        line(axes[0], policy, np.arange(done.seconds) + 0.5, done.throughput)
    axes[0].axvline(37, color=pictures.BLACK, linewidth=0.7, linestyle=":")
    axes[0].text(37.3, 0, "paper: all in memory", fontsize=7, rotation=90, verticalalignment="bottom")
    return finish(figure, axes, "s", "tuples/s")


def figure_12(lab: Lab) -> Figure:
    """Latency over time in the same runs."""
    figure, axes = new(1, "Figure 12: mean latency in the same runs")
    for policy in ("static", "memory"):
        done = lab.short_of_memory(1, policy)
        line(axes[0], policy, np.arange(done.seconds) + 0.5, 1e3 * done.latency_s)
    axes[0].set_yscale("log")
    return finish(figure, axes, "s", "ms")


def _against_squeezed(lab: Lab, title: str, of: Callable[[Any], float], y_label: str) -> tuple[Figure, Any]:
    figure, axes = new(1, title)
    for policy in ("static", "memory"):
        y = [of(lab.short_of_memory(n, policy if n else "static")) for n in lab.squeezed]
        line(axes[0], policy, lab.squeezed, y, marker="o", markersize=4)
    axes[0].axvline(
        lab.memory_nodes / 2, color=pictures.BLACK, linewidth=0.7, linestyle=":", label="memory exhausted"
    )
    return finish(figure, axes, "machines short of memory", y_label), axes[0]


def figure_13(lab: Lab) -> Figure:
    """Throughput against machines short of memory."""
    figure, axis = _against_squeezed(
        lab, "Figure 13: throughput degradation", lambda r: steady(r, 20), "tuples/s"
    )
    axis.set_ylim(bottom=0)
    return figure


def _late(result: Result) -> float:
    return result.mean_latency(result.seconds - 20)


def figure_14(lab: Lab) -> Figure:
    """Latency against machines short of memory."""
    figure, axis = _against_squeezed(lab, "Figure 14: latency degradation", lambda r: 1e3 * _late(r), "ms")
    axis.set_yscale("log")
    return figure


def figure_15(lab: Lab) -> Figure:
    """The three policies under both pressures."""
    figure, axes = new(3, "Figure 15: load and memory pressure")
    names = ("memory", "load", "hybrid")
    panels: Mapping[str, list[float]] = {
        "(a) a quarter pressed: tuples/s": [steady(lab.pressed(p), 20) for p in names],
        "(b) all pressed: tuples/s": [steady(lab.pressed_hard(p), 20) for p in names],
        "(c) all pressed: mean latency, s": [_late(lab.pressed_hard(p)) for p in names],
    }
    for axis, (title, values) in zip(axes, panels.items(), strict=True):
        axis.bar(names, values, color=[COLOURS[p] for p in names])
        axis.set_title(title, fontsize=9)
    return figure


_DRAW: Mapping[str, Callable[[Lab], Figure]] = {
    "fig3": figure_3,
    "fig7": figure_7,
    "fig8": figure_8,
    "fig9": figure_9,
    "fig11": figure_11,
    "fig12": figure_12,
    "fig13": figure_13,
    "fig14": figure_14,
    "fig15": figure_15,
}


def draw(name: str, lab: Lab, out: Path) -> None:
    """Write `flux-<name>.png`, if it is a figure with curves."""
    if name in _DRAW:
        pictures.save(_DRAW[name](lab), out / f"flux-{name}.png", dpi=130)
