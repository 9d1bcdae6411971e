"""SQLite as a place for tables, through Python's own `sqlite3`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from headgate.errors import ConfigError
from headgate.storage.sql_table import Column, quoted, quoted_name

PREFIX = "sqlite:///"
FITS = {
    "INTEGER": {"INTEGER", "NUMERIC", "BLOB"},
    "REAL": {"REAL", "NUMERIC", "BLOB"},
    "TEXT": {"TEXT", "TIME", "BLOB"},
}
"""Affinities of columns that keep all values of a type as they are."""
WAIT_SECONDS = 60
"""How long a driver waits while another one writes."""


class SQLite:
    """A SQLite file: `sqlite:///out/users.db`, or `sqlite:////tmp/users.db` for an absolute path."""

    error: type[Exception] = sqlite3.Error

    def __init__(self, url: str) -> None:
        path = url.removeprefix(PREFIX)
        if not path or path.startswith(":"):
            raise ConfigError(f"{url} names no file: write sqlite:///out/users.db")
        self.path = Path(path).absolute()
        self.place = f"SQLite {path}"

    def connect(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self.place} cannot be made: {error}") from error
        connection = sqlite3.connect(self.path, timeout=WAIT_SECONDS, isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL")  # a commit is durable when it returns
        return connection

    def begin(self, cursor: Any) -> None:
        cursor.execute("BEGIN IMMEDIATE")  # a second writer waits here

    def alone(self, cursor: Any) -> None:
        return None

    def marked(self, sql: str) -> str:
        return sql

    def locked(self, sql: str) -> str:
        return sql

    def columns(self, cursor: Any, table: str) -> dict[str, Column]:
        rows = cursor.execute(f"PRAGMA table_info({quoted(table)})").fetchall()
        return {
            name: Column(kind, required=bool(strict) and default is None)
            for _, name, kind, strict, default, _ in rows
        }

    def is_unique(self, cursor: Any, table: str, key: Sequence[str]) -> bool:
        rows = cursor.execute(f"PRAGMA table_info({quoted(table)})").fetchall()
        primary = [(name, kind.upper()) for _, name, kind, _, _, place in rows if place]
        if [*key] == [name for name, kind in primary if kind == "INTEGER"] and len(primary) == 1:
            return True  # the row's own number, which has no index
        for _, name, unique, _, partial in cursor.execute(f"PRAGMA index_list({quoted(table)})").fetchall():
            if unique and not partial:
                info = cursor.execute(f"PRAGMA index_xinfo({quoted(name)})").fetchall()
                columns = {column: order for _, _, column, _, order, is_key in info if is_key}
                if set(columns) == set(key) and set(columns.values()) == {"BINARY"}:
                    return True  # another order, such as NOCASE, takes two keys for one
        return False

    def type_of(self, kind: pa.DataType) -> str | None:
        if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
            return "INTEGER"
        if pa.types.is_floating(kind):
            return "REAL"
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return "BLOB"
        return None if pa.types.is_duration(kind) else "TEXT"

    def fits(self, wanted: str, there: str) -> bool:
        return wanted == "BLOB" or _affinity(there) in FITS[wanted]

    def insert(self, cursor: Any, table: str, rows: pa.Table) -> None:
        cursor.executemany(self._into(table, rows), _values(rows))

    def upsert(self, cursor: Any, table: str, rows: pa.Table, key: Sequence[str]) -> None:
        names = rows.column_names
        if any(rows.column(name).null_count for name in key):  # no two nulls are a conflict
            at = [names.index(name) for name in key]
            match = " AND ".join(f"{quoted_name(name)} IS ?" for name in key)
            nulls = [
                values for row in _values(rows) if None in (values := tuple(row[column] for column in at))
            ]
            cursor.executemany(f"DELETE FROM {quoted(table)} WHERE {match}", nulls)
        sets = [f"{quoted_name(n)} = excluded.{quoted_name(n)}" for n in names if n not in key]
        action = f"UPDATE SET {', '.join(sets)}" if sets else "NOTHING"
        columns = ", ".join(quoted_name(name) for name in key)
        cursor.executemany(f"{self._into(table, rows)} ON CONFLICT ({columns}) DO {action}", _values(rows))

    def _into(self, table: str, rows: pa.Table) -> str:
        columns = ", ".join(quoted_name(name) for name in rows.column_names)
        return f"INSERT INTO {quoted(table)} ({columns}) VALUES ({', '.join('?' * rows.num_columns)})"


def _affinity(kind: str) -> str:
    """What a column does to its values, by SQLite's own rule. A column for times is one of numbers there, but only
    text that is a number would be changed.

    >>> [_affinity(kind) for kind in ("BIGINT", "varchar(3)", "", "double", "DECIMAL(9, 2)", "DATETIME")]
    ['INTEGER', 'TEXT', 'BLOB', 'REAL', 'NUMERIC', 'TIME']
    """
    kind = kind.upper()
    rules = {
        "INTEGER": ("INT",), "TEXT": ("CHAR", "CLOB", "TEXT"), "BLOB": ("BLOB",),
        "REAL": ("REAL", "FLOA", "DOUB"), "TIME": ("DATE", "TIME"),
    }  # fmt: skip
    found = (name for name, parts in rules.items() if any(part in kind for part in parts))
    return next(found, "NUMERIC") if kind else "BLOB"


def _values(rows: pa.Table) -> list[tuple[Any, ...]]:
    """The rows in values that SQLite knows."""
    columns = [[_value(value) for value in column.to_pylist()] for column in rows.columns]
    return list(zip(*columns, strict=True))


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict | list):
        return json.dumps(value, default=str)
    return value
