"""A registry as it was at one moment, copied to a SQLite file; and a registry filled from such a file."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from headgate.errors import ConfigError, required
from headgate.service.places import DATABASES
from headgate.service.private import private_folder
from headgate.service.registry import FORMAT, open_registry

_FORGET = "DELETE FROM about WHERE name = 'lease'"
"""Who led the service that was copied does not lead the copy."""


class RegistryView(Protocol):
    """A registry at the moment at which this was made, whatever is written to it later."""

    def copy_to(self, path: Path) -> None:
        """Write it to a new SQLite file."""

    def close(self) -> None:
        """End the view."""


def copy_database(path: Path, to: Path) -> None:
    """Copy a SQLite database that may be in use, to one file."""
    private_folder(to.parent)
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as source:
        _copied(source, to)


def _copied(source: sqlite3.Connection, to: Path, *statements: str) -> None:
    os.close(os.open(to, os.O_CREAT | os.O_RDWR, 0o600))
    with closing(sqlite3.connect(to, isolation_level=None)) as copy:
        source.backup(copy)
        for statement in ("PRAGMA journal_mode = DELETE", *statements):  # one file, and nothing beside it
            copy.execute(statement)


class _SQLiteView:
    def __init__(self, path: str) -> None:
        if not Path(path).exists():
            raise ConfigError(f"there is no registry at {path}: give the folder of a service")
        self._connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)
        self._connection.execute("BEGIN")
        self._connection.execute(
            "SELECT count(*) FROM about"
        ).fetchall()  # the view begins with the first read

    def copy_to(self, path: Path) -> None:
        _copied(self._connection, path, _FORGET)

    def close(self) -> None:
        self._connection.close()


class _PostgreSQLView:
    def __init__(self, url: str) -> None:
        psycopg = required("psycopg", "a registry in PostgreSQL")
        self._connection: Any = psycopg.connect(url, autocommit=True)
        self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self._read("SELECT count(*) FROM about")

    def _read(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._connection.execute(sql, values).fetchall()]

    def copy_to(self, path: Path) -> None:
        columns = self._read(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"
            " ORDER BY table_name, ordinal_position"
        )
        tables: dict[str, list[str]] = {}
        for table, column in columns:
            tables.setdefault(table, []).append(column)
        ((found,),) = self._read("SELECT value FROM about WHERE name = 'format'")
        _check_format(int(found), "the registry")
        open_registry(str(path)).close()  # its tables are those of this version
        with closing(sqlite3.connect(path, isolation_level=None)) as copy:
            ours = {name for (name,) in copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            copy.execute("BEGIN")
            copy.execute("DELETE FROM about")
            for table, names in tables.items():
                if table in ours:
                    rows = self._read(f"SELECT {', '.join(names)} FROM {table}")
                    copy.executemany(_insert(table, names), rows)
            copy.execute(_FORGET)
            copy.execute("COMMIT")
            copy.execute("PRAGMA journal_mode = DELETE")

    def close(self) -> None:
        self._connection.close()


def view_of(where: str) -> RegistryView:
    """A view of the registry at a path or URL, as it is now."""
    return _PostgreSQLView(where) if where.startswith(DATABASES) else _SQLiteView(where)


def format_in(path: Path) -> int:
    """The format of the registry in a SQLite file."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as copy:
        ((found,),) = copy.execute("SELECT value FROM about WHERE name = 'format'").fetchall()
        return int(found)


def _check_format(found: int, what: str) -> None:
    """Rows of another format do not fit the tables of this version."""
    if found != FORMAT:
        raise ConfigError(
            f"{what} has format {found}, and rows are copied between databases in format {FORMAT} only: let this version serve "
            "it once, which upgrades it, or use pg_dump"
        )


def fill_registry(path: Path, where: str) -> None:
    """Fill an empty registry from a SQLite file: a file is copied, a database is filled in one transaction."""
    if not where.startswith(DATABASES):
        if Path(where).exists():
            raise ConfigError(f"the registry at {where} is in use: restore into an empty one")
        private_folder(Path(where).parent)
        shutil.copyfile(path, where)
        Path(where).chmod(0o600)
        return
    _check_format(format_in(path), "the registry in the backup")
    registry = open_registry(where)
    try:
        if registry.read("SELECT name FROM about WHERE name <> 'format'") or registry.read(
            "SELECT name FROM tenants"
        ):
            raise ConfigError(
                f"the registry at {where.rpartition('@')[2]} is in use: restore into an empty one"
            )
        changes: list[Any] = [("DELETE FROM about", [()])]
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as copy:
            tables = copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (table,) in tables:
                found = copy.execute(f"SELECT * FROM {table}")
                names = [column[0] for column in found.description]
                changes.append((_insert(table, names), found.fetchall()))
        registry.write(*((sql, rows) for sql, rows in changes if rows))
    finally:
        registry.close()


def _insert(table: str, names: list[str]) -> str:
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' for _ in names)})"
