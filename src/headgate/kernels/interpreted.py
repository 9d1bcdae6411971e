"""Running a kernel's function as plain Python, row by row: slow, but print and debuggers work.

Tests compare the compiled kernel with this one, so the two share as little code as possible: here state
is read from the table into plain values before each row, and written back after it.
"""

from __future__ import annotations

import bdb
import datetime as dt
import inspect
import traceback
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.errors import KernelRefused
from headgate.kernels.arithmetic import DOMAIN, OVERFLOW, ZERO
from headgate.kernels.body import Site
from headgate.kernels.calls import TOO_LARGE
from headgate.kernels.compiled_loop import Bad, Probe, Work
from headgate.kernels.fields import EPOCH, Field, Map, Ring, Scalar, Sort, Text, unread_column
from headgate.kernels.function_source import FunctionSource, columns_read
from headgate.kernels.instrument import instrumented
from headgate.kernels.module import Shape, program
from headgate.kernels.statements import NO_END, RAISES, TOO_SOON
from headgate.kernels.values import (
    Failure,
    Instant,
    Int64,
    MapView,
    RingView,
    bounded,
    from_raw,
    to_raw,
)
from headgate.state import kernels as k
from headgate.state.index import FOREVER
from headgate.state.lanes import LaneColumn
from headgate.state.table import BinTable


class Row:
    """A row; its columns are attributes and items."""

    def __init__(self, columns: Mapping[str, tuple[Sort, LaneColumn]], at: int) -> None:
        self._columns, self._at = columns, at

    def __getattr__(self, name: str) -> Any:
        if self._is_null(name):
            raise Failure(f"column {name!r} is null")
        sort, lane = self._columns[name]
        if sort is Sort.TEXT:
            return bytes(lane.data[lane.offsets[self._at] : lane.offsets[self._at + 1]]).decode()
        return from_raw(sort, lane.data[self._at])

    __getitem__ = __getattr__

    def _is_null(self, name: str) -> bool:
        if name not in self._columns:
            raise Failure(f"the stream has no column {name!r}")
        valid = self._columns[name][1].valid
        return bool(len(valid)) and not valid[self._at]


class State:
    """A key's state as a row sees it: nothing is written before the row has succeeded."""

    def __init__(self, fields: Mapping[str, Field], table: BinTable, slot: int) -> None:
        set_ = object.__setattr__
        set_(self, "_fields", fields)
        set_(self, "_gone", False)
        set_(self, "_wake", FOREVER)
        set_(self, "_values", {n: _loaded(table, n, kind, slot) for n, kind in fields.items()})

    def plain(self) -> dict[str, Any]:
        """The fields as Python's own values."""
        return {name: _plain(value) for name, value in self._values.items()}

    def __getattr__(self, name: str) -> Any:
        if name not in self._values:
            raise Failure(f"state has no field {name!r}; it has {', '.join(self._values)}")
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        kind = self._fields.get(name)
        if isinstance(kind, Scalar):
            self._values[name] = from_raw(kind.sort, to_raw(kind.sort, value, f"state.{name}"))
        elif isinstance(kind, Text):
            self._values[name] = bounded(name, kind, value)
        else:
            raise Failure(f"state.{name} cannot be assigned; it is {kind or 'not a field'}")

    def forget(self) -> None:
        """Remove the key after this row."""
        object.__setattr__(self, "_gone", True)

    def wake_at(self, when: Instant) -> None:
        """Set the key's timer."""
        micros = to_raw(Sort.INSTANT, when, "the time to wake")
        object.__setattr__(self, "_wake", micros or 1)


def _plain(value: Any) -> Any:
    if isinstance(value, RingView):
        return [_plain(v) for v in value]
    if isinstance(value, MapView):
        return {_plain(x): _plain(y) for x, y in value.items()}
    if isinstance(value, Instant):
        return EPOCH + dt.timedelta(microseconds=int(value.micros))
    return int(value) if isinstance(value, Int64) else value


