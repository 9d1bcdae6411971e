"""One look for all pictures: a palette, titles, thousands separators, and no point that is cut off.

Nothing here imports matplotlib before a picture is drawn, because that comes with an extra.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

BLUE, RED, GREEN = "#2b6cb0", "#c8553d", "#2a9d8f"
VIOLET, GOLD, NAVY = "#7b4fa3", "#c9a227", "#264653"
SKY, PALE = "#7fa8d1", "#b9d0e6"
INK, GREY, LIGHT = "#808690", "#8d8d8d", "#bbbbbb"
BLACK = "#1d2733"
PALETTE = (BLUE, RED, GREEN, VIOLET, GOLD, NAVY, SKY, PALE, INK, GREY, LIGHT, BLACK)
CYCLE = (BLUE, RED, GREEN, VIOLET, GOLD, GREY, NAVY, SKY)
"""The colours of curves that have none of their own, in this order."""


def plain(axis: Any) -> None:
    """A faint grid, and no frame above or on the right."""
    axis.grid(visible=True, alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)


def number(value: float) -> str:
    """A number on an axis.

    >>> number(1234567.0), number(0.30000000000000004), number(-2500.0)
    ('1,234,567', '0.3', '-2,500')
    """
    return f"{value:,.10g}"


def finished(figure: Any) -> Any:
    """Write the numbers of all axes with separators, and make room for points that lie outside.

    Law: after this, every point that has a mark is inside of its axes (`outside` is empty).
    """
    from matplotlib.ticker import FuncFormatter, LogFormatter, ScalarFormatter

    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            # Text on an axis has a formatter of another kind, and stays.
            if isinstance(axis.get_major_formatter(), ScalarFormatter | LogFormatter):
                axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
        for x, y in outside(axes):
            left, right = sorted(axes.get_xlim())
            low, high = sorted(axes.get_ylim())
            axes.set_xlim(min(left, x), max(right, x))
            axes.set_ylim(min(low, y), max(high, y))
        for line in axes.get_lines():
            if _marked(line):
                line.set_clip_on(False)  # half of a mark on the edge would be cut off
    return figure


def outside(axes: Any) -> list[tuple[float, float]]:
    """The points with marks that lie outside of what the axes show."""
    left, right = sorted(axes.get_xlim())
    low, high = sorted(axes.get_ylim())
    return [(x, y) for x, y in _points(axes) if not (left <= x <= right and low <= y <= high)]


def _points(axes: Any) -> Iterator[tuple[float, float]]:
    lowest = [0.0 if scale == "log" else -np.inf for scale in (axes.get_xscale(), axes.get_yscale())]
    for line in axes.get_lines():
        if _marked(line) and line.get_transform() == axes.transData:
            points = np.column_stack([line.get_xdata(orig=False), line.get_ydata(orig=False)])
            shown = np.isfinite(points) & (points > lowest)
            yield from map(tuple, points[shown.all(axis=1)].tolist())


def _marked(line: Any) -> bool:
    return str(line.get_marker()) not in ("None", "none", "", " ")


def save(figure: Any, path: Path, **options: Any) -> Path:
    """Finish a picture and write it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    finished(figure).savefig(path, **{"dpi": 110, **options})
    return path


def colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each of several curves.

    >>> colours(["static", "flux-load"]) == {"static": BLUE, "flux-load": RED}
    True
    """
    return {name: CYCLE[at % len(CYCLE)] for at, name in enumerate(names)}
