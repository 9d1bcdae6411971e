# mypy: allow-untyped-defs, allow-untyped-calls
"""Aggregates over windows of event time: tumbling and hopping (`sessions.py` has the third kind).

A key has a state row for each of its open windows; the part is the window's start. As in Spark, windows
are aligned to 1970 in UTC, a window is [start, end), and it closes when the watermark reaches its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.compiled import compiled
from headgate.errors import ConfigError
from headgate.operators.agg import Agg
from headgate.operators.aggregate import AggregatingOperator, checked, emitted
from headgate.operators.base import Chunk, Operator, column_type
from headgate.operators.columns import column_name
from headgate.operators.combine_groups import by_hash
from headgate.operators.event_time import EventTime, parse_duration
from headgate.state.keys import KeySpec
from headgate.state.lanes import NO_INTS, LaneColumn, to_lane
from headgate.state.layout import Kind, StateColumn, StateLayout
from headgate.state.section import Extract, extract
from headgate.state.table import BinTable

if TYPE_CHECKING:
    from headgate.operators.combine import Combined

START, END, TIME = "window_start", "window_end", "time:"
Emit = Literal["append", "update"]


@dataclass(frozen=True)
class Tumbling:
    """Windows of `size` microseconds that start `every` so many microseconds."""

    size: int
    every: int
    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Session:
    """Rows of a key that are no more than `gap` microseconds apart."""

    gap: int
    text: str

    def __repr__(self) -> str:
        return self.text


def tumbling(size: str) -> Tumbling:
    """Windows that neither overlap nor leave gaps.

    >>> tumbling("10 minutes")
    tumbling('10 minutes')
    """
    long = parse_duration(size, "size", least=1)
    return Tumbling(long, long, f"tumbling({size!r})")


def hopping(size: str, every: str) -> Tumbling:
    """Windows that overlap: a row is in every window that covers it.

    >>> hopping("10 minutes", every="5 minutes")
    hopping('10 minutes', every='5 minutes')
    """
    long, step = parse_duration(size, "size", least=1), parse_duration(every, "every", least=1)
    if step > long:
        raise ConfigError(
            f"every={every!r} is longer than size={size!r}: rows in between would be in no window"
        )
    return Tumbling(long, step, f"hopping({size!r}, every={every!r})")


def session(gap: str) -> Session:
    """Windows that last as long as rows keep coming: a new one starts after more than `gap` without a row.

    >>> session("30 minutes")
    session('30 minutes')
    """
    return Session(parse_duration(gap, "gap", least=1), f"session({gap!r})")


class Windows(Operator):
    """Aggregates by key and window of event time.

    `on` is the column with a row's event time. `delay` is how late rows may be: a window stays open until
    the watermark, the newest time minus the delay, has reached its end. With `emit="append"` a window is
    emitted once, when it closes; with `"update"` after each batch that touched it. Emits the key columns,
    `window_start`, `window_end`, then the aggregates in the given order.

    Timestamps that are more than `ahead` in front of all others are counted and do not move the watermark
    (see `headgate.far_ahead`).

    >>> from headgate import agg
    >>> Windows(tumbling("10 minutes"), on="time", delay="5 minutes", n=agg.count())
    Windows(tumbling('10 minutes'), on='time', delay='5 minutes', n=count())
    """

    def __init__(
        self,
        window: Tumbling | Session,
        *,
        on: str,
        delay: str,
        emit: Emit = "append",
        ahead: str = "1 day",
        **aggregates: Agg,
    ) -> None:
        if not isinstance(window, Tumbling | Session):
            raise ConfigError(
                f"{window!r} is not a window; write hg.tumbling('10 minutes'), hg.hopping(...) or hg.session(...)"
            )
        on = column_name(on, "on")
        if emit not in ("append", "update"):
            raise ConfigError(
                f"emit={emit!r}: windows are emitted 'append' (once, when they close) or 'update'"
            )
        if emit == "update" and isinstance(window, Session):
            raise ConfigError(
                "emit='update': a session has no start or end that lasts until it closes; use 'append'"
            )
        self.window, self.on, self.emit = window, on, emit
        self.delay, self.ahead = delay, ahead
        self.event_time = EventTime(
            on, (parse_duration(delay, "delay"),), parse_duration(ahead, "ahead", least=1)
        )
        self.aggregates = checked("Windows", aggregates)

    def __repr__(self) -> str:
        emit = "" if self.emit == "append" else f", emit={self.emit!r}"
        ahead = "" if self.ahead == "1 day" else f", ahead={self.ahead!r}"
        columns = "".join(f", {n}={a!r}" for n, a in self.aggregates.items())
        return f"Windows({self.window!r}, on={self.on!r}, delay={self.delay!r}{emit}{ahead}{columns})"

    def bind(self, key: KeySpec, schema: pa.Schema) -> BoundWindows:
        """Check the windows against the stream's columns."""
        column_type(schema, self.on, repr(self))
        self.event_time.check(schema, repr(self))
        if isinstance(self.window, Session):
            from headgate.operators.sessions import BoundSessions

            return BoundSessions(self, key, schema)
        return BoundWindows(self, key, schema)


