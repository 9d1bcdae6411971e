"""What the query service hosts where in one batch: what the driver is told before it. No pyspark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.sql.template import Template

Keyed = tuple[int, int]
"""(server, template)."""


@dataclass(frozen=True)
class Hosted:
    """What is hosted where in one batch."""

    servers: int
    """One more than the highest number of a server."""
    alive: frozenset[int]
    wanted: Sequence[Sequence[int]]
    """By source: the servers that want its rows."""
    templates: Mapping[int, Template]
    constants: Mapping[Keyed, tuple[int, pa.Table]]
    """Version and table of the constants of a template on a server."""
    gained: Mapping[Keyed, Mapping[int, Sequence[int]]] = field(default_factory=dict)
    """Computations whose state comes to a server in this batch, by the server that had them."""
    delay: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """By source: how late its rows may come, in microseconds."""

    notes: Mapping[str, Any] = field(default_factory=dict)
    """What is to be remembered with the batch's measurements."""

    @property
    def slots(self) -> list[str]:
        """What of a row is read by anyone."""
        return sorted({slot for one in self.templates.values() for slots in one.slots for slot in slots})
