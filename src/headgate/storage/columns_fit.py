"""Whether the columns of an output fit a table that exists, and the newest row of each key. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from headgate.errors import ConfigError, MissingColumn

_INDEX = "__headgate_row"


def bare(schema: pa.Schema) -> pa.Schema:
    """The columns alone: without metadata, and with nulls allowed."""
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def filled(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with the columns and types of a table, columns that they lack as nulls.

    >>> filled(pa.table({"n": [1]}), pa.schema([("k", pa.string()), ("n", pa.int32())])).to_pylist()
    [{'k': None, 'n': 1}]
    """
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=bare(schema))


def check_key(schema: pa.Schema, key: Sequence[str], sink: str) -> None:
    """Refuse a key that is not in the output, or whose values cannot be compared."""
    for name in key:
        if name not in schema.names:
            raise MissingColumn(
                f"{sink} upserts by {name!r}, which is not in the output: {', '.join(schema.names)}"
            )
        kind = schema.field(name).type
        if pa.types.is_floating(kind) or pa.types.is_nested(kind):
            raise ConfigError(
                f"{sink} upserts by {name!r}, which is {kind}: such values cannot tell rows apart; name other columns"
            )


def newest_rows(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The last row of each key, in the order of the rows.

    >>> newest_rows(pa.table({"k": [1, 2, 1, None], "n": [1, 1, 2, 5]}), ["k"]).to_pydict()
    {'k': [2, 1, None], 'n': [1, 2, 5]}
    """
    if rows.num_rows < 2:
        return rows
    keys = rows.select(list(key)).append_column(_INDEX, pa.array(range(rows.num_rows), pa.int64()))
    last = keys.group_by(list(key), use_threads=False).aggregate([(_INDEX, "max")]).column(f"{_INDEX}_max")
    if len(last) == rows.num_rows:
        return rows
    return rows.combine_chunks().take(last.combine_chunks().sort())


def unlike(output: Mapping[str, str], table: Mapping[str, str], required: Collection[str], place: str) -> str:
    """Why an output does not fit a table; empty if it does. Columns come as names with their types in text.

    A column that the table lacks is no obstacle here: the sink decides whether it is added.
    """
    folded = {name.lower(): name for name in table}
    for name, kind in output.items():
        there = folded.get(name.lower())
        if there is not None and there != name:
            return f"{place} has the column {there!r}, and the output {name!r}: write both in the same case"
        if there is not None and table[there] != kind:
            return (
                f"column {name!r} of {place} has the type {table[there]}, and that of the output {kind}: cast it before it is "
                "written, or name another table"
            )
    missing = [name for name in required if name not in output]
    if missing:
        return f"{place} requires a value in the column {missing[0]!r}, which the output does not have"
    return ""
