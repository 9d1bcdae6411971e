"""What a policy is: a view goes in, a plan comes out.

Law: a policy is pure. It uses no clock, no randomness, no Spark and no I/O, and it keeps no memory of
its own: the same view and table give the same plan (ties go to the lower id), and under steady load it
proposes nothing. It may raise: the loop turns the exception into a named refusal and the stream goes on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Self

from headgate.control.plan import Plan
from headgate.control.refusal import Refusal
from headgate.control.view import LoadView
from headgate.routing.table import Move, Table


class Policy(ABC):
    """Decides what should change; the guard and the loop decide whether it does.

    A policy must have `name` and `propose`. The other members are hooks with defaults.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that the registry, plans and journals use."""

    @abstractmethod
    def propose(self, view: LoadView, table: Table) -> Plan | Refusal | None:
        """The change that this load calls for; None for no change, or a named reason why none is possible."""

    @property
    def remembers(self) -> int:
        """For how many past batches the view must keep the channels' costs (`LoadView.history`)."""
        return 0

    def initial(self, bins: int, channels: int) -> Table:
        """The table of the first batch; by default the bins are dealt round robin."""
        return Table.uniform(bins, channels)

    def resize(self, view: LoadView, table: Table, channels: int) -> Plan | None:
        """The plan for the number of channels that the user asked for.

        None, the default, leaves it to the loop, which moves as few bins as possible.
        """
        return None

    def as_printed(self) -> Policy:
        """This policy as its paper prints it; by default unchanged."""
        return self

    def fitted(self, resources: str, *, whole: str = "") -> Self:
        """This policy, adjusted to an operator; by default unchanged.

        `resources` are the operator's resource functions (see `BoundOperator.resources`). `whole` says
        why the operator's keys cannot be split; it is empty if they can.
        """
        return self


def bytes_moved(view: LoadView, moves: Iterable[Move]) -> int:
    """The bytes of state that the moves would transfer."""
    return sum(view.bin_bytes.get(move.bin, 0) for move in moves)
