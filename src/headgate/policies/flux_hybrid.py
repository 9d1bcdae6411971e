"""Flux's hybrid (section 6.4): memory first, then load.

While any bin is on disk the memory policy decides, because latency is at stake. With every bin in memory the load
policy does, and a bin moves only to a channel that has room for it; so the two never undo each other: a move
for load puts no bin on disk, and one for memory is made only while there is one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.control.plan import Plan
from headgate.control.policy import Policy
from headgate.control.view import LoadView
from headgate.policies.flux_load import FluxLoad
from headgate.policies.flux_memory import FluxMemory
from headgate.routing.table import Table


@dataclass(frozen=True)
class FluxHybrid(Policy):
    """The memory policy while something is spilled, the load policy otherwise. Each keeps its settings."""

    load: FluxLoad = field(default_factory=FluxLoad)
    memory: FluxMemory = field(default_factory=FluxMemory)

    @classmethod
    def paper(cls) -> FluxHybrid:
        """Both as printed."""
        return cls(FluxLoad.paper(), FluxMemory.paper())

    @property
    def name(self) -> str:
        """`flux-hybrid`."""
        return "flux-hybrid"

    def propose(self, view: LoadView, table: Table) -> Plan | None:
        """What the policy in charge proposes."""
        if view.on_disk:
            return self.memory.under_name(view, table, self.name)
        return self.load.within(view, table, view.excess_bytes, self.name)
