"""Runs a kernel without Spark: `hg.testing.run(kernel, rows)`, with crashes, redelivery,
moves and late rows on demand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headgate.errors import ConfigError
from headgate.kernels.bound_kernel import BoundKernel
from headgate.kernels.interpreted import State
from headgate.operators.base import Operator
from headgate.routing.table import Table
from headgate.state.section import extract_keys
from headgate.testing.trial import Trial


@dataclass(frozen=True)
class Run:
    """The results of a run."""

    table: pa.Table
    """All rows that were emitted, in batch order."""
    batches: tuple[pa.Table, ...]
    aside: tuple[dict[str, Any], ...]
    """Rows that could not be used, each with its `reason`."""
    state: Mapping[Any, Mapping[str, Any]] = field(repr=False)
    """The state fields of each key at the end of the run; a key of several columns is a tuple."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The emitted rows, as dictionaries."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows


def run(
    kernel: Operator,
    rows: pa.Table | pa.RecordBatch | Sequence[Mapping[str, Any]],
    *,
    key: str | Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    batches: int | Sequence[int] = 1,
    idle: int = 0,
    channels: int = 2,
    bins: int = 8,
    crash: Collection[int] = (),
    redeliver: Collection[int] = (),
    move: Collection[int] = (),
    late: Mapping[int, int] | None = None,
) -> Run:
    """Run a kernel, or any other operator, over rows, with a real stage in this process.

    `key` defaults to the first column. `batches` is the number of batches, or a list of their
    sizes; `idle` batches without rows follow, in which timers can fire. `crash`, `redeliver` and
    `move` are numbers of batches: in a batch of `crash` the driver and all memory are lost before
    the commit, and another driver gets the batch again; a batch of `redeliver` is delivered again
    after its commit; before a batch of `move` every bin moves to another channel. `late` maps
    numbers of rows to the number of the later batch in which they arrive.

    >>> import headgate as hg
    >>> @hg.kernel(state={"n": int}, output={"nth": int})
    ... def nth(state, row):
    ...     state.n += 1
    ...     return state.n
    >>> hg.testing.run(nth, [{"user": "ann"}, {"user": "bob"}, {"user": "ann"}], batches=3, crash=[2]).rows
    [{'user': 'ann', 'nth': 1}, {'user': 'bob', 'nth': 1}, {'user': 'ann', 'nth': 2}]
    """
    table = _table(rows, schema)
    names = (table.column_names[0],) if key is None else ((key,) if isinstance(key, str) else tuple(key))
    unknown = [n for n in names if n not in table.column_names]
    if unknown:
        raise ConfigError(f"key column {unknown[0]!r} is not among the rows' {', '.join(table.column_names)}")
    trial = Trial(kernel, names)
    delivered = [*_cut(table, batches, late or {}), *[table.slice(0, 0)] * idle]
    turn = 0
    for number, rows_of_batch in enumerate(delivered):
        turn += number in move
        under = Table(
            version=turn,
            from_batch=number,
            channels=channels,
            hash_bins=bins,
            assignment=tuple((b + turn) % channels for b in range(bins)),
            pins=(),
        )
        trial.batch(rows_of_batch, under, crash=number in crash)
        if number in redeliver:
            trial.stage.process(rows_of_batch, number, None)
    aside = [row for part in trial.aside for row in part.to_pylist()]
    parts = tuple(trial.output.batches[number] for number in sorted(trial.output.batches))
    emitted = pa.concat_tables(parts) if parts else pa.table({})
    return Run(emitted, parts, tuple(aside), _state(trial) if parts else {})


def _table(rows: Any, schema: pa.Schema | None) -> pa.Table:
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if not isinstance(rows, pa.Table):
        if not rows and schema is None:
            raise ConfigError("no rows, and no schema that names their columns; pass schema=")
        rows = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    for at, column in enumerate(rows.schema):
        if pa.types.is_timestamp(column.type) and column.type.unit != "us":
            kind = pa.timestamp("us", column.type.tz)
            rows = rows.set_column(at, column.name, rows.column(at).cast(kind))
    return rows


def _cut(table: pa.Table, batches: int | Sequence[int], late: Mapping[int, int]) -> list[pa.Table]:
    """The rows of each batch; late rows come last in the batch in which they arrive."""
    rows = table.num_rows
    if isinstance(batches, int):
        sizes = [rows * (b + 1) // batches - rows * b // batches for b in range(batches)]
    else:
        sizes = list(batches)
        if sum(sizes) != rows:
            raise ConfigError(f"batches={sizes} are {sum(sizes)} rows, and there are {rows}")
    wanted: list[list[int]] = []
    start = 0
    for size in sizes:
        wanted.append([row for row in range(start, start + size) if row not in late])
        start += size
    for row, batch in late.items():
        if not (0 <= batch < len(wanted) and 0 <= row < rows):
            raise ConfigError(f"late={{{row}: {batch}}}: there are {rows} rows in {len(wanted)} batches")
        wanted[batch].append(row)
    return [table.take(pa.array(numbers, pa.int64())) for numbers in wanted]


def _state(trial: Trial) -> dict[Any, dict[str, Any]]:
    operator = trial.operator
    if not isinstance(operator, BoundKernel):
        return {}
    state: dict[Any, dict[str, Any]] = {}
    for b in sorted(trial.committed.state.bases):
        table = trial.rebuilt(b)
        rows = table.live
        keys = zip(*(c.to_pylist() for c in operator.key.decode(extract_keys(table, rows))), strict=True)
        for row, key in zip(rows.tolist(), keys, strict=True):
            state[key[0] if len(key) == 1 else key] = State(operator.shape.state, table, row).plain()
    return state
