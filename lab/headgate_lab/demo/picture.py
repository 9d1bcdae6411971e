"""The demonstration as a picture: readable on a light page and on a dark one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headgate.cli import pictures
from headgate_lab.demo.result import DemoResult, Lane

FIXED, ADAPTIVE, INK, FAINT = pictures.RED, pictures.BLUE, pictures.INK, f"{pictures.INK}40"


def draw(outcome: DemoResult, path: Path) -> Path:
    """Batch time and imbalance over the batches, with marks where the hot keys change and where plans act."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6), dpi=160, layout="constrained", facecolor="none")
    FigureCanvasAgg(figure)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    fixed, adaptive = outcome.fixed, outcome.adaptive
    for lane, colour in ((fixed, FIXED), (adaptive, ADAPTIVE)):
        batches = [step.report.batch for step in lane.steps]
        times, imbalance = (
            [step.ms / 1e3 for step in lane.steps],
            [step.report.imbalance for step in lane.steps],
        )
        told = f"{lane.name}: {lane.rows_per_s:,.0f} rows/s, median batch {lane.batch_ms(0.5) / 1e3:.2f} s"
        top.plot(batches, times, color=colour, lw=2.2, marker="o", ms=3.5, label=told)
        bottom.plot(batches, imbalance, color=colour, lw=2.2, marker="o", ms=3.5)
    _plans(top, adaptive)
    for axes in (top, bottom):
        _dress(axes, outcome.shifts)
    top.set_ylim(bottom=0)
    top.set_ylabel("batch time (s)")
    bottom.set_ylabel("busiest / mean channel")
    bottom.set_ylim(bottom=0.9)
    bottom.axhline(1, color=INK, lw=0.8, alpha=0.6)
    bottom.set_xlabel("batch")
    bottom.xaxis.get_major_locator().set_params(integer=True)
    said = f"{outcome.speedup:.2f}x the throughput, same answers" if outcome.equal else "the answers DIFFER"
    title = f"A skewed stream whose hot keys move, {outcome.channels} channels: {said}"
    figure.suptitle(title, color=INK, fontsize=13, x=0.01, ha="left")
    legend = top.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=2, frameon=False, fontsize=10)
    for text in legend.get_texts():
        text.set_color(INK)
    figure.text(
        1,
        -0.01,
        f"service time of {outcome.pace_us:g} µs a row, slept and not burnt; all else measured",
        color=INK,
        fontsize=8,
        ha="right",
        va="top",
    )
    return pictures.save(figure, path, dpi=160, transparent=True, bbox_inches="tight", pad_inches=0.15)


def _plans(axes: Any, lane: Lane) -> None:
    acted = [step for step in lane.steps if step.decision.changed]
    if acted:
        axes.plot(
            [step.report.batch + 0.5 for step in acted],
            [0.03] * len(acted),
            transform=axes.get_xaxis_transform(),
            color=ADAPTIVE,
            marker="^",
            ls="none",
            ms=7,
            label=f"plan carried out ({lane.moves} bins moved in all)",
        )


def _dress(axes: Any, shifts: tuple[int, ...]) -> None:
    axes.set_facecolor("none")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(INK)
    axes.tick_params(colors=INK, labelcolor=INK)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    axes.grid(axis="y", color=FAINT, lw=0.8)
    for number, shift in enumerate(shifts):
        label = "hot keys change" if number == 0 else None
        axes.axvline(shift - 0.5, color=INK, lw=1.2, ls=(0, (4, 3)), label=label)