class BoundWindows(AggregatingOperator):
    """Windows bound to the key and schema of a stream."""

    probes = False
    resources = "CLL"  # as many windows as the delay keeps open, whatever the key's frequency

    def __init__(self, config: Windows, key: KeySpec, schema: pa.Schema) -> None:
        super().__init__(config.aggregates, key, schema)
        self.config, self.window, self.event_time = config, config.window, config.event_time
        self.answers_by_key = config.emit == "update"
        self.whole = self.in_order("Windows", config.aggregates)
        hops = isinstance(config.window, Tumbling) and config.window.size != config.window.every
        self.counts_rows = self.counts_rows or hops  # a row touches every window that covers it
        self.inputs = tuple(dict.fromkeys([config.on, *self.inputs]))
        self.layout = self._layout(tuple(c for part in self.parts for c in part.columns()))
        self.time_type = schema.field(config.on).type
        times = [(START, self.time_type), (END, self.time_type)]
        self.output = emitted(key, [*times, *((p.name, p.type) for p in self.parts)], "Windows")

    def _layout(self, columns: tuple[StateColumn, ...]) -> StateLayout:
        return StateLayout(self.key.is_fixed, (StateColumn(END, Kind.I64), *columns), parts=True)

    def fingerprint(self) -> dict[str, Any]:
        return {"operator": repr(self.config), "inputs": self._types, "state": self.layout.fingerprint()}

    def lanes(self, rows: pa.RecordBatch) -> dict[str, LaneColumn]:
        return {**super().lanes(rows), TIME: to_lane(rows.column(self.config.on))}

    def late(self, times: NDArray[np.int64], closed: int) -> NDArray[np.bool_]:
        assert isinstance(self.window, Tumbling)
        size, every = self.window.size, self.window.every
        return times < ((closed - size) // every + 1) * every  # the last window of a row is closed

    def update(
        self, table: BinTable, slots: NDArray[np.int64], order: NDArray[np.int64], chunk: Chunk
    ) -> None:
        assert isinstance(self.window, Tumbling)
        size, every = self.window.size, self.window.every
        times = chunk.lanes[TIME].data
        if size == every:
            starts = times[order]
            starts = starts - starts % every
        else:
            of_key, first = by_hash(chunk.keys.hashes[order], NO_INTS)
            chunk.groups.append((order[first], np.bincount(of_key, minlength=len(first)).astype(np.int64)))
            order, starts = _windows(times, chunk.closed, order, size, every)
        slots = table.probe(chunk.keys, order, starts)
        table.arrays[END][slots] = starts + size
        table.due = min(table.due, int(starts.min(initial=table.due)) + size)
        self.accumulate(table, slots, order, chunk)

    def combined(self) -> Combined | None:
        from headgate.operators.combine_windows import CombinedWindows

        return CombinedWindows(self) if isinstance(self.window, Tumbling) and not self.ordered else None

    def starts(self, rows: Extract) -> NDArray[np.int64]:
        """The start of each window."""
        return rows.keys.parts

    def key_output(self, touched: Extract) -> pa.RecordBatch | None:
        times = [pa.array(t).view(self.time_type) for t in (self.starts(touched), touched.columns[END])]
        arrays = [*self.key.decode(touched.keys), *times, *self.answers(touched)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.output)

    def close(self, table: BinTable, now: int) -> Extract | None:
        rows = table.take_due(END, now)
        emits = len(rows) > 0 and self.config.emit == "append"
        closed = extract(table, rows, whole=True) if emits else None
        table.remove(rows)
        return closed


@compiled
def _windows(times, closed, order, size, every):
    """(input row, start) of each window that covers a row and was open when the row arrived."""
    most = (size + every - 1) // every
    rows = np.empty(len(order) * most, np.int64)
    starts = np.empty(len(order) * most, np.int64)
    n = 0
    for r in order:
        start = times[r] - times[r] % every
        while start + size > times[r]:
            if start + size > closed[r]:
                rows[n] = r
                starts[n] = start
                n += 1
            start -= every
    return rows[:n].copy(), starts[:n].copy()
