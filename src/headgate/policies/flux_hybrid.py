"""Flux's hybrid (section 6.4): memory first, then load.

While any bin is on disk the memory policy decides, because disk access raises the latency. When every
bin is in memory the load policy decides, and moves a bin only to a channel with enough free memory. So
the two never undo each other: a move for load puts no bin on disk, and a move for memory happens only
while a bin is on disk.
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

    def as_printed(self) -> FluxHybrid:
        return self.paper()

    @classmethod
    def paper(cls) -> FluxHybrid:
        """Both policies as printed in the paper."""
        return cls(FluxLoad.paper(), FluxMemory.paper())

    @property
    def name(self) -> str:
        """`flux-hybrid`."""
        return "flux-hybrid"

    def propose(self, view: LoadView, table: Table) -> Plan | None:
        """The proposal of the policy that decides."""
        if view.on_disk:
            return self.memory.under_name(view, table, self.name)
        return self.load.within(view, table, view.excess_bytes, self.name)
