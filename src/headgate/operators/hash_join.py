# mypy: allow-untyped-defs, allow-untyped-calls
"""A stream joined with a built table.

The build side is in the stage's state, by bin, and is moved, spilled and balanced with it. For each key
the state holds its build rows, packed one after the other. Loading and refreshing the build side are
batches of build rows for `BoundBuild`. `BoundHashJoin` looks up the stream's rows; it changes nothing, so
it writes no state. As in SQL a null key matches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.compiled import compiled
from headgate.errors import ConfigError, MissingColumn
from headgate.operators.base import BoundOperator, Chunk, Operator, column_type
from headgate.state import kernels as k
from headgate.state.keys import KeySpec, pack, unpack
from headgate.state.lanes import NO_BYTES, LaneColumn, carrier_of
from headgate.state.layout import Kind, StateColumn, StateLayout
from headgate.state.table import BinTable

How = Literal["inner", "left"]
Mode = Literal["append", "replace", "delete"]
ROWS, COUNT = "rows", "count"
MODES = ("append", "replace", "delete")


@dataclass(frozen=True)
class HashJoin(Operator):
    """Joins the stream with a table by the stage's key.

    `build` is a DataFrame; `on` names its key columns (by default they have the names of the stage's
    key). For each row of the stream and each build row of its key it emits the key columns, the
    stream's columns to `keep` (by default all), and the columns of the build side. With `how="left"`
    a row without a build row is emitted with nulls. `stage.refresh(rows)` changes the build side
    while the stream runs.
    """

    build: Any
    on: str | Sequence[str] | None = None
    how: How = "inner"
    keep: Sequence[str] | None = None
    build_schema: pa.Schema | None = None

    def __post_init__(self) -> None:
        if self.how not in ("inner", "left"):
            raise ConfigError(
                f"how={self.how!r}: a stream can be joined 'inner' or 'left' with a built table"
            )
        if not hasattr(self.build, "schema"):
            raise ConfigError(f"build={self.build!r} is not a DataFrame")

    def __repr__(self) -> str:
        return f"HashJoin(on={list(self.build_keys(()))}, how={self.how!r})"

    def build_side(self) -> Any:
        return self.build

    def build_keys(self, key: tuple[str, ...]) -> tuple[str, ...]:
        if self.on is None:
            return key
        return (self.on,) if isinstance(self.on, str) else tuple(self.on)

    def with_build_columns(self, columns: pa.Schema) -> HashJoin:
        return replace(self, build_schema=columns)

    def bind(self, key: KeySpec, schema: pa.Schema) -> BoundHashJoin:
        """Check both sides against each other."""
        assert self.build_schema is not None, "the stage must set the columns of the build side"
        on = self.build_keys(key.names)
        if len(on) != len(key.names):
            raise ConfigError(
                f"on={list(on)} has {len(on)} columns, but the stage's key has {len(key.names)}; name as many"
            )
        for name, mine, kind in zip(on, key.names, key.types, strict=True):
            if name not in self.build_schema.names:
                raise MissingColumn(f"HashJoin: build column {name!r} is not in {self.build_schema.names}")
            other = self.build_schema.field(name).type
            if other != kind:
                raise ConfigError(
                    f"HashJoin: {mine!r} of the stream is {kind}, but {name!r} of the build side is {other}; "
                    "cast one of them"
                )
        values = [n for n in self.build_schema.names if n not in on]
        keep = [n for n in (schema.names if self.keep is None else self.keep) if n not in key.names]
        for name in keep:
            column_type(schema, name, repr(self))
        names = [*key.names, *keep, *values]
        twice = [n for n in names if names.count(n) > 1]
        if twice:
            raise ConfigError(
                f"HashJoin would emit column {twice[0]!r} twice; rename it on one side or omit it from keep"
            )
        return BoundHashJoin(self, key, schema, tuple(keep), tuple(values))


class _Side(BoundOperator):
    """What both sides of a join share: the state."""

    ordered = False
    whole = "HashJoin cannot split a key, because its build rows are in one bin"
    resources = "CLL"

    def __init__(self, config: HashJoin, key: KeySpec, values: tuple[str, ...]) -> None:
        assert config.build_schema is not None
        self.key, self.values, self.how = key, values, config.how
        self.types = tuple(config.build_schema.field(n).type for n in values)
        for name, kind in zip(values, self.types, strict=True):
            carrier_of(kind, f"build column {name!r}")
        self.layout = StateLayout(key.is_fixed, (StateColumn(ROWS, Kind.BYTES), StateColumn(COUNT, Kind.I64)))

    def fingerprint(self) -> dict[str, Any]:
        build = [[n, str(t)] for n, t in zip(self.values, self.types, strict=True)]
        return {"operator": f"HashJoin({self.how})", "build": build, "state": self.layout.fingerprint()}

    def lanes(self, rows: pa.RecordBatch) -> dict[str, LaneColumn]:
        return {}


class BoundBuild(_Side):
    """Stores build rows in the state. All rows of a key come in one call."""

    ordered = True

    def __init__(self, config: HashJoin, key: KeySpec, values: tuple[str, ...], mode: Mode) -> None:
        super().__init__(config, key, values)
        self.mode = mode
        self.inputs = () if mode == "delete" else values
        self.output = pa.schema([])

    def begin(self, chunk: Chunk) -> None:
        if self.mode == "delete":
            return
        offsets, data = pack([chunk.rows.column(n) for n in self.values], len(chunk))
        chunk.results["offsets"], chunk.results["data"] = offsets, data

    def update(
        self, table: BinTable, slots: NDArray[np.int64], order: NDArray[np.int64], chunk: Chunk
    ) -> None:
        by_slot = np.argsort(slots, kind="stable")
        mine, firsts = np.unique(slots[by_slot], return_index=True)
        added = np.diff(np.append(firsts, len(slots)))
        off, length = (table.arrays[f"{ROWS}.{part}"] for part in ("off", "len"))
        count = table.arrays[COUNT]
        if self.mode == "append":
            old = k.gather_offsets(length, mine)
            before = np.empty(int(old[-1]), np.uint8)
            k.gather_bytes(table.heap, off, mine, old, before)
        else:
            old, before = np.zeros(len(mine) + 1, np.int64), NO_BYTES
            count[mine] = 0
        offsets, data = old, NO_BYTES
        if self.mode != "delete":
            packed = chunk.results["offsets"], chunk.results["data"]
            offsets, data = _appended(old, before, order[by_slot], np.append(firsts, len(slots)), *packed)
            count[mine] += added

        def put(at: int) -> int:
            a = table.arrays
            return int(
                k.put_all_bytes(
                    table.header, table.heap, a[f"{ROWS}.off"], a[f"{ROWS}.len"], mine, at, offsets, data
                )
            )

        table.run(put, len(mine))


class BoundHashJoin(_Side):
    """Looks up the stream's rows."""

    reads_only = True
    builds = True

    def __init__(
        self,
        config: HashJoin,
        key: KeySpec,
        schema: pa.Schema,
        keep: tuple[str, ...],
        values: tuple[str, ...],
    ) -> None:
        super().__init__(config, key, values)
        self.config, self.inputs = replace(config, build=_Nothing()), keep
        fields = [*zip(key.names, key.types, strict=True), *((n, schema.field(n).type) for n in keep)]
        self.output = pa.schema([pa.field(n, t) for n, t in (*fields, *zip(values, self.types, strict=True))])

    def builder(self, mode: Mode) -> BoundBuild:
        """The operator that stores build rows."""
        return BoundBuild(self.config, self.key, self.values, mode)

    def update(
        self, table: BinTable, slots: NDArray[np.int64], order: NDArray[np.int64], chunk: Chunk
    ) -> None:
        known = slots >= 0
        counts = np.zeros(len(slots), np.int64)
        counts[known] = table.arrays[COUNT][slots[known]]
        with_matches = np.flatnonzero(counts)
        rows = slots[with_matches]
        offsets = k.gather_offsets(table.arrays[f"{ROWS}.len"], rows)
        data = np.empty(int(offsets[-1]), np.uint8)
        k.gather_bytes(table.heap, table.arrays[f"{ROWS}.off"], rows, offsets, data)
        chunk.parts.append(
            (np.repeat(order[with_matches], counts[with_matches]), data, order[np.flatnonzero(counts == 0)])
        )

    def row_output(self, chunk: Chunk) -> pa.RecordBatch | None:
        matched = np.concatenate([part[0] for part in chunk.parts])
        data = np.concatenate([part[1] for part in chunk.parts])
        columns = unpack(_starts(data, len(matched)), data, self.types)
        if self.how == "left":
            unmatched = np.concatenate([part[2] for part in chunk.parts])
            matched = np.concatenate([matched, unmatched])
            columns = [
                pa.concat_arrays([column, pa.nulls(len(unmatched), kind)])
                for column, kind in zip(columns, self.types, strict=True)
            ]
        names = [*self.key.names, *self.inputs]
        kept = [chunk.rows.column(n).take(pa.array(matched)) for n in names]
        return pa.RecordBatch.from_arrays([*kept, *columns], schema=self.output)


