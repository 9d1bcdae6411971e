"""The picture of the bench of direct streams: three bars for each work, on scales of powers of ten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.figure import Figure

from headgate.cli import pictures
from headgate_lab.bench.direct.works import DIRECT, STAGE
from headgate_lab.bench.result import Result

COLOURS = {DIRECT: pictures.BLUE, STAGE: pictures.SKY, "native": pictures.LIGHT}
HEIGHT = 0.27
AXES: dict[str, tuple[str, Callable[[float, str], float]]] = {
    "rows/s": ("rows a second: longer is better", lambda value, unit: value),
    "s": ("seconds a batch: shorter is better", lambda value, unit: value / (1e3 if unit == "ms" else 1)),
}


def picture(results: Sequence[Result]) -> Figure:
    """Rates above, times below; the ratio to native is written on the direct way's bar."""
    panels = {
        kind: _ways([r for r in results if (r.unit == "rows/s") == (kind == "rows/s")]) for kind in AXES
    }
    panels = {kind: works for kind, works in panels.items() if works}
    sizes = [len(works) + 0.8 for works in panels.values()]
    figure = Figure(figsize=(9, 0.9 + 0.38 * sum(sizes)), layout="constrained")
    every = figure.subplots(max(1, len(panels)), 1, squeeze=False, height_ratios=sizes or [1])[:, 0]
    for axes, (kind, works) in zip(every, panels.items(), strict=False):
        _panel(axes, kind, works)
    figure.suptitle("Direct streams beside foreachBatch and native Spark", fontsize=11, x=0.01, ha="left")
    if panels:
        every[0].legend(
            *_legend(every[0]), frameon=False, ncols=3, loc="lower right", bbox_to_anchor=(1, 1), borderpad=0
        )
    return figure


def _ways(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Results by work, without those beside a way that is none of the three."""
    works: dict[str, list[Result]] = {}
    for result in results:
        if result.rival is not None and (result.rival == STAGE or result.rival.startswith("native")):
            works.setdefault(result.name, []).append(result)
    return works


def _panel(axes: Any, kind: str, works: dict[str, list[Result]]) -> None:
    label, scaled = AXES[kind]
    least, most = float("inf"), 0.0
    for place, beside in enumerate(works.values()):
        values = {DIRECT: scaled(beside[0].value, beside[0].unit)}
        for result in beside:
            if result.rival_value:
                way = STAGE if result.rival == STAGE else "native"
                values[way] = scaled(result.rival_value, result.unit)
        for at, (way, colour) in enumerate(COLOURS.items()):
            if way in values:
                axes.barh(place + HEIGHT * (at - 1), values[way], HEIGHT, color=colour, label=way)
        said = _ratio(values, faster=kind == "rows/s")
        end = (values[DIRECT], place - HEIGHT)
        axes.annotate(said, end, xytext=(4, 0), textcoords="offset points", va="center", fontsize=9)
        least, most = min(least, *values.values()), max(most, *values.values())
    axes.set_xscale("log")
    axes.set_xlim(0.4 * least, 4 * most)
    axes.set_yticks(range(len(works)), [name.split(": ")[0] for name in works])
    axes.set_ylim(len(works) - 0.4, -0.6)
    axes.set_xlabel(label)
    pictures.plain(axes)
    axes.set_axisbelow(True)


def _ratio(values: dict[str, float], *, faster: bool) -> str:
    if "native" not in values:
        return "native refuses it" if faster else ""
    ratio = values[DIRECT] / values["native"]
    return f"{ratio:,.0f}x native" if ratio >= 20 else f"{ratio:.2g}x native"


def _legend(axes: Any) -> tuple[list[Any], list[str]]:
    """One entry for each way, though every work has bars of its own."""
    by_label = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    names = [way for way in COLOURS if way in by_label]
    return [by_label[name] for name in names], names