def _loaded(table: BinTable, name: str, kind: Any, slot: int) -> Any:
    a = table.arrays
    if isinstance(kind, Scalar):
        return from_raw(kind.sort, a[name][slot])
    start = int(a[f"{name}.off"][slot])
    if isinstance(kind, Ring):
        words = _words(table, kind.sort)
        first = start // 8 + int(a[f"{name}.at"][slot])
        return RingView(name, kind, words[first : first + int(a[f"{name}.len"][slot])].tolist())
    raw = bytes(table.heap[start : start + int(a[f"{name}.len"][slot])])
    if isinstance(kind, Text):
        return raw.decode()
    words = np.frombuffer(raw, np.int64).reshape(-1, 2)
    values = words[:, 1].view(np.float64) if kind.value is Sort.FLOAT else words[:, 1]
    pairs = zip(words[:, 0].tolist(), values.tolist(), strict=True)
    return MapView(name, kind, {from_raw(kind.key, x): from_raw(kind.value, y) for x, y in pairs})


class InterpretedLoop:
    """A kernel's functions, called for each row."""

    def __init__(self, shape: Shape, source: FunctionSource, timer: FunctionSource | None) -> None:
        self.shape, self.source, self.timer = shape, source, timer
        self.sites: list[Site] = []
        self._emitted: list[list[Any]] = []
        self._steps = 0
        try:
            plan = program(shape, source, timer)
            self.reads, self._promoted = plan.reads, plan.promoted
        except KernelRefused:
            # what cannot be compiled can still be called, and may read any column that a kernel can read
            _check_columns(source, shape.unread)
            self.reads, self._promoted = tuple(shape.row), frozenset()

    def __getstate__(self) -> dict[str, Any]:
        return {n: v for n, v in self.__dict__.items() if n != "_functions"}

    def reason(self, number: int) -> str:
        """Why rows with this site were put aside."""
        return self.sites[number - 1].reason

    def rows(self, work: Work, lanes: Mapping[str, LaneColumn], probe: Probe) -> Bad:
        """Apply rows; return those that failed and their sites, unless `work.failed` is called for them."""
        columns = {name: (self.shape.row[name], lane) for name, lane in lanes.items()}
        moved: dict[int, int | None] = {}
        bad: list[tuple[int, int]] = []
        for at, (r, given) in enumerate(zip(work.order.tolist(), work.slots.tolist(), strict=True)):
            slot = moved.get(given, given)
            if slot is None:
                slot = moved[given] = int(probe(work.order[at : at + 1])[0])
            state = State(self.shape.state, work.table, slot)
            if self.shape.timed and work.table.arrays["_wake"][slot] != 0:
                object.__setattr__(state, "_wake", int(work.table.arrays["_wake"][slot]))
            emitted, site = self._call(self.source, state, Row(columns, r))
            if site is not None:
                if work.failed is not None:
                    work.failed(r, site)
                bad.append((r, self._number(site)))
                continue
            for values in emitted:
                work.outputs.append(r, values)
            if self._write(work, slot, state, self._expiry(work.table, slot, columns, r)):
                moved[given] = None
        return np.array([r for r, _ in bad], np.int64), np.array([n for _, n in bad], np.int64)

    def timers(self, work: Work) -> None:
        """Fire the timers of the given state rows."""
        assert self.timer is not None
        table = work.table
        for slot in work.slots.tolist():
            state = State(self.shape.state, table, slot)
            now = int(table.arrays["_wake"][slot])
            emitted, site = self._call(self.timer, state, Instant(now))
            if site is None and state._wake <= now:
                site = Site(TOO_SOON, self.timer.tree.lineno, "")
            if site is not None:
                assert work.failed is not None
                work.failed(slot, site)
            for values in emitted:
                work.outputs.append(slot, values)
            expiry = int(table.arrays["_expiry"][slot]) if self.shape.ttl is not None else FOREVER
            self._write(work, slot, state, expiry)

    def _expiry(self, table: BinTable, slot: int, columns: Mapping[str, Any], r: int) -> int:
        if self.shape.ttl is None or self.shape.time is None:
            return FOREVER
        came = int(columns[self.shape.time][1].data[r]) + self.shape.ttl
        before = int(table.arrays["_expiry"][slot])
        return max(before, came) if before else came

    def _call(self, source: FunctionSource, state: State, second: Any) -> tuple[list[list[Any]], Site | None]:
        """(the emitted rows, or why the call failed)."""
        rows = self._emitted = []
        self._steps = 0
        try:
            result = self._functions[source.name](state, second)
            if inspect.isgenerator(result):
                for emitted in result:
                    rows.append(self._row(emitted))
            elif result is not None:
                for emitted in result if isinstance(result, list) else [result]:
                    if emitted is not None:
                        rows.append(self._row(emitted))
        except bdb.BdbQuit:
            raise
        except Exception as error:  # any exception is a failure of this row
            frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == source.file]
            line = frames[-1].lineno or source.tree.lineno if frames else source.tree.lineno
            return [], Site(_message(error), line, source.line(line))
        return rows, None

    @cached_property
    def _functions(self) -> dict[str, Callable[..., Any]]:
        sources = [source for source in (self.source, self.timer) if source is not None]
        return {s.name: instrumented(s, self._promoted, self._step, self._emit) for s in sources}

    def _step(self) -> bool:
        self._steps += 1
        if self._steps > self.shape.max_steps:
            raise Failure(NO_END.format(self.shape.max_steps))
        return True

    def _emit(self, *values: Any, **named: Any) -> None:
        self._emitted.append(self._row(named if named else values))

    def _row(self, given: Any) -> list[Any]:
        wanted = list(self.shape.output)
        if isinstance(given, dict):
            if set(given) != set(wanted):
                raise Failure(
                    f"a row has the columns {', '.join(wanted)}, but this emits {', '.join(map(str, given))}"
                )
            given = tuple(given[name] for name in wanted)
        values = given if isinstance(given, tuple) else (given,)
        if len(values) != len(wanted):
            raise Failure(f"a row has the columns {', '.join(wanted)}, but this emits {len(values)} values")
        sorts = self.shape.output.items()
        return [
            None if v is None else to_raw(sort, v, f"output column {name!r}")
            for (name, sort), v in zip(sorts, values, strict=True)
        ]

    def _number(self, site: Site) -> int:
        if site not in self.sites:
            self.sites.append(site)
        return self.sites.index(site) + 1

    def _write(self, work: Work, slot: int, state: State, expiry: int) -> bool:
        """Write a row's changes; return whether the key was forgotten."""
        table = work.table
        if state._gone:
            table.remove(np.array([slot]))
            return True
        for name, kind in self.shape.state.items():
            held = state._values[name]
            if isinstance(kind, Scalar):
                table.arrays[name][slot] = to_raw(kind.sort, held, name)
            elif isinstance(kind, Ring):
                for value in held.new:
                    while not k.ring_push(
                        table.header,
                        _words(table, kind.sort),
                        *table.ring_parts(name),
                        slot,
                        value,
                        kind.most,
                    ):
                        table.grow()
            else:
                raw = np.frombuffer(bytearray(_packed(kind, held)), np.uint8)
                while not k.put_bytes(
                    table.header,
                    table.heap,
                    table.arrays[f"{name}.off"],
                    table.arrays[f"{name}.len"],
                    slot,
                    raw,
                    0,
                    len(raw),
                ):
                    table.grow()
        if self.shape.timed:
            table.arrays["_wake"][slot] = state._wake
            work.outputs.soonest = min(work.outputs.soonest, state._wake)
        if self.shape.ttl is not None:
            table.arrays["_expiry"][slot] = expiry
            work.outputs.soonest = min(work.outputs.soonest, expiry)
        return False


