"""What happens to the rows that an operator emits before they are written: steps without state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Shaping:
    """Functions from a table to a table, one after the other, and the columns after the last of them."""

    steps: tuple[Callable[[pa.Table], pa.Table], ...]
    schema: pa.Schema

    def apply(self, rows: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """The rows to write."""
        if not rows:
            return rows
        table = pa.Table.from_batches(rows)
        for step in self.steps:
            table = step(table)
        batches: list[pa.RecordBatch] = table.to_batches()
        return batches
