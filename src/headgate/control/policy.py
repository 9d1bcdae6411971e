"""What a policy is: a view in, a plan out.

Law: a policy is pure. No clock, no randomness, no Spark, no I/O, no memory of its own: the same view and
table give the same plan (ties go to the lower serial number), and on steady load it falls silent. It may
raise: the loop turns that into a named refusal and the stream goes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from headgate.control.plan import Plan
from headgate.control.refusal import Refusal
from headgate.control.view import LoadView
from headgate.routing.table import Move, Table


@runtime_checkable
class Policy(Protocol):
    """Decides what should change. Guard and loop decide whether it does."""

    @property
    def name(self) -> str:
        """The name that the registry, plans and journals use."""

    def initial(self, bins: int, channels: int) -> Table:
        """The table of the first batch."""

    def propose(self, view: LoadView, table: Table) -> Plan | Refusal | None:
        """The change that this load calls for under this table; None for nothing, or the named reason why not."""


def bytes_moved(view: LoadView, moves: Iterable[Move]) -> int:
    """The state that the moves would carry."""
    return sum(view.bin_bytes.get(move.bin, 0) for move in moves)
