"""A driver that plans, reads as tasks do, and commits, in this process."""

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa

from headgate.sources import Demand, Kafka
from headgate.storage.store import Store

SCHEMA = pa.schema([("n", pa.int64())])


def numbers(*values: int) -> list[bytes]:
    return [b'{"n": %d}' % value for value in values]


class Driver:
    """Plans a batch, reads it as tasks do, and commits the offset."""

    def __init__(self, source: Kafka, folder: Path) -> None:
        self.source, self.offset = source.fresh(), None
        self.source.check()
        self.source.open(Store(str(folder)))
        self.now = 0.0

    def plan(self, rows: int = 1_000_000, tasks: int = 2) -> Any:
        self.now += 10.0
        return self.source.plan(self.offset, Demand(rows=rows, tasks=tasks, now=self.now))

    def batch(self, rows: int = 1_000_000, tasks: int = 2) -> list[dict[str, Any]]:
        """The rows of the next batch."""
        plan = self.plan(rows, tasks)
        found = self.read(plan)
        self.offset = json.loads(json.dumps(plan.offset))
        return found

    def read(self, plan: Any) -> list[dict[str, Any]]:
        task = pickle.loads(pickle.dumps(self.source))
        return [row for part in plan.ranges for batch in task.read(part.what) for row in batch.to_pylist()]
