"""Operators and queries beside their native twins on each of its state stores: the faster store
counts. Results, and a picture of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from headgate.cli import pictures
from headgate_lab.bench.aggregate import STORES
from headgate_lab.bench.result import Result
from headgate_lab.bench.rounds import Times, median


def job_name(what: str, store: str = "") -> str:
    """What the job of an operator or query is called; with a store, that of its native twin."""
    return f"{what}, native {STORES[store]}" if store else f"{what}, headgate"


def result(what: str, title: str, rows: int, times: Times, stores: Sequence[str]) -> Result:
    """Rows/s of batches of so many rows, from the steady times of each system."""
    ours = times[job_name(what)]
    native = {name: times[name] for store in stores if (name := job_name(what, store)) in times}
    best = min(native, key=lambda name: median(native[name]), default=None)
    rival = None if best is None else 1e3 * rows / median(native[best])
    return Result(title, "rows/s", 1e3 * rows / median(ours), best, rival, {job_name(what): ours, **native})


def picture(results: Mapping[str, Result]) -> Figure:
    """Rows a second, ours and native's, by a short name."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(results))
    bars = (
        ("headgate", [result.value for result in results.values()], pictures.BLUE, -0.2),
        (
            "native, the faster store",
            [result.rival_value or 0.0 for result in results.values()],
            pictures.LIGHT,
            0.2,
        ),
    )
    for label, values, colour, shift in bars:
        axes.bar(places + shift, [v / 1e3 for v in values], 0.4, label=label, color=colour)
    for place, result in zip(places, results.values(), strict=True):
        said = "native refuses" if result.ratio is None else f"{result.ratio:.1f}x"
        top = max(result.value, result.rival_value or 0.0) / 1e3
        axes.annotate(said, (place, top), xytext=(0, 3), textcoords="offset points", ha="center")
    axes.set_xticks(places, list(results))
    axes.set_ylabel("thousand rows a second")
    axes.margins(y=0.12)
    axes.legend(frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 1))
    pictures.plain(axes)
    axes.set_axisbelow(True)
    figure.suptitle("Rows a second beside native Spark", fontsize=11, x=0.01, ha="left")
    return figure
