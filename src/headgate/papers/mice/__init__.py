"""Zong, Gkantsidis, Vojnovic: Servicing "mice"-streaming queries as a service, rerun.

`reproduce` measures every claim of the digest (MX-1..25) and ours beside them (HG-1..10), and draws Figures 3 to 7. The
workload is in `world`, single runs in `trial`, sweeps in `sweeps`, claims in `units`, `rows` and `ours`, pictures in `plots`.

What is not given by the paper: the number of sources and the axes' values; see the digest's readings MICE-E1..22.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from headgate.papers.claims import Claim
from headgate.papers.mice import ours, rows, units
from headgate.papers.mice.plots import draw
from headgate.papers.mice.sweeps import Lab, Progress

PAPER = "mice"

_ROWS: Mapping[str, Callable[[Lab], list[Claim]]] = {
    "units": lambda lab: units.unit_claims(),
    "fig3": rows.figure_3,
    "fig4": rows.figure_4,
    "fig5": rows.figure_5,
    "fig6": rows.figure_6,
    "fig7": rows.figure_7,
    "ours": ours.ours,
}

FIGURES: tuple[str, ...] = tuple(_ROWS)


def reproduce(
    figure: str | None = None,
    *,
    quick: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
) -> list[Claim]:
    """Measure the claims of one figure, or of all of them, and draw into ``out`` if given.

    Random choices are seeded, so everything comes out the same each time.

    >>> FIGURES[:2]
    ('units', 'fig3')
    """
    if figure is not None and figure not in FIGURES:
        raise ValueError(f"figure is one of {', '.join(FIGURES)}; got {figure!r}")
    chosen = FIGURES if figure is None else (figure,)
    lab = Lab(quick=quick, progress=progress)
    claims: list[Claim] = []
    for number, name in enumerate(chosen):
        lab.tell(name, number / len(chosen))
        claims += _ROWS[name](lab)
        if out is not None:
            draw(name, lab, Path(out))
    lab.tell("done", 1.0)
    return claims
