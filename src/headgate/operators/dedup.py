# mypy: allow-untyped-defs, allow-untyped-calls
"""The first row of each key, as Spark's `dropDuplicatesWithinWatermark`, or `dropDuplicates` without a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.compiled import compiled
from headgate.errors import ConfigError
from headgate.operators.aggregate import emitted
from headgate.operators.base import BoundOperator, Chunk, Operator, column_type
from headgate.operators.columns import column_name, column_names
from headgate.operators.event_time import EventTime, parse_duration
from headgate.state.index import FOREVER
from headgate.state.keys import KeySpec
from headgate.state.lanes import LaneColumn, to_lane
from headgate.state.layout import Kind, StateColumn, StateLayout
from headgate.state.table import BinTable

if TYPE_CHECKING:
    from headgate.operators.combine import Combined

EXPIRES, FIRST = "expires", "first"


class Dedup(Operator):
    """Emits the first row of each key, in the order of the source, and drops the others.

    `on` names the column with a row's event time. With it, a key is forgotten once the watermark has
    reached the first row's time plus the `delay`: rows of a key that are less than `delay` apart are
    duplicates, and state stays bounded. Without it keys are kept forever. Emits the key columns and the
    columns to `keep` (by default all).

    >>> Dedup(on="time", delay="1 hour")
    Dedup(on='time', delay='1 hour')
    """

    def __init__(
        self,
        *,
        on: str | None = None,
        delay: str | None = None,
        keep: Sequence[str] | None = None,
        ahead: str = "1 day",
    ) -> None:
        if (on is None) != (delay is None):
            raise ConfigError(f"on={on!r}, delay={delay!r}: give both, or neither to keep keys forever")
        on = None if on is None else column_name(on, "on")
        self.on, self.delay, self.ahead = on, delay, ahead
        self.keep = None if keep is None else column_names(keep, "keep")
        self.event_time = None
        if on is not None and delay is not None:
            self.event_time = EventTime(
                on, (parse_duration(delay, "delay"),), parse_duration(ahead, "ahead", least=1)
            )

    def __repr__(self) -> str:
        arguments = [f"on={self.on!r}, delay={self.delay!r}"] if self.on is not None else []
        arguments += [f"keep={list(self.keep)}"] if self.keep is not None else []
        arguments += [f"ahead={self.ahead!r}"] if self.ahead != "1 day" else []
        return f"Dedup({', '.join(arguments)})"

    def bind(self, key: KeySpec, schema: pa.Schema) -> BoundDedup:
        """Check the columns."""
        keep = [n for n in (schema.names if self.keep is None else self.keep) if n not in key.names]
        for name in (*keep, *([self.on] if self.on else [])):
            column_type(schema, name, repr(self))
        if self.event_time is not None:
            self.event_time.check(schema, repr(self))
        return BoundDedup(self, key, schema, tuple(keep))


class BoundDedup(BoundOperator):
    """A dedup bound to the key and schema of a stream."""

    ordered = True  # it decides which row is the first
    resources = "CLL"  # one time per key, one lookup per row

    def __init__(self, config: Dedup, key: KeySpec, schema: pa.Schema, keep: tuple[str, ...]) -> None:
        self.config, self.key, self.event_time = config, key, config.event_time
        timed = (config.on,) if config.on is not None and config.on not in keep else ()
        self.inputs = (*keep, *timed)
        self.layout = StateLayout(
            key.is_fixed, (StateColumn(EXPIRES, Kind.I64), StateColumn("seen", Kind.U8))
        )
        self.output = emitted(key, [(n, schema.field(n).type) for n in keep], "Dedup")

    def fingerprint(self) -> dict[str, Any]:
        return {"operator": repr(self.config), "state": self.layout.fingerprint()}

    def lanes(self, rows: pa.RecordBatch) -> dict[str, LaneColumn]:
        return {} if self.event_time is None else {"time": to_lane(rows.column(self.event_time.column))}

    def begin(self, chunk: Chunk) -> None:
        chunk.results[FIRST] = np.zeros(len(chunk), np.uint8)

    def update(
        self, table: BinTable, slots: NDArray[np.int64], order: NDArray[np.int64], chunk: Chunk
    ) -> None:
        expires, seen, first = table.arrays[EXPIRES], table.arrays["seen"], chunk.results[FIRST]
        if self.event_time is None:
            _first_ever(slots, order, seen, first)
        else:
            times, delay = chunk.lanes["time"].data, self.event_time.delays[0]
            table.due = min(table.due, _first(slots, order, times, chunk.closed, delay, expires, seen, first))

    def combined(self) -> Combined | None:
        from headgate.operators.combine_rows import CombinedDedup

        return CombinedDedup(self)

    def close(self, table: BinTable, now: int) -> pa.RecordBatch | None:
        table.remove(table.take_due(EXPIRES, now))
        return None

    def row_output(self, chunk: Chunk) -> pa.RecordBatch | None:
        chosen = chunk.rows.select(self.output.names).filter(pa.array(chunk.results[FIRST].view(bool)))
        return pa.RecordBatch.from_arrays(chosen.columns, schema=self.output)


@compiled
def _first_ever(slots, order, seen, first):
    """Mark the first row of each key."""
    for i in range(len(slots)):
        first[order[i]] = 1 - seen[slots[i]]
        seen[slots[i]] = 1


@compiled
def _first(slots, order, times, closed, delay, expires, seen, first):
    """Mark the first row of each key since it was forgotten; return when the next key expires."""
    earliest = FOREVER
    for i in range(len(slots)):
        r, s = order[i], slots[i]
        if seen[s] == 0 or expires[s] <= closed[r]:
            seen[s] = 1
            first[r] = 1
            expires[s] = times[r] + delay
            earliest = min(earliest, expires[s])
    return earliest