def _check_columns(source: FunctionSource, unread: Mapping[str, str]) -> None:
    for node, name in columns_read(source):
        if name in unread:
            source.refuse(node, *unread_column(name, unread[name]))


def _words(table: BinTable, sort: Sort) -> NDArray[Any]:
    return table.heap64 if sort is Sort.FLOAT else table.heap.view(np.int64)


def _packed(kind: Text | Map, held: Any) -> bytes:
    if isinstance(kind, Text):
        return str(held).encode()
    words = np.zeros((len(held), 2), np.int64)
    for at, (key, value) in enumerate(held.items()):
        words[at, 0] = to_raw(kind.key, key, "a key")
        if kind.value is Sort.FLOAT:
            words[at, 1] = np.float64(value).view(np.int64)
        else:
            words[at, 1] = to_raw(kind.value, value, "a value")
    return words.tobytes()


def _message(error: Exception) -> str:
    """The message of compiled code for the same failure."""
    if isinstance(error, Failure):
        return str(error)
    if isinstance(error, ZeroDivisionError):
        return ZERO
    if "cannot convert float" in str(error):
        return OVERFLOW
    if isinstance(error, OverflowError):
        return TOO_LARGE
    if isinstance(error, ValueError) and "domain" in str(error):
        return DOMAIN
    if isinstance(error, TypeError | AttributeError | NameError | LookupError):
        return f"{type(error).__name__}: {error}"
    return str(error) or RAISES
