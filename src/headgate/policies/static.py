"""The baseline for comparisons: hash partitioning that never changes."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.control.plan import Plan
from headgate.control.policy import Policy
from headgate.control.view import LoadView
from headgate.routing.table import Table


@dataclass(frozen=True)
class Static(Policy):
    """Deals the bins round robin and never moves them. A rescale that the user asks for still works."""

    @property
    def name(self) -> str:
        """`static`."""
        return "static"

    def propose(self, view: LoadView, table: Table) -> Plan | None:
        """Always None."""
        return None
