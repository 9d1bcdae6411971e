"""Rows by the clock, for tests and demonstrations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.errors import ConfigError
from headgate.sources.source import CHEAP_ROWS, Demand, Range, Ranges, Source

_SCHEMA = pa.schema([("timestamp", pa.timestamp("us", "UTC")), ("value", pa.int64())])
_BATCH = 1 << 18
_LEAST = 10_000
"""A range has at least so many rows."""


class Rate(Source):
    """So many rows a second, as Spark's source of this name: `value` counts from 0, and `timestamp` is when the row was due.

    >>> rate = Rate(2)
    >>> rate.plan(None, Demand(rows=10, now=100.0)).ranges
    ()
    >>> planned = rate.plan(None, Demand(rows=10, now=101.5))
    >>> planned.offset, [batch.column("value").to_pylist() for batch in rate.read(planned.ranges[0].what)]
    ({'start': 100000000, 'rows': 3}, [[0, 1, 2]])

    The time of the first plan is the start. The offset keeps it once a row was given.
    """

    rows_read_again = CHEAP_ROWS

    def __init__(self, rows_per_second: int) -> None:
        if not isinstance(rows_per_second, int) or isinstance(rows_per_second, bool) or rows_per_second < 1:
            raise ConfigError(f"Rate({rows_per_second!r}): give a whole number of rows a second, at least 1")
        self.rows_per_second = rows_per_second
        self._start: int | None = None

    def fresh(self) -> Rate:
        """The same rate with a start of its own."""
        return Rate(self.rows_per_second)

    def __repr__(self) -> str:
        return f"Rate({self.rows_per_second})"

    def schema(self) -> pa.Schema:
        """`timestamp` and `value`."""
        return _SCHEMA

    def identity(self) -> dict[str, Any]:
        """The rate: rows that were given keep their times."""
        return {"source": "rate", "rows_per_second": self.rows_per_second}

    def plan(self, offset: Any, demand: Demand) -> Ranges:
        """The rows that are due and were not given."""
        now = round(demand.now * 1_000_000)
        if offset is None and self._start is None:
            self._start = now
        start, given = (
            (self._start or 0, 0) if offset is None else (int(offset["start"]), int(offset["rows"]))
        )
        due = max(given, (now - start) * self.rows_per_second // 1_000_000)
        end = min(due, given + max(1, demand.rows))
        if end == given:
            return Ranges((), offset)
        parts = max(1, min(demand.tasks, (end - given) // _LEAST))
        edges = [given + (end - given) * part // parts for part in range(parts + 1)]
        ranges = [Range([start, a, b], b - a) for a, b in pairwise(edges)]
        return Ranges(tuple(ranges), {"start": start, "rows": end}, more=end < due)

    def read(self, what: Any) -> Iterator[pa.RecordBatch]:
        """Rows by their numbers."""
        start, first, last = what
        for begin in range(first, last, _BATCH):
            value = np.arange(begin, min(last, begin + _BATCH), dtype=np.int64)
            seconds, rest = np.divmod(value, self.rows_per_second)
            micros = start + seconds * 1_000_000 + rest * 1_000_000 // self.rows_per_second
            times = pa.array(micros).cast(pa.timestamp("us")).view(_SCHEMA.field("timestamp").type)
            yield pa.RecordBatch.from_arrays([times, pa.array(value)], schema=_SCHEMA)
