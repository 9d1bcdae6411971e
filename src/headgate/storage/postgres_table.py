"""PostgreSQL as a place for tables: rows go in by `COPY`, from CSV that Arrow writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from headgate.errors import required
from headgate.storage.sql_table import Column, quoted, quoted_name

STAGED = "headgate_rows"
"""The temporary table in which the rows of an upsert wait."""
PART = 1 << 16
"""So many rows are written as CSV at a time."""
SIMPLE = {
    **dict.fromkeys((pa.int8(), pa.int16(), pa.uint8()), "smallint"),
    **dict.fromkeys((pa.int32(), pa.uint16()), "integer"),
    **dict.fromkeys((pa.int64(), pa.uint32()), "bigint"),
    pa.uint64(): "numeric",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.bool_(): "boolean",
    pa.string(): "text",
    pa.large_string(): "text",
    pa.binary(): "bytea",
    pa.large_binary(): "bytea",
    pa.date32(): "date",
}
FITS = {
    "smallint": {"int2", "int4", "int8", "numeric", "float4", "float8"},
    "integer": {"int4", "int8", "numeric", "float8"},
    "bigint": {"int8", "numeric"},
    "numeric": {"numeric"},
    "real": {"float4", "float8"},
    "double precision": {"float8"},
    "boolean": {"bool"},
    "text": {"text", "varchar", "citext"},
    "bytea": {"bytea"},
    "date": {"date"},
    "timestamp with time zone": {"timestamptz"},
    "timestamp": {"timestamp"},
    "jsonb": {"jsonb", "json"},
}
"""Types of columns, by PostgreSQL's short names, that take all values of a type."""
DIGITS = {"smallint": (5, 0), "integer": (10, 0), "bigint": (19, 0)}
"""How many digits a whole number has before and after its point."""
MICROSECONDS = 6
"""Digits of a second."""


class PostgreSQL:
    """A PostgreSQL database at a URL."""

    def __init__(self, url: str) -> None:
        self.psycopg = required("psycopg", "a table in PostgreSQL")
        self.error: type[Exception] = self.psycopg.Error
        self._url, parts = url, urlsplit(url)
        self.place = f"PostgreSQL {parts.hostname or 'here'}{parts.path}"

    def connect(self) -> Any:
        return self.psycopg.connect(self._url, autocommit=True)

    def begin(self, cursor: Any) -> None:
        cursor.execute("BEGIN")

    def alone(self, cursor: Any) -> None:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('headgate_batches'))")

    def marked(self, sql: str) -> str:
        return sql.replace("?", "%s")

    def locked(self, sql: str) -> str:
        return f"{sql} FOR UPDATE"

    def columns(self, cursor: Any, table: str) -> dict[str, Column]:
        cursor.execute(
            "SELECT a.attname, CASE a.attgenerated WHEN '' THEN '' ELSE 'generated ' END || t.typname || "
            "coalesce(substring(format_type(a.atttypid, a.atttypmod) from '\\(.*\\)'), ''), "
            "a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' FROM pg_attribute a "
            "JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped "
            "ORDER BY a.attnum",
            (quoted(table),),
        )
        return {name: Column(kind, required=strict) for name, kind, strict in cursor.fetchall()}

    def is_unique(self, cursor: Any, table: str, key: Sequence[str]) -> bool:
        cursor.execute(
            "SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) "
            "WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL "
            "GROUP BY i.indexrelid",
            (quoted(table),),
        )
        return any(set(names) == set(key) for (names,) in cursor.fetchall())

    def type_of(self, kind: pa.DataType) -> str | None:
        if pa.types.is_decimal(kind):
            return f"numeric({kind.precision}, {kind.scale})"
        if pa.types.is_timestamp(kind):
            return "timestamp with time zone" if kind.tz else "timestamp"
        return "jsonb" if pa.types.is_nested(kind) else SIMPLE.get(kind)

    def fits(self, wanted: str, there: str) -> bool:
        kind, (name, _, limit) = wanted.partition("(")[0], there.partition("(")
        if name not in FITS[kind]:
            return False
        limits = [int(number) for number in re.findall(r"-?\d+", limit)]
        if name == "numeric" and limits:
            whole, part = DIGITS.get(kind) or _digits(wanted)
            return limits[0] - limits[1] >= whole and limits[1] >= part
        return not limits or (kind.startswith("timestamp") and limits == [MICROSECONDS])

    def insert(self, cursor: Any, table: str, rows: pa.Table) -> None:
        self._copy(cursor, quoted(table), rows)

    def upsert(self, cursor: Any, table: str, rows: pa.Table, key: Sequence[str]) -> None:
        names = [quoted_name(name) for name in rows.column_names]
        keys, columns = [quoted_name(name) for name in key], ", ".join(names)
        cursor.execute(
            f"CREATE TEMP TABLE {STAGED} ON COMMIT DROP AS SELECT {columns} FROM {quoted(table)} WITH NO DATA"
        )
        self._copy(cursor, STAGED, rows)
        if any(rows.column(name).null_count for name in key):  # no two nulls are a conflict
            match = " AND ".join(f"old.{name} IS NOT DISTINCT FROM new.{name}" for name in keys)
            null = " OR ".join(f"new.{name} IS NULL" for name in keys)
            cursor.execute(
                f"DELETE FROM {quoted(table)} AS old USING {STAGED} AS new WHERE ({null}) AND {match}"
            )
        sets = [f"{name} = EXCLUDED.{name}" for name in names if name not in keys]
        action = f"UPDATE SET {', '.join(sets)}" if sets else "NOTHING"
        cursor.execute(
            f"INSERT INTO {quoted(table)} ({columns}) SELECT {columns} FROM {STAGED} "
            f"ON CONFLICT ({', '.join(keys)}) DO {action}"
        )

    def _copy(self, cursor: Any, target: str, rows: pa.Table) -> None:
        columns = ", ".join(quoted_name(name) for name in rows.column_names)
        with cursor.copy(f"COPY {target} ({columns}) FROM STDIN (FORMAT csv)") as copy:
            for part in _csv(rows):
                copy.write(part)


def _digits(wanted: str) -> tuple[int, int]:
    """The digits of a decimal before and after its point; of one without bounds, more than a column has.

    >>> _digits("numeric(10, 2)"), _digits("numeric")[0]
    ((8, 2), 131072)
    """
    found = [int(number) for number in re.findall(r"\d+", wanted)]
    return (found[0] - found[1], found[1]) if found else (131_072, 16_383)


def _csv(rows: pa.Table) -> Iterator[bytes]:
    """The rows as CSV: text in quotes, a null as nothing at all."""
    import pyarrow.csv as csv  # only a driver that writes needs it

    columns = [_writable(column) for column in rows.columns]
    plain = pa.table(columns, names=rows.column_names)
    options = csv.WriteOptions(include_header=False, quoting_style="needed")
    for batch in plain.to_batches(max_chunksize=PART):
        sink = pa.BufferOutputStream()
        csv.write_csv(batch, sink, options)
        yield sink.getvalue().to_pybytes()


def _writable(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """A column that Arrow's CSV writer knows: bytes in hexadecimal digits, lists, maps and structs as JSON."""
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array(
            [None if value is None else f"\\x{value.hex()}" for value in column.to_pylist()], pa.string()
        )
    if pa.types.is_nested(kind):
        return pa.array(
            [None if value is None else json.dumps(value, default=str) for value in column.to_pylist()],
            pa.string(),
        )
    return column.cast(pa.string()) if pa.types.is_decimal(kind) else column
