"""A kernel bound to a stream: its types are known and its function is compiled."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from headgate.errors import KernelFailed
from headgate.kernels.body import Site
from headgate.kernels.compiled_loop import CompiledLoop, Work
from headgate.kernels.fields import ARROW, INSTANT
from headgate.kernels.function_source import FunctionSource
from headgate.kernels.interpreted import InterpretedLoop
from headgate.kernels.module import Program, Shape, program
from headgate.kernels.outputs import Outputs
from headgate.operators.base import BoundOperator, Chunk
from headgate.operators.event_time import COMPLETE, EventTime
from headgate.state.index import FOREVER, due_rows
from headgate.state.keys import KeySpec
from headgate.state.lanes import NO_INTS, LaneColumn, to_lane
from headgate.state.layout import Kind, StateColumn, StateLayout
from headgate.state.section import extract_keys
from headgate.state.table import BinTable

WAKE, EXPIRY = "_wake", "_expiry"


@dataclass(frozen=True)
class Options:
    """The options of a kernel that its `Shape` does not have."""

    name: str
    keep: tuple[str, ...]
    skip: bool
    compiled: bool


class BoundKernel(BoundOperator):
    """A kernel bound to the key and schema of a stream."""

    ordered = True
    resources = "CLL"  # state is bounded by its fields; a row is one call

    def __init__(
        self,
        options: Options,
        shape: Shape,
        key: KeySpec,
        schema: pa.Schema,
        event_time: EventTime | None,
        source: FunctionSource,
        timer: FunctionSource | None,
    ) -> None:
        self.options, self.shape, self.key, self.event_time = options, shape, key, event_time
        self.whole = (
            f"kernel {options.name} cannot split a key, because its function needs all rows of a key in order"
        )
        columns = [kind.column(name) for name, kind in shape.state.items()]
        columns += [StateColumn(WAKE, Kind.I64)] * shape.timed
        columns += [StateColumn(EXPIRY, Kind.I64)] * (shape.ttl is not None)
        self.layout = StateLayout(key.is_fixed, tuple(columns))
        self._file = source.file
        self._plan: Program | InterpretedLoop
        self._plan = (program if options.compiled else InterpretedLoop)(shape, source, timer)
        reads = self._plan.reads
        time = (event_time.column,) if event_time else ()
        self.inputs = tuple(dict.fromkeys([*reads, *options.keep, *time]))
        fields = [*zip(key.names, key.types, strict=True)]
        fields += [(n, schema.field(n).type) for n in options.keep]
        fields += [(n, ARROW[sort]) for n, sort in shape.output.items()]
        self.output = pa.schema([pa.field(n, t) for n, t in fields])
        self._reads = reads
        text = "\n".join([source.normal(), timer.normal() if timer else ""])
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        self._identity = {
            "operator": f"kernel({options.name})",
            "fields": {name: str(kind) for name, kind in shape.state.items()},
            "output": {name: str(sort) for name, sort in shape.output.items()},
            "keep": list(options.keep),
            "inputs": {n: str(schema.field(n).type) for n in self.inputs},
            "time": [event_time.fingerprint() if event_time else None, shape.ttl],
            "source": f"{options.name} {digest}",
        }
        if options.compiled:
            try:
                self._warm_up(schema)
            except NumbaError as error:
                lines = [
                    line
                    for line in str(error).splitlines()
                    if line and not line.startswith(("Failed", "During"))
                ]
                message = lines[0] if lines else type(error).__name__
                source.refuse(
                    source.tree, f"numba cannot compile it ({message})", "simplify it, or pass compiled=False"
                )

    def _warm_up(self, schema: pa.Schema) -> None:
        """Compile now, into the cache on disk, so that no worker compiles in its first batch."""
        if isinstance(self._loop, CompiledLoop) and self._loop.is_compiled:
            return
        no_rows = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
        keys = self.key.encode([no_rows.column(n) for n in self.key.names], NO_INTS)
        chunk = Chunk(no_rows, keys, self.lanes(no_rows))
        self.begin(chunk)
        table = BinTable.create(self.layout)
        self.update(table, NO_INTS, NO_INTS, chunk)
        if self.shape.timed:
            self._fire(table, NO_INTS, chunk.parts[0])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_loop"}

    @cached_property
    def _loop(self) -> CompiledLoop | InterpretedLoop:
        if isinstance(self._plan, InterpretedLoop):
            return self._plan
        return CompiledLoop(self.options.name, self._plan, self.shape.state, self.shape.row)

    def fingerprint(self) -> dict[str, Any]:
        return {**self._identity, "state": self.layout.fingerprint()}

    def lanes(self, rows: pa.RecordBatch) -> dict[str, LaneColumn]:
        return {name: to_lane(_micros(rows.column(name))) for name in self._reads}

    def begin(self, chunk: Chunk) -> None:
        chunk.parts.append(Outputs(self.shape.output, len(chunk)))

    def update(
        self, table: BinTable, slots: NDArray[np.int64], order: NDArray[np.int64], chunk: Chunk
    ) -> None:
        outputs = chunk.parts[0]
        outputs.soonest = FOREVER  # for this bin only

        def failed(row: int, site: Site) -> None:
            self._fail(chunk.rows.select(self.key.names), row, site)

        work = Work(table, slots, order, outputs, None if self.options.skip else failed)
        bad = self._loop.rows(work, chunk.lanes, lambda rows: table.probe(chunk.keys, rows))
        self._put_aside(chunk, *bad)
        table.due = min(table.due, outputs.soonest)

    def _put_aside(self, chunk: Chunk, bad: NDArray[np.int64], sites: NDArray[np.int64]) -> None:
        for number in np.unique(sites).tolist():
            chunk.aside.append((bad[sites == number], self._loop.reason(number)))

    def _fail(self, keys: pa.RecordBatch, row: int, site: Site) -> None:
        named = ", ".join(f"{n}={v!r}" for n, v in keys.slice(row, 1).to_pylist()[0].items())
        where = f"{self._file}:{site.line}" + (f" (`{site.text}`)" if site.text else "")
        raise KernelFailed(
            f"kernel {self.options.name} failed on a row of key {named}: {site.what}, at {where}; "
            "fix the kernel or the data, or pass on_error='skip' to put such rows aside"
        )

    def row_output(self, chunk: Chunk) -> pa.RecordBatch | None:
        outputs = chunk.parts[0]
        if not len(outputs):
            return None
        rows = pa.array(outputs.rows[: len(outputs)])
        kept = [chunk.rows.column(n).take(rows) for n in (*self.key.names, *self.options.keep)]
        return pa.RecordBatch.from_arrays([*kept, *outputs.columns()], schema=self.output)

    def close(self, table: BinTable, now: int) -> pa.RecordBatch | None:
        outputs = Outputs(self.shape.output, 0)
        if self.shape.timed:
            self._fire_until(table, now, outputs)
        if self.shape.ttl is not None:
            table.remove(_due(table, EXPIRY, now)[0])
        bounds = [_due(table, name, now)[1] for name in (WAKE, EXPIRY) if name in table.arrays]
        table.due = min(bounds, default=FOREVER)
        count = len(outputs)
        if not count:
            return None
        keys = self.key.decode(extract_keys(table, outputs.rows[:count]))
        kept = [pa.nulls(count, self.output.field(n).type) for n in self.options.keep]
        return pa.RecordBatch.from_arrays([*keys, *kept, *outputs.columns()], schema=self.output)

    def _fire_until(self, table: BinTable, now: int, outputs: Outputs) -> None:
        """Fire the timers that are due by `now`, and those that they set.

        A key that expires before its timer loses the timer. When the input is complete each timer fires
        only once, because a timer that sets itself again would never end.
        """
        rows, _ = _due(table, WAKE, now)
        unset = table.arrays[WAKE][rows] == 0  # no row of these keys has been processed without failure yet
        table.arrays[WAKE][rows[unset]] = FOREVER
        while True:
            wake = table.arrays[WAKE]
            rows = rows[(wake[rows] <= now) & (table.arrays["stamp"][rows] >= 0)]
            if self.shape.ttl is not None:
                rows = rows[wake[rows] <= table.arrays[EXPIRY][rows]]
            if not len(rows):
                return
            table.mark(rows)
            self._fire(table, rows, outputs)
            if now == COMPLETE:
                return

    def _fire(self, table: BinTable, rows: NDArray[np.int64], outputs: Outputs) -> None:
        def failed(slot: int, site: Site) -> None:
            columns = self.key.decode(extract_keys(table, np.array([slot])))
            keys = pa.RecordBatch.from_arrays(columns, names=list(self.key.names))
            self._fail(keys, 0, replace(site, what=f"in its timer, {site.what}"))

        self._loop.timers(Work(table, rows, rows, outputs, failed))


def _due(table: BinTable, column: str, now: int) -> tuple[NDArray[np.int64], int]:
    """The rows that are due by `now`, and the earliest time of the others."""
    rows, earliest = due_rows(table.header, table.arrays["stamp"], table.arrays[column], now)
    return np.asarray(rows), int(earliest)


def _micros(column: pa.Array) -> pa.Array:
    return column.cast(INSTANT) if pa.types.is_timestamp(column.type) and column.type.unit != "us" else column
