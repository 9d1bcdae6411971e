"""This process as the engine of a direct stream: map tasks, blobs and channels run one after the other.

Everything but Spark is the product's own: the map task, what it combines and packs, and the stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.operators.base import BoundOperator
from headgate.sources.source import Demand, Ranges, Source
from headgate.stage.parcel import Parcel
from headgate.stage.task import Task
from headgate.streams.held_rows import HeldRows
from headgate.streams.map_task import MapTask, sent_schema, unpacked
from headgate.streams.planned import Input, InputRange
from headgate.testing.engine import InProcess, key_hashes


class InProcessDirect(InProcess):
    """The engine of direct streams in this process. A batch is cut into ranges at the positions `chunks`."""

    def prepared(self, operator: BoundOperator) -> BoundOperator:
        """The operator that takes combined rows, if it can be combined."""
        return operator.combined() or operator

    def routed(self, operator: BoundOperator, columns: pa.Schema, rows: pa.Table) -> pa.Schema:
        """The columns that a task receives, each row with its hash."""
        return sent_schema(operator, columns, hashed=True)

    def _parcels(self, rows: pa.Table, task: Task) -> list[list[Parcel]]:
        inputs = (Input(Slices(rows)),)
        holds = HeldRows.of(task)
        map_task = _Colliding(
            inputs, rows.schema, task.operator, task.rows, task.table, task.clock, holds, self.distinct
        )
        blobs: list[list[bytes]] = [[] for _ in range(task.table.channels)]
        ends = [at for at in sorted(set(self.chunks)) if 0 < at < rows.num_rows]
        ranges = [
            InputRange(0, list(pair), pair[1] - pair[0]) for pair in pairwise([0, *ends, rows.num_rows])
        ]
        for channel, blob in map_task.run(enumerate(ranges), str(next(self._attempts))):
            blobs[channel].insert(0, blob)  # they may arrive in any order
        return [list(unpacked(mine)) for mine in blobs]


class Slices(Source):
    """A table as a source; a range is a pair of row numbers."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def schema(self) -> pa.Schema:
        return self._rows.schema

    def identity(self) -> dict[str, Any]:
        return {"source": "table"}

    def plan(self, offset: Any, demand: Demand) -> Ranges:
        raise NotImplementedError("the engine plans")

    def read(self, what: Any) -> Iterator[pa.RecordBatch]:
        start, end = what
        yield from self._rows.slice(start, end - start).to_batches()


@dataclass(frozen=True)
class _Colliding(MapTask):
    """A map task whose hashes may be made to collide."""

    distinct: int = 2**63

    def hashes(self, rows: pa.RecordBatch) -> NDArray[np.int64]:
        return key_hashes(rows, self.operator.key, distinct=self.distinct)
