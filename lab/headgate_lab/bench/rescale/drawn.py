"""Rows that tasks draw themselves: first every key once, then keys at random, so that no file is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.sources.source import Demand, Range, Ranges, Source

COLUMNS = pa.schema([("user", pa.int64()), ("amount", pa.float64())])


@dataclass(frozen=True)
class Drawn(Source):
    """`keys` rows, one for each key, in batches of `load`, and then `batches` batches of `rows` rows."""

    keys: int
    load: int
    rows: int
    batches: int

    def schema(self) -> pa.Schema:
        return COLUMNS

    def identity(self) -> dict[str, Any]:
        return {"source": "drawn", "keys": self.keys}

    @property
    def loading(self) -> int:
        """How many batches load the keys."""
        return -(-self.keys // self.load)

    def plan(self, offset: Any, demand: Demand) -> Ranges:
        number = offset or 0
        last = number >= self.loading + self.batches
        if last:
            return Ranges((), number)
        if number < self.loading:
            first, end = number * self.load, min((number + 1) * self.load, self.keys)
        else:
            first, end = 0, self.rows
        cuts = np.linspace(first, end, demand.tasks + 1).astype(int).tolist()
        parts = [Range([number, a, b], b - a) for a, b in pairwise(cuts) if b > a]
        return Ranges(tuple(parts), number + 1, more=True)

    def read(self, what: Any) -> Iterator[pa.RecordBatch]:
        number, first, end = what
        if number < self.loading:
            users = np.arange(first, end, dtype=np.int64)
        else:
            users = np.random.default_rng([number, first]).integers(0, self.keys, end - first)
        amounts = np.random.default_rng([number, first, 1]).random(end - first)
        yield pa.RecordBatch.from_arrays([pa.array(users), pa.array(amounts)], schema=COLUMNS)
