"""Figures 3 to 7 redrawn as PNG, with the capacity floor, the hypergraph reference and our
rules beside the paper's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from headgate.cli import pictures
from headgate_lab.papers.gedik.plots import new
from headgate_lab.papers.mice.sweeps import OFFLINE, ONLINE, OURS, Lab, Measured

STYLE: Mapping[str, tuple[str, str, str]] = {
    "floor": (pictures.LIGHT, "", ":"),
    "hypergraph": (pictures.BLACK, "", "--"),
    "ic": (pictures.GREEN, "v", "-"),
    "mms": (pictures.BLUE, "o", "-"),
    "mqp": (pictures.GOLD, "D", "-"),
    "off-rand": (pictures.GREY, "s", "-"),
    "on-rand": (pictures.GREY, "s", "-"),
    "least-cost": (pictures.BLUE, "o", "-"),
    "least-source": (pictures.GREEN, "v", "-"),
    "least-qt": (pictures.GOLD, "D", "-"),
    "rare-first": (pictures.RED, "^", "-"),
    "repair": (pictures.RED, "", "--"),
}
LABEL = {"repair": "rare-first, repair", "hypergraph": "hypergraph (offline)"}


def curves(
    axis: Any,
    x: Sequence[float],
    measured: Mapping[str, Sequence[Measured]],
    label: str,
    *,
    log_x: bool = False,
) -> None:
    """Draw one curve for each name, with the errors of its means."""
    lines = {name: [point.mean for point in points] for name, points in measured.items()}
    for name, y in lines.items():
        colour, mark, line = STYLE[name]
        axis.errorbar(
            x[: len(y)],
            y,
            yerr=[point.error for point in measured[name]],
            capsize=2,
            color=colour,
            marker=mark or None,
            linestyle=line,
            markersize=4,
            linewidth=1.4,
            label=LABEL.get(name, name),
        )
    axis.set_xlabel(label)
    axis.set_ylabel("replication factor")
    axis.set_yscale("log")
    ticks = (1, 1.2, 1.5, 2, 3, 5, 10, 20, 50)
    axis.set_yticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    if log_x:
        axis.set_xscale("log")
    low = min(min(y) for y in lines.values())
    axis.set_ylim(0.95 * low, 1.15 * max(max(y) for y in lines.values()))


def legend(axis: Any) -> None:
    """Place the legend where no curve is."""
    axis.legend(fontsize=7, frameon=False, ncols=2)


def still(lab: Lab, title: str, names: Sequence[str]) -> Figure:
    """Four panels over beta, d, k and n: Figures 3 and 4."""
    figure, axes = new(4, title)
    panels: tuple[tuple[str, str, Sequence[float]], ...] = (
        ("beta", "exponent of source degrees", lab.betas),
        ("d", "sources per query", lab.ds),
        ("k", "servers", lab.ks),
        ("n", "queries", lab.ns),
    )
    for axis, (name, label, x) in zip(axes, panels, strict=True):
        shown = [a for a in names if a not in ("hypergraph", "repair") or name != "n"]
        short = {"hypergraph": lab.reference_ds} if name == "d" else {}
        lines = {a: [lab.measured(a, **{name: v}) for v in short.get(a, x)] for a in shown}
        curves(axis, x, lines, label, log_x=name in "kn")
    legend(axes[0])
    return figure


def churned(lab: Lab, title: str, *, servers_too: bool) -> Figure:
    """Four panels over beta, d, k and lifetime or server churn: Figures 5 and 6."""
    figure, axes = new(4, title)
    last: tuple[str, str, Sequence[float]] = (
        ("gamma", "steps between server trials", lab.gammas)
        if servers_too
        else ("lifetime", "mean lifetime, steps", lab.lives)
    )
    panels: tuple[tuple[str, str, Sequence[float]], ...] = (
        ("beta", "exponent of source degrees", lab.churn_betas),
        ("d", "sources per query", lab.churn_ds),
        ("k", "servers", lab.churn_ks),
        last,
    )
    for axis, (name, label, x) in zip(axes, panels, strict=True):
        lines = {a: [lab.lived(a, servers_too=servers_too, **{name: v}) for v in x] for a in (*ONLINE, *OURS)}
        lines["hypergraph"] = [
            Measured(lab.churn_reference(servers_too=servers_too, **{name: v}), 0.0) for v in x
        ]
        curves(axis, x, lines, label, log_x=name in ("k", "lifetime", "gamma"))
    legend(axes[0])
    return figure


def figure_7(lab: Lab) -> Figure:
    """Rates at random, with and against popularity."""
    figure, axes = new(3, "Figure 7: heavy-tailed rates")
    for axis, how in zip(axes, ("random", "positive", "negative"), strict=True):
        names = ("mms", *ONLINE, "rare-first")
        lines = {a: [lab.rated(a, e, how) for e in lab.exponents] for a in names}  # type: ignore[arg-type]
        shown = {("ic" if a == "mms" else a): y for a, y in lines.items()}
        curves(axis, lab.exponents, shown, f"exponent of rates ({how})")
        for bars in axis.containers:
            if bars.get_label() == "ic":
                bars.set_label("mms (offline)")
                bars.lines[0].set(linestyle="--", color=pictures.BLACK)
    legend(axes[0])
    return figure


DRAW: Mapping[str, Callable[[Lab], Figure]] = {
    "fig3": lambda lab: still(lab, "Figure 3: offline", ("floor", "hypergraph", *OFFLINE)),
    "fig4": lambda lab: still(
        lab, "Figure 4: online, no departures", ("floor", "hypergraph", *ONLINE, *OURS)
    ),
    "fig5": lambda lab: churned(lab, "Figure 5: queries come and go", servers_too=False),
    "fig6": lambda lab: churned(lab, "Figure 6: queries and servers come and go", servers_too=True),
    "fig7": figure_7,
}


def draw(figure: str, lab: Lab, out: Path) -> Path | None:
    """Draw one figure into a folder; None if there is nothing to draw."""
    if figure not in DRAW:
        return None
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"mice-{figure}.png"
    pictures.save(DRAW[figure](lab), path)
    return path
