"""Faucet: a user-level, modular technique for flow control in dataflow engines (Lattuada, McSherry, Chothia), rerun.

`reproduce` measures every claim of the digest (FC-1..14) and draws Figures 4 and 5. The invariants are exact, on the gates
themselves (`units`); times and memory come from a model (`join`, `model`, `lab`, `rows`) that drives the same gates.

What is not reproduced: the paper's machines and LiveJournal itself. Seconds are the model's; only their ratios mean anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from headgate.papers.claims import Claim
from headgate.papers.faucet import rows, units
from headgate.papers.faucet.lab import Lab, Progress
from headgate.papers.faucet.plots import draw
from headgate.papers.rerun import rerun

PAPER = "faucet"

_ROWS: Mapping[str, Callable[[Lab], list[Claim]]] = {
    "invariants": lambda lab: units.invariants(),
    "fig4": rows.figure_4,
    "fig5": rows.figure_5,
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

    >>> FIGURES
    ('invariants', 'fig4', 'fig5')
    """
    return rerun(_ROWS, draw, Lab(quick=quick, progress=progress), figure=figure, out=out)
