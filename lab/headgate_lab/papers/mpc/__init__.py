"""Yfoulis and Gounaris: Online load balancing in parallel database queries with model
predictive control, rerun.

`reproduce` measures every claim of the digest (CX-1..15) and draws Figures 1 and 2. The load is in
`load`, the query in `query`, the controllers with their rules in `controllers`, claims in `units`
and `rows`, pictures in `plots`.

What is not reproduced: the paper's simulator (its text has no speeds, so times are ours)
and its LQR controller, whose weights are in other papers: a stand-in is tuned to its
best in every scenario.

>>> [claim.id for claim in reproduce("units")][:2]
['CX-9', 'CX-10']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headgate_lab.papers.claims import Claim
from headgate_lab.papers.mpc import rows, units
from headgate_lab.papers.mpc.lab import Lab
from headgate_lab.papers.mpc.plots import draw
from headgate_lab.papers.rerun import Reproduction

PAPER = "mpc"


def figure_2(lab: Lab) -> list[Claim]:
    """All three panels."""
    return [*rows.figure_2_left(lab), *rows.figure_2_middle(lab), *rows.figure_2_right(lab)]


_ROWS: Mapping[str, Callable[[Lab], list[Claim]]] = {
    "units": units.controller,
    "fig1": rows.figure_1,
    "fig2": figure_2,
    "settings": rows.settings,
}

FIGURES: tuple[str, ...] = tuple(_ROWS)

reproduce = Reproduction(_ROWS, draw, Lab)
