"""Flux: An Adaptive Partitioning Operator for Continuous Query Systems (Shah et al.), rerun in the simulator.

`reproduce` measures every claim of the digest (FX-1..36) and draws the figures. Setups are in `lab`, claims in
`units`, `rows_load` and `rows_memory`, pictures in `plots`.

What is not reproduced: the paper's own operator code and scheduler (a loaded machine is one at 0.43 of its speed), and
absolute values of figures that its text does not give.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from headgate.papers.claims import Claim
from headgate.papers.flux import rows_load, rows_memory, units
from headgate.papers.flux.lab import Lab, Progress
from headgate.papers.flux.plots import draw
from headgate.papers.rerun import rerun

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


def reproduce(
    figure: str | None = None,
    *,
    quick: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
) -> list[Claim]:
    """Measure the claims of one figure, or of all of them, and draw into ``out`` if given.

    ``progress`` is told what is being done and which part of the whole is behind us. Every run is seeded: the
    same table comes out each time.

    >>> [claim.id for claim in reproduce("fig6")]
    ['FX-36']
    """
    return rerun(_ROWS, draw, Lab(quick=quick, progress=progress), figure=figure, out=out)