class _Nothing:
    """Takes the place of the build side in tasks, which cannot hold a DataFrame."""

    schema = None


@compiled
def _appended(old_off, old, order, groups, in_off, in_data):
    """For each group its old bytes, then its new rows, each after its length: (offsets, bytes)."""
    offsets = np.zeros(len(groups), np.int64)
    for g in range(len(groups) - 1):
        size = old_off[g + 1] - old_off[g]
        for i in range(groups[g], groups[g + 1]):
            r = order[i]
            size += 4 + in_off[r + 1] - in_off[r]
        offsets[g + 1] = offsets[g] + size
    out = np.empty(offsets[-1], np.uint8)
    for g in range(len(groups) - 1):
        p = offsets[g]
        for j in range(old_off[g], old_off[g + 1]):
            out[p] = old[j]
            p += 1
        for i in range(groups[g], groups[g + 1]):
            r = order[i]
            n = in_off[r + 1] - in_off[r]
            for j in range(4):
                out[p + j] = (n >> (8 * j)) & 255
            p += 4
            for j in range(n):
                out[p + j] = in_data[in_off[r] + j]
            p += n
    return offsets, out


@compiled
def _starts(data, count):
    """Where each row begins, after its length."""
    starts = np.empty(count, np.int64)
    p = np.int64(0)
    for i in range(count):
        n = np.int64(0)
        for j in range(4):
            n |= np.int64(data[p + j]) << (8 * j)
        starts[i] = p + 4
        p += 4 + n
    return starts
