"""Gedik: Partitioning Functions for Stateful Data Parallelism in Stream Processing, rerun.

`reproduce` measures every claim of the digest (PX-1..58) and draws the figures. World and
protocol are in `world` and `trial`, sweeps in `sweeps`, claims in `units`, `toy`, `rows_balance`,
`rows_choice` and `rows_cost`, pictures in `plots`.

What is not reproduced: the paper's machine (times are ours), and the order in which
its system saw rows.

>>> [claim.id for claim in reproduce("fig1")][:2]
['PX-11', 'PX-12']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headgate_lab.papers.claims import Claim
from headgate_lab.papers.gedik import rows_balance, rows_choice, rows_cost, toy, units
from headgate_lab.papers.gedik.plots import draw
from headgate_lab.papers.gedik.sweeps import Lab
from headgate_lab.papers.rerun import Reproduction

PAPER = "gedik"

_ROWS: Mapping[str, Callable[[Lab], list[Claim]]] = {
    "units": lambda lab: units.unit_claims(),
    "fig1": lambda lab: toy.toy_claims(),
    "fig3": rows_balance.figure_3,
    "fig4": rows_balance.figure_4,
    "fig5": rows_balance.figure_5,
    "fig6": rows_balance.figure_6,
    "fig7": rows_choice.figure_7,
    "fig8": rows_choice.figure_8,
    "fig9": rows_cost.figure_9,
    "fig10": rows_cost.figure_10,
    "fig11": rows_cost.figure_11,
    "fig12": rows_cost.figure_12,
    "fig13": rows_cost.figure_13,
    "fig14": rows_cost.figure_14,
    "overall": rows_choice.overall,
}

FIGURES: tuple[str, ...] = tuple(_ROWS)

reproduce = Reproduction(_ROWS, draw, Lab)
