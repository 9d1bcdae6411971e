"""A function over tables: it takes the state and rows of some keys, and returns new state and rows to emit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.errors import ConfigError
from headgate.operators.base import BoundOperator, Chunk, Operator, column_type
from headgate.operators.groups import by_key, store_packed
from headgate.state.keys import KeySpec, pack, unpack
from headgate.state.lanes import LaneColumn, carrier_of
from headgate.state.layout import Kind, StateColumn, StateLayout
from headgate.state.payload import plain, plain_type
from headgate.state.section import extract
from headgate.state.table import BinTable

Step = Callable[[pa.Table, pa.Table], tuple[pa.Table, pa.Table]]
Columns: TypeAlias = "pa.Schema | Mapping[str, pa.DataType]"
ROW = "row"


class Vectorised(Operator):
    """Calls `fn(state, rows) -> (state, output)` with Arrow tables, for the keys of one bin at a time.

    `rows` has the stream's columns (or those named in `reads`), in the order of the source. `state`
    has the key columns and the columns of the schema `state`, with one row for each of these keys
    that has state. The state that `fn` returns replaces the old one; a key that it omits is
    forgotten. `fn` may be called several times in a batch, and its result for a key must not depend
    on the other keys of the call.

    >>> def step(state, rows):
    ...     return state, rows
    >>> Vectorised(step, state={"n": pa.int64()}, output={"user": pa.int64()})
    Vectorised(step, state={'n': 'int64'}, output={'user': 'int64'})
    """

    def __init__(
        self,
        fn: Step,
        *,
        state: Columns,
        output: Columns,
        reads: Sequence[str] | None = None,
        resources: str = "CLL",
    ) -> None:
        if not callable(fn):
            raise ConfigError(f"{fn!r} is not a function of (state, rows)")
        if len(resources) != 3 or not set(resources) <= set("CLQ"):
            raise ConfigError(
                f"resources={resources!r}: a letter of C, L, Q for each of state, computation, communication"
            )
        self.fn, self.resources = fn, resources
        self.state, self.output = (
            s if isinstance(s, pa.Schema) else pa.schema(list(s.items())) for s in (state, output)
        )
        self.reads = None if reads is None else tuple(reads)

    def __repr__(self) -> str:
        state, output = ({f.name: str(f.type) for f in s} for s in (self.state, self.output))
        reads = "" if self.reads is None else f", reads={list(self.reads)}"
        return f"Vectorised({getattr(self.fn, '__name__', '?')}, state={state}, output={output}{reads})"

    def bind(self, key: KeySpec, schema: pa.Schema) -> BoundVectorised:
        """Check the columns."""
        for field in self.state:
            carrier_of(field.type, f"state column {field.name!r}")
            if field.name in key.names:
                raise ConfigError(
                    f"state column {field.name!r} has the name of a key column; the key is there by itself"
                )
        reads = [n for n in (schema.names if self.reads is None else self.reads) if n not in key.names]
        for name in reads:
            column_type(schema, name, repr(self))
        return BoundVectorised(self, key, schema, tuple(reads))


class BoundVectorised(BoundOperator):
    """A function over tables, bound to the key and schema of a stream."""

    ordered = True
    probes = False
    whole = "Vectorised cannot split a key, because its function needs all of a key's state"

    def __init__(self, config: Vectorised, key: KeySpec, schema: pa.Schema, reads: tuple[str, ...]) -> None:
        self.config, self.key, self.inputs, self.resources = config, key, reads, config.resources
        self.layout = StateLayout(key.is_fixed, (StateColumn(ROW, Kind.BYTES),))
        self.output = config.output
        keys = [pa.field(n, t) for n, t in zip(key.names, key.types, strict=True)]
        self.state = pa.schema([*keys, *config.state])
        self.rows = pa.schema([*keys, *(pa.field(n, plain_type(schema.field(n).type)) for n in reads)])
        self._name = getattr(config.fn, "__name__", repr(config.fn))

    def fingerprint(self) -> dict[str, Any]:
        return {"operator": repr(self.config), "state": self.layout.fingerprint()}

    def lanes(self, rows: pa.RecordBatch) -> dict[str, LaneColumn]:
        return {}

    def update(
        self, table: BinTable, slots: NDArray[np.int64], order: NDArray[np.int64], chunk: Chunk
    ) -> None:
        rows, starts = by_key(chunk.keys, order, fixed_key=self.layout.fixed_key)
        first = rows[starts[:-1]]
        slots = table.find(chunk.keys, first)
        table.count(slots)
        piece = extract(table, slots[slots >= 0], whole=True)
        offsets, data = piece.columns[ROW]
        columns = [*self.key.decode(piece.keys), *unpack(offsets[:-1], data, self.config.state.types)]
        state = pa.Table.from_arrays(columns, schema=self.state)
        given = chunk.rows.select(self.rows.names).take(pa.array(np.sort(order)))
        shown = pa.Table.from_arrays([plain(column) for column in given.columns], schema=self.rows)
        answer = self.config.fn(state, shown)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise ConfigError(
                f"{self._name} returned {type(answer).__name__}; it must return two tables, (state, output)"
            )
        after, emitted = (
            self._conform(answer[0], self.state, "state"),
            self._conform(answer[1], self.output, "output"),
        )
        chunk.parts += emitted.to_batches()
        place = self._places(after, chunk, first)
        gone = np.ones(len(first), bool)
        gone[place] = False
        table.remove(slots[gone & (slots >= 0)])
        kept = table.probe(chunk.keys, first[place])
        batch = after.combine_chunks()
        packed = pack([batch.column(f.name) for f in self.config.state], batch.num_rows)
        store_packed(table, ROW, kept, np.arange(len(kept)), packed)

    def _places(self, after: pa.Table, chunk: Chunk, first: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each row of the new state the position of its key among the keys of the call."""
        mine = chunk.rows.select(list(self.key.names)).take(pa.array(first))
        known = {
            text: i for i, text in enumerate(_texts([mine.column(n) for n in self.key.names], len(first)))
        }
        texts = _texts([after.column(n) for n in self.key.names], after.num_rows)
        foreign = [i for i, text in enumerate(texts) if text not in known]
        if foreign:
            shown = after.select(list(self.key.names)).slice(foreign[0], 1).to_pylist()[0]
            raise ConfigError(
                f"{self._name} returned state for the key {shown}, which has no row in this call; "
                "return only keys of the call"
            )
        places = np.array([known[text] for text in texts], np.int64)
        if len(np.unique(places)) < len(places):
            twice = int(np.flatnonzero(np.bincount(places) > 1)[0])
            shown = mine.slice(twice, 1).to_pylist()[0]
            raise ConfigError(f"{self._name} returned two rows of state for the key {shown}; return one")
        return places

    def _conform(self, returned: Any, schema: pa.Schema, what: str) -> pa.Table:
        if isinstance(returned, pa.RecordBatch):
            returned = pa.Table.from_batches([returned])
        if not isinstance(returned, pa.Table):
            raise ConfigError(
                f"{self._name} returned {type(returned).__name__} as {what}; it must be a pyarrow Table"
            )
        missing = [name for name in schema.names if name not in returned.column_names]
        if missing:
            raise ConfigError(
                f"{self._name} returned {what} without the column {missing[0]!r}; it has {returned.column_names}"
            )
        try:
            return returned.select(schema.names).cast(schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ConfigError(f"{self._name} returned {what} that does not fit {schema}: {error}") from error

    def row_output(self, chunk: Chunk) -> pa.RecordBatch | None:
        return pa.concat_batches(chunk.parts) if chunk.parts else None


def _texts(columns: list[Any], rows: int) -> list[bytes]:
    offsets, data = pack(columns, rows)
    raw = data.tobytes()
    return [raw[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
