"""Flux: An Adaptive Partitioning Operator for Continuous Query Systems (Shah et al.),
rerun in the simulator.

`reproduce` measures every claim of the digest (FX-1..36) and draws the figures. Setups are in
`lab`, claims in `units`, `rows_load` and `rows_memory`, pictures in `plots`.

What is not reproduced: the paper's own operator code and scheduler (a loaded machine is one at 0.43
of its speed), and absolute values of figures that its text does not give.

>>> [claim.id for claim in reproduce("fig6")]
['FX-36']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headgate_lab.papers.claims import Claim
from headgate_lab.papers.flux import rows_load, rows_memory, units
from headgate_lab.papers.flux.lab import Lab
from headgate_lab.papers.flux.plots import draw
from headgate_lab.papers.rerun import Reproduction

PAPER = "flux"

_ROWS: Mapping[str, Callable[[Lab], list[Claim]]] = {
    "baseline": rows_load.baseline,
    "fig3": rows_load.figure_3,
    "fig6": lambda lab: units.figure_6(),
    "fig7": rows_load.figure_7,
    "fig8": rows_load.figure_8,
    "fig9": rows_load.figure_9,
    "fig11": rows_memory.figure_11,
    "fig12": rows_memory.figure_12,
    "fig13": rows_memory.figure_13,
    "fig14": rows_memory.figure_14,
    "fig15": rows_memory.figure_15,
    "overall": rows_memory.overall,
}

FIGURES: tuple[str, ...] = tuple(_ROWS)

reproduce = Reproduction(_ROWS, draw, Lab)
