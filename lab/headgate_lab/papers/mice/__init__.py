"""Zong, Gkantsidis, Vojnovic: Servicing "mice"-streaming queries as a service, rerun.

`reproduce` measures every claim of the digest (MX-1..25) and ours beside them (HG-1..10), and draws
Figures 3 to 7. The workload is in `world`, single runs in `trial`, sweeps in `sweeps`, claims in
`units`, `rows` and `ours`, pictures in `plots`.

What is not given by the paper: the number of sources and the axes' values; see the
digest's readings MICE-E1..22.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headgate_lab.papers.claims import Claim
from headgate_lab.papers.mice import ours, rows, units
from headgate_lab.papers.mice.plots import draw
from headgate_lab.papers.mice.sweeps import Lab
from headgate_lab.papers.rerun import Reproduction

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

reproduce = Reproduction(_ROWS, draw, Lab)
