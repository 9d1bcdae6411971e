"""What the servers host in one batch. The service makes a snapshot before each batch; the batch works from nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.sql.template import Template

ServerTemplate = tuple[int, int]
"""(server, template)."""
Version = tuple[int, ...]
"""Of a table of constants: equal versions are equal tables."""


@dataclass(frozen=True)
class HostingSnapshot:
    """What the servers host in one batch. Changes made after it was taken have effect from the next batch on."""

    servers: int
    """One more than the highest server number."""
    alive: frozenset[int]
    servers_of_source: Sequence[Sequence[int]]
    """By source number: the servers that host a computation over it."""
    templates: Mapping[int, Template]
    constants: Mapping[ServerTemplate, tuple[Version, pa.Table]]
    """The constants of a template's computations on a server, with the version of that table."""
    delay_us: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """By source number: how late its rows may arrive."""
    budgets: Mapping[int, float] = field(default_factory=dict)
    """By tenant that has a budget of its own: seconds of a batch on a server."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the service wants recorded with the batch's measurements."""
    moving: Mapping[ServerTemplate, frozenset[int]] = field(default_factory=dict)
    """By server and template: the servers from which computations move there in this batch."""
    moves: Mapping[int, int] = field(default_factory=dict)
    """The computations that move in this batch, and to which server."""
    homes: Sequence[int] = ()
    """By server: the number under which its state is stored, if that is not its own; `alive` are such numbers."""

    def home(self, server: int) -> int:
        """The number under which the state of a server is stored."""
        return self.homes[server] if self.homes else server

    @property
    def slots(self) -> list[str]:
        """The slots of a row that some template reads."""
        return sorted(
            {slot for template in self.templates.values() for slots in template.slots for slot in slots}
        )
