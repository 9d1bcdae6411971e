# mypy: allow-untyped-defs, allow-untyped-calls
"""Two streams joined by key within bounds of time.

`headgate.spark.two_streams` merges them into one stream in which each row names its side. A row
stays in the state until no row of the other side can match it without being late; the part of its
state row is its number. The rows of a chunk are joined with each other and with the state of their
keys, key by key. They are sorted by time, so a row costs two binary searches and its matches. As in
SQL a null key matches nothing.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.compiled import compiled, inlined
from headgate.errors import ConfigError, MissingColumn
from headgate.operators.aggregate import emitted
from headgate.operators.base import BoundOperator, Chunk, Operator, column_type
from headgate.operators.event_time import EventTime, parse_duration
from headgate.operators.groups import by_key, state_rows, store_packed
from headgate.state import kernels as k
from headgate.state.keys import KeySpec, pack, unpack
from headgate.state.lanes import NO_BYTES, NO_INTS, LaneColumn, carrier_of, to_lane
from headgate.state.layout import Kind, StateColumn, StateLayout
from headgate.state.section import extract
from headgate.state.table import BinTable

How = Literal["inner", "left", "right", "full", "semi", "anti"]
SIDE, TIME, LEFT, RIGHT = "side", "time", "left_", "right_"
ROW, MATCHED, DUE = "row", "matched", "due"


class Join(Operator):
    """Joins two streams by the stage's key and by time.

    Two rows match if the right row's time is at most `before` earlier and at most `after` later than
    the left row's. The stage's input is `hg.two_streams(left, right, key=..., time=...)`. `delay` is
    how late rows may be, for both streams or as (left, right); the watermark is that of the slower
    side. `how` is inner, left, right, full, semi (left rows with a match) or anti (left rows without
    one). A row without a match is emitted once no match can come any more. Emits the key columns,
    `left_...` and `right_...`.

    >>> Join("left", after="1 hour", delay="10 minutes")
    Join('left', before='0 s', after='1 hour', delay='10 minutes')
    """

    def __init__(
        self,
        how: How = "inner",
        *,
        before: str = "0 s",
        after: str = "0 s",
        delay: str | tuple[str, str],
        ahead: str = "1 day",
    ) -> None:
        if how not in get_args(How):
            raise ConfigError(f"how={how!r}: streams can be joined {', '.join(map(repr, get_args(How)))}")
        self.how, self.before, self.after, self.delay, self.ahead = how, before, after, delay, ahead
        self.before_us, self.after_us = parse_duration(before, "before"), parse_duration(after, "after")
        both = (delay, delay) if isinstance(delay, str) else tuple(delay)
        if len(both) != 2:
            raise ConfigError(f"delay={delay!r}: give one, or one of the left and one of the right stream")
        delays = tuple(parse_duration(duration, "delay") for duration in both)
        self.event_time = EventTime(TIME, delays, parse_duration(ahead, "ahead", least=1), source=SIDE)

    def __repr__(self) -> str:
        ahead = "" if self.ahead == "1 day" else f", ahead={self.ahead!r}"
        bounds = f"before={self.before!r}, after={self.after!r}, delay={self.delay!r}"
        return f"Join({self.how!r}, {bounds}{ahead})"

    def bind(self, key: KeySpec, schema: pa.Schema) -> BoundJoin:
        """Check the columns of both sides."""
        if SIDE not in schema.names or TIME not in schema.names:
            raise MissingColumn(
                f"{self!r} joins two streams in one; give the stage hg.two_streams(left, right, key=..., time=...), "
                f"not a stream of {', '.join(map(repr, schema.names))}"
            )
        column_type(schema, TIME, repr(self))
        self.event_time.check(schema, repr(self))
        return BoundJoin(self, key, schema)


class BoundJoin(BoundOperator):
    """A join bound to the key and schema of a stream."""

    ordered = False
    probes = False
    gathers = True
    whole = "Join cannot split a key, because its rows must meet in one bin"
    resources = "LQQ"  # all rows within the bounds are kept, and each is compared with the other side's

    def __init__(self, config: Join, key: KeySpec, schema: pa.Schema) -> None:
        self.config, self.key, self.event_time = config, key, config.event_time
        self.columns = [[n for n in schema.names if n.startswith(prefix)] for prefix in (LEFT, RIGHT)]
        names = [*self.columns[0], *self.columns[1]]
        for name in names:
            carrier_of(schema.field(name).type, f"column {name!r}")
        self.inputs = (SIDE, TIME, *names)
        self.types = [schema.field(n).type for n in names]
        fixed = (StateColumn(SIDE, Kind.U8), StateColumn(TIME, Kind.I64), StateColumn(MATCHED, Kind.U8))
        columns = (*fixed, StateColumn(DUE, Kind.I64), StateColumn(ROW, Kind.BYTES))
        self.layout = StateLayout(key.is_fixed, columns, parts=True, grouped=True)
        shown = self.columns[0] if config.how in ("semi", "anti") else names
        self.output = emitted(key, [(n, schema.field(n).type) for n in shown], "Join")
        self._spans = (config.after_us, config.before_us)
        self._unmatched = [config.how in ("left", "full", "anti"), config.how in ("right", "full")]

    def fingerprint(self) -> dict[str, Any]:
        columns = dict(zip(self.inputs[2:], map(str, self.types), strict=True))
        return {"operator": repr(self.config), "inputs": columns, "state": self.layout.fingerprint()}

    def lanes(self, rows: pa.RecordBatch) -> dict[str, LaneColumn]:
        return {name: to_lane(rows.column(name)) for name in (SIDE, TIME)}

    def begin(self, chunk: Chunk) -> None:
        offsets, data = pack([chunk.rows.column(n) for n in self.inputs[2:]], len(chunk))
        null = np.zeros(len(chunk), bool)
        for name in self.key.names:
            if chunk.rows.column(name).null_count:
                null |= chunk.rows.column(name).is_null().to_numpy(zero_copy_only=False)
        chunk.results |= {"offsets": offsets, "data": data, "null": null}

    def update(
        self, table: BinTable, slots: NDArray[np.int64], order: NDArray[np.int64], chunk: Chunk
    ) -> None:
        sides, times = chunk.lanes[SIDE].data, chunk.lanes[TIME].data
        null = chunk.results["null"]
        known = order[~null[order]] if null.any() else order
        known = known[np.argsort(times[known], kind="stable")]
        rows, keys = by_key(chunk.keys, known, fixed_key=self.layout.fixed_key)
        kept, starts = state_rows(table, chunk.keys, rows[keys[:-1]], by=TIME)
        pairs = _pairs(
            rows, keys, sides, times, self.config.before_us, self.config.after_us,
            kept, starts, table.arrays[SIDE], table.arrays[TIME],
        )  # fmt: skip
        matched = np.zeros(len(chunk), bool)
        for ids in pairs[:2]:
            matched[-1 - ids[ids < 0]] = True
        store = np.where(null[order], np.array(self._unmatched)[sides[order]], True)
        if self.config.how in ("semi", "anti"):  # a left row with a match is no longer needed
            ids, first = np.unique(pairs[0], return_index=True)
            if self.config.how == "semi":
                chunk.parts.append((table, ids, ids, pairs[2][first]))
            table.remove(ids[ids >= 0])
            store &= ~(matched[order] & (sides[order] == 0))
        else:
            chunk.parts.append((table, *pairs))
            for ids in (pairs[side] for side in (0, 1) if self._unmatched[side]):
                met = np.unique(ids[ids >= 0])
                news = met[table.arrays[MATCHED][met] == 0]
                table.arrays[MATCHED][news] = 1
                table.mark(news)
        self._store(table, order[store], matched, chunk)

    def _store(
        self, table: BinTable, rows: NDArray[np.int64], matched: NDArray[np.bool_], chunk: Chunk
    ) -> None:
        sides, times = chunk.lanes[SIDE].data[rows], chunk.lanes[TIME].data[rows]
        slots = table.probe(chunk.keys, rows, chunk.serial + rows)
        due = times + np.where(sides == 0, *self._spans)
        values = {SIDE: sides, TIME: times, MATCHED: matched[rows], DUE: due}
        for name, column in values.items():
            table.arrays[name][slots] = column
        table.due = min(table.due, int(due.min(initial=table.due)))
        store_packed(table, ROW, slots, rows, (chunk.results["offsets"], chunk.results["data"]))

    def row_output(self, chunk: Chunk) -> pa.RecordBatch | None:
        parts = [part for part in chunk.parts if len(part[3])]
        if not parts:
            return None
        of = np.concatenate([part[3] for part in parts])
        columns = [chunk.rows.column(n).take(pa.array(of)) for n in self.key.names]
        for side, names in enumerate(self.columns):
            if side == 0 or self.config.how not in ("semi", "anti"):
                columns += self._side(chunk, [(part[0], part[1 + side]) for part in parts], side, names)
        return pa.RecordBatch.from_arrays(columns, schema=self.output)

    def _side(
        self, chunk: Chunk, parts: list[tuple[BinTable, NDArray[np.int64]]], side: int, names: list[str]
    ) -> list[pa.Array]:
        """The columns of one side for all pairs. A row of state is unpacked once, whatever its matches."""
        at, chosen, starts, data, size = len(chunk), [], [NO_INTS], [NO_BYTES], 0
        for table, ids in parts:
            slots, places = np.unique(ids[ids >= 0], return_inverse=True)
            offsets = k.gather_offsets(table.arrays[f"{ROW}.len"], slots)
            packed = np.empty(int(offsets[-1]), np.uint8)
            k.gather_bytes(table.heap, table.arrays[f"{ROW}.off"], slots, offsets, packed)
            index = -1 - ids
            index[ids >= 0] = at + places
            chosen.append(index)
            starts.append(offsets[:-1] + size)
            data.append(packed)
            at, size = at + len(slots), size + len(packed)
        kept = self._unpacked(np.concatenate(starts), np.concatenate(data), side)
        index = pa.array(np.concatenate(chosen))
        fresh = [chunk.rows.column(name) for name in names]
        return [pa.concat_arrays([new, old]).take(index) for new, old in zip(fresh, kept, strict=True)]

    def _unpacked(self, starts: NDArray[np.int64], data: NDArray[np.uint8], side: int) -> list[pa.Array]:
        columns = unpack(starts, data, self.types)
        cut = len(self.columns[0])
        return columns[:cut] if side == 0 else columns[cut:]

    def close(self, table: BinTable, now: int) -> pa.RecordBatch | None:
        gone = table.take_due(DUE, now)
        sides = table.arrays[SIDE][gone]
        unmatched = gone[(table.arrays[MATCHED][gone] == 0) & np.array(self._unmatched)[sides]]
        out = None
        if len(unmatched):
            piece = extract(table, unmatched, whole=True)
            offsets, data = piece.columns[ROW]
            columns = unpack(offsets[:-1], data, self.types)
            out = pa.RecordBatch.from_arrays(
                [*self.key.decode(piece.keys), *columns[: len(self.output) - len(self.key.names)]],
                schema=self.output,
            )
        table.remove(gone)
        return out


@inlined
def _search(times, ids, lo, hi, t, right):
    """The first position in `ids[lo:hi]`, which is sorted by time, with a time >= `t`, or (`right`) > `t`."""
    while lo < hi:
        mid = (lo + hi) // 2
        if times[ids[mid]] < t or (right and times[ids[mid]] == t):
            lo = mid + 1
        else:
            hi = mid
    return lo


@compiled
def _by_side(ids, starts, sides):
    """The ids of each group, left rows first, otherwise in their order; and where the right rows begin."""
    out, middle = np.empty(len(ids), np.int64), np.empty(len(starts) - 1, np.int64)
    for g in range(len(starts) - 1):
        at = starts[g]
        for side in range(2):
            middle[g] = at
            for i in range(starts[g], starts[g + 1]):
                if sides[ids[i]] == side:
                    out[at] = ids[i]
                    at += 1
    return out, middle


@compiled
def _pairs(rows, keys, sides, times, before, after, kept, starts, kept_side, kept_time):
    """(left, right, new row) of every match that involves a new row.

    A row of state is given by its number n, a new row by -1 - n. New rows and rows of state come by key,
    and sorted by time.
    """
    room = 64
    left, right, of = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    n = 0
    rows, middle = _by_side(rows, keys, sides)
    kept, waiting = _by_side(kept, starts, kept_side)
    for g in range(len(keys) - 1):
        for i in range(keys[g], keys[g + 1]):
            r = rows[i]
            t = times[r]
            if sides[r]:
                first, last = t - after, t + before
                lo, end = starts[g], waiting[g]
            else:
                first, last = t - before, t + after
                lo, end = waiting[g], starts[g + 1]
            lo = _search(kept_time, kept, lo, end, first, False)
            hi = _search(kept_time, kept, lo, end, last, True)
            a, b = 0, 0  # a new left row is also compared with the new right rows
            if not sides[r]:
                a = _search(times, rows, middle[g], keys[g + 1], first, False)
                b = _search(times, rows, a, keys[g + 1], last, True)
            more = hi - lo + b - a
            if n + more > room:
                room = max(2 * room, n + more)
                left, right, of = _wider(left, room), _wider(right, room), _wider(of, room)
            for j in range(more):
                other = kept[lo + j] if j < hi - lo else -1 - rows[a + j - (hi - lo)]
                left[n] = other if sides[r] else -1 - r
                right[n] = -1 - r if sides[r] else other
                of[n] = r
                n += 1
    return left[:n].copy(), right[:n].copy(), of[:n].copy()


@compiled
def _wider(array, size):
    wide = np.empty(size, np.int64)
    wide[: len(array)] = array
    return wide
