"""Rows from Python, for tests and notebooks."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from headgate.errors import ConfigError, SourceFailed
from headgate.sources.fit import plain_of, widens
from headgate.sources.source import CHEAP_ROWS, Demand, Range, Ranges, Source
from headgate.state.payload import plain_type

_LEAST = 10_000
"""A range has at least so many rows."""


class Rows(Source):
    """Rows that Python holds: dicts, tuples, Arrow tables or batches, or a pandas frame. `add` gives more, from any thread.

    >>> source = Rows([{"user": "ann", "n": 1}], pa.schema([("user", pa.string()), ("n", pa.int64())]))
    >>> source.add([("bob", 2), ("cay", 3)])
    >>> planned = source.plan(None, Demand(rows=2))
    >>> planned.offset, planned.more, [row for batch in source.read(planned.ranges[0].what) for row in batch.to_pylist()]
    (2, True, [{'user': 'ann', 'n': 1}, {'user': 'bob', 'n': 2}])

    Without a schema the first rows tell it. A restarted query goes on after the rows that it has read, so the same
    rows must be there again, in the same order.
    """

    rows_read_again = CHEAP_ROWS

    def __init__(self, rows: Any = (), schema: pa.Schema | None = None) -> None:
        self._lock = threading.Lock()
        if schema is None:
            first = _table(rows, None)
            if not first.column_names:
                raise ConfigError("Rows has no rows to tell the columns from: give schema=...")
            schema = pa.schema([pa.field(field.name, plain_of(field.type)) for field in first.schema])
        self._schema = schema.remove_metadata()
        self._tables: list[pa.Table] = []
        self._ends: list[int] = []
        """How many rows there are up to the end of each table."""
        self.add(rows)

    def __getstate__(self) -> dict[str, Any]:
        """Only the schema: a range carries its rows."""
        return {"_schema": self._schema, "_tables": [], "_ends": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Rows({', '.join(self._schema.names)})"

    def add(self, rows: Any) -> None:
        """Give more rows, which the next plan sees."""
        table = _conformed(_table(rows, self._schema), self._schema)
        if table.num_rows:
            with self._lock:
                self._ends.append(len(self) + table.num_rows)
                self._tables.append(table)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def schema(self) -> pa.Schema:
        """The columns."""
        return self._schema

    def identity(self) -> dict[str, Any]:
        """The columns."""
        return {"source": "rows", "columns": [[field.name, str(field.type)] for field in self._schema]}

    def plan(self, offset: Any, demand: Demand) -> Ranges:
        """The next rows; a range carries them."""
        given = int(offset or 0)
        with self._lock:
            total = len(self)
            if given > total:
                raise SourceFailed(
                    f"Rows has {total} rows, and the query has read {given}: give the same rows again before you restart it, "
                    "or begin with a new checkpoint"
                )
            end = min(total, given + max(1, demand.rows))
            first = bisect_right(self._ends, given)
            tables = self._tables[first : bisect_right(self._ends, end - 1) + 1]
            before = self._ends[first - 1] if first else 0
        if end == given:
            return Ranges((), offset)
        taken = pa.concat_tables(tables)
        parts = max(1, min(demand.tasks, (end - given) // _LEAST))
        edges = [given + (end - given) * part // parts for part in range(parts + 1)]
        ranges = [Range(_packed(taken.slice(a - before, b - a)), b - a) for a, b in pairwise(edges)]
        return Ranges(tuple(ranges), end, more=end < total)

    def read(self, what: Any) -> Iterator[pa.RecordBatch]:
        """The rows that a range carries."""
        with pa.ipc.open_stream(what) as reader:
            for batch in reader:
                if batch.num_rows:
                    yield batch


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks(), max_chunksize=1 << 20)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _table(rows: Any, schema: pa.Schema | None) -> pa.Table:
    """Rows of any kind as a table."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if type(rows).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(rows, preserve_index=False)
    if not isinstance(rows, Iterable):
        raise ConfigError(f"Rows({rows!r}): give dicts, tuples, an Arrow table or a pandas frame")
    items = list(rows)
    if items and isinstance(items[0], pa.Table | pa.RecordBatch):
        return pa.concat_tables([_table(item, schema) for item in items])
    return _from_python(items, schema)


def _from_python(items: Sequence[Any], schema: pa.Schema | None) -> pa.Table:
    if schema is not None:
        plain = pa.schema([pa.field(field.name, plain_type(field.type)) for field in schema])
        names = set(schema.names)
        for at, item in enumerate(items):
            if not isinstance(item, dict) and len(item) != len(schema):
                raise ConfigError(
                    f"row {at} of Rows has {len(item)} values: the schema has {len(schema)} columns"
                )
            if isinstance(item, dict) and (unknown := item.keys() - names):
                raise ConfigError(
                    f"row {at} of Rows has {min(unknown)!r}; the columns are {', '.join(schema.names)}"
                )
        dicts = [
            item if isinstance(item, dict) else dict(zip(schema.names, item, strict=True)) for item in items
        ]
        for field in plain:
            if pa.types.is_integer(field.type):
                cut = [d for d in dicts if isinstance(v := d.get(field.name), float) and not v.is_integer()]
                if cut:
                    raise ConfigError(
                        f"column {field.name} of Rows is {field.type}, and {cut[0][field.name]!r} is not a whole number"
                    )
        try:
            return pa.Table.from_pylist(dicts, schema=plain)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise ConfigError(f"Rows do not fit the schema {plain.to_string()}: {error}") from error
    if any(not isinstance(item, dict) for item in items):
        raise ConfigError("Rows of tuples have no names of columns: give schema=..., or dicts")
    try:
        return pa.Table.from_pylist(list(items))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ConfigError(
            f"Rows have values of several types in one column: {error}; give schema=..."
        ) from error


def _conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    from headgate.state.conform import conform_table  # it loads compiled code

    if table.column_names != schema.names:
        raise ConfigError(
            f"Rows has the columns {', '.join(schema.names)}, not {', '.join(table.column_names)}"
        )
    for field, column in zip(schema, table.columns, strict=True):
        if not widens(plain_of(plain_type(column.type)), plain_type(field.type)):
            raise ConfigError(
                f"column {field.name} of Rows is {field.type}, and rows with {column.type} were added: cast them first"
            )
    plain = pa.schema([pa.field(f.name, plain_of(plain_type(f.type))) for f in table.schema])
    same = table if plain.types == table.schema.types or any_payload(table.schema) else table.cast(plain)
    return conform_table(same, schema)


def any_payload(schema: pa.Schema) -> bool:
    """Whether a column has a type of another engine, which Arrow cannot cast."""
    return any(plain_type(field.type) != field.type for field in schema)
