"""The log of pushed events as a source of the service's loop: fair shares by tenant, with the offset in the commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from headgate.service.pace import ROW_UNITS, Pace
from headgate.service.push_lanes import read_rows
from headgate.service.push_log import PushLog
from headgate.service.sources import ALL_SLOTS
from headgate.sources.source import Demand, Range, Ranges, Source
from headgate.sql.source_schema import TIME, slot_type
from headgate.storage.store import Store

PUSHED = ""
"""The name of the stream of pushed events: no source has it."""
ROW = pa.schema(
    [("source", pa.int32()), (TIME, pa.timestamp("us")), *((slot, slot_type(slot)) for slot in ALL_SLOTS)]
)
"""The row that all sources share."""
PARTS_PER_RANGE = 100
"""Many small pushes become one range."""
ROWS_PER_RANGE = 10_000


class PushSource(Source):
    """What waits in a log. The tasks, to which it is sent, know the folder of the log only."""

    def __init__(
        self,
        log: PushLog,
        weights: Mapping[str, float] | None = None,
        pace: Pace | None = None,
        granting: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`weights` are those of tenants in the shares of a batch. The caller may change them. With a `pace`, tenants
        that have very many rows waiting do not lengthen the batches of others.
        """
        self._log: PushLog | None = log
        self._pace, self._granting = pace, granting
        self._store: Store = log.store
        self._weights = weights if weights is not None else {}
        self._columns: tuple[str, ...] = tuple(ROW.names)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_log": None, "_weights": {}, "_pace": None, "_granting": None}

    def schema(self) -> pa.Schema:
        """The row that all sources share, or some of its columns."""
        return pa.schema([ROW.field(name) for name in self._columns])

    def identity(self) -> dict[str, Any]:
        """The folder."""
        return {"source": "pushed", "path": self._store.url}

    def only(self, columns: Sequence[str]) -> PushSource:
        """The same with fewer columns."""
        fewer = object.__new__(PushSource)
        fewer.__dict__.update(self.__dict__)
        fewer._columns = tuple(name for name in ROW.names if name in set(columns))
        return fewer

    def plan(self, offset: Any, demand: Demand) -> Ranges:
        """A fair share of what waits. The log knows what is committed, so the offset given says nothing new."""
        assert self._log is not None, "it is planned where the log is"
        flow = self._log.flow
        rows = max(1, min(demand.rows, flow.batch_rows))
        size = max(1, flow.batch_bytes * rows // flow.batch_rows)
        waiting = self._log.waiting()
        most = self._most(waiting)
        taken, after, more = self._log.take(rows, size, self._weights, most)
        if not taken:
            return Ranges((), offset)
        if self._pace is not None:
            cut = [tenant for tenant, count in most.items() if count < waiting[tenant][0]]
            if not self._pace.may_begin({one.part.tenant for one in taken}, cut):
                return Ranges((), offset)
        ranges, some, count = list[Range](), list[Any](), 0
        for one in taken:
            some.append((one.lane, one.number, one.part.section, one.start, one.end, one.part.columns))
            count += one.rows
            if count >= ROWS_PER_RANGE or len(some) >= PARTS_PER_RANGE or one is taken[-1]:
                ranges.append(Range(tuple(some), count, len(some)))
                some, count = [], 0
        return Ranges(tuple(ranges), after, more)

    def _most(self, waiting: Mapping[str, tuple[int, int]]) -> dict[str, int]:
        """How many rows a tenant may have in a batch, where that is bounded."""
        if self._pace is None:
            return {}
        units = self._pace.most_units(waiting, self._granting)
        return {
            tenant: max(1, int(units[tenant] / (ROW_UNITS + size / rows))) if units[tenant] else 0
            for tenant, (rows, size) in waiting.items()
            if rows and units[tenant] < float("inf")
        }

    def read(self, what: Any) -> Iterator[pa.RecordBatch]:
        """The rows of some tenants in some files. What was damaged or removed raises an error that names the file."""
        schema = self.schema()
        whole = pa.concat_tables([self._rows(part) for part in what]).cast(schema).combine_chunks()
        yield from (batch for batch in whole.to_batches() if batch.num_rows)

    def _rows(self, part: Any) -> pa.Table:
        lane, number, section, start, end, _ = part
        rows = read_rows(self._store, lane, number, section).slice(start, end - start)
        arrays = [
            rows.column(name) if name in rows.column_names else pa.nulls(rows.num_rows, ROW.field(name).type)
            for name in self._columns
        ]
        return pa.table(arrays, schema=self.schema())


def columns_of_ranges(ranges: Sequence[Range]) -> list[str]:
    """The columns of the shared row that some ranges have values for."""
    found = {name for part in ranges for piece in part.what for name in piece[5]}
    return [name for name in ROW.names if name in found]
