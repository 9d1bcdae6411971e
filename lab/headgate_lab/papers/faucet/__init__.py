"""Faucet: a user-level, modular technique for flow control in dataflow engines (Lattuada,
McSherry, Chothia), rerun.

`reproduce` measures every claim of the digest (FC-1..14) and draws Figures 4 and 5. The invariants
are exact, on the gates themselves (`units`); times and memory come from a model (`join`, `model`,
`lab`, `rows`) that drives the same gates.

What is not reproduced: the paper's machines and LiveJournal itself. Seconds are the model's; only
their ratios mean anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headgate_lab.papers.claims import Claim
from headgate_lab.papers.faucet import rows, units
from headgate_lab.papers.faucet.lab import Lab
from headgate_lab.papers.faucet.plots import draw
from headgate_lab.papers.rerun import Reproduction

PAPER = "faucet"

_ROWS: Mapping[str, Callable[[Lab], list[Claim]]] = {
    "invariants": lambda lab: units.invariants(),
    "fig4": rows.figure_4,
    "fig5": rows.figure_5,
}

FIGURES: tuple[str, ...] = tuple(_ROWS)

reproduce = Reproduction(_ROWS, draw, Lab)
