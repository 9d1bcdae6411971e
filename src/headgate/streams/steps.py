"""Steps of a direct stream that are functions of the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headgate.errors import ConfigError, StepFailed
from headgate.state.conform import conform_table
from headgate.state.payload import plain_type
from headgate.streams.step import BoundStep, Step


class MapBatches(Step):
    """A function from an Arrow table to an Arrow table, which runs in map tasks.

    Without a `schema` the function is called with no rows, to learn which columns it returns.
    """

    def __init__(self, function: Callable[[pa.Table], Any], schema: pa.Schema | None = None) -> None:
        if not callable(function):
            raise ConfigError(f"map_batches({function!r}) needs a function from a pyarrow.Table to another")
        self.function, self.schema = function, schema

    def __repr__(self) -> str:
        return f"map_batches({getattr(self.function, '__name__', repr(self.function))})"

    def bind(self, schema: pa.Schema) -> BoundStep:
        """Check what the function returns for no rows."""
        returned = self.schema
        if returned is None:
            plain = pa.schema([pa.field(field.name, plain_type(field.type)) for field in schema])
            returned = _called(self, plain.empty_table(), "with no rows, to learn its columns").schema
        names = returned.names
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ConfigError(f"{self!r} returns the column {twice[0]!r} twice; rename one")
        same = {field.name: field for field in schema}
        fields = [
            same[field.name]
            if field.name in same and plain_type(same[field.name].type) == field.type
            else pa.field(field.name, _accepted(self, field))
            for field in returned
        ]
        return BoundMap(self, pa.schema(fields))


class BoundMap(BoundStep):
    """The function, and the columns that it must return."""

    def __init__(self, step: MapBatches, schema: pa.Schema) -> None:
        self.step, self.schema = step, schema

    def apply(self, rows: pa.Table) -> pa.Table:
        plain = [pa.field(field.name, plain_type(field.type)) for field in rows.schema]
        returned = _called(self.step, conform_table(rows, pa.schema(plain)), f"with {rows.num_rows} rows")
        wanted = {field.name: plain_type(field.type) for field in self.schema}
        got = {field.name: field.type for field in returned.schema}
        if returned.schema.names != self.schema.names or wanted != got:
            raise StepFailed(
                f"{self.step!r} declares {_listed(wanted)} and returned {_listed(got)}: return exactly the declared columns, in order, "
                "for every table (cast them), or declare others with schema="
            )
        return conform_table(returned, self.schema)


def _called(step: MapBatches, rows: pa.Table, how: str) -> pa.Table:
    try:
        returned = step.function(rows)
    except Exception as error:
        raise StepFailed(
            f"{step!r} failed when it was called {how}: {type(error).__name__}: {error}. Nothing of the batch was committed: "
            "correct the function and start the query again"
        ) from error
    if isinstance(returned, pa.RecordBatch):
        returned = pa.Table.from_batches([returned])
    if not isinstance(returned, pa.Table):
        raise StepFailed(
            f"{step!r} returned {type(returned).__name__}, not a pyarrow.Table; return a table or a record batch"
        )
    return returned


def _accepted(step: MapBatches, field: pa.Field) -> pa.DataType:
    """The type in which operators see a column that the function made."""
    from headgate.state.lanes import carrier_of

    kind = field.type
    if pa.types.is_large_string(kind) or pa.types.is_timestamp(kind):
        wanted = "pa.string()" if pa.types.is_large_string(kind) else "pa.timestamp('us', 'UTC')"
        if pa.types.is_large_string(kind) or kind.unit != "us" or kind.tz not in (None, "UTC"):
            raise ConfigError(f"{step!r} returns column {field.name!r} as {kind}; cast it to {wanted}")
    carrier_of(kind, f"column {field.name!r} of {step!r}")
    return kind


def _listed(types: dict[str, pa.DataType]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in types.items()) or "no column"
