"""Where the service remembers: SQLite by a path, PostgreSQL by a URL, through one thin layer.

`write` returns when its changes are durable, all of them or none. Statements use `?`; rows come back as tuples.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from headgate.errors import ConfigError, HeadgateError, NewerFormat

FORMAT = 1
Change = tuple[str, Sequence[Sequence[Any]]]
"""A statement and the rows to run it with."""
TABLES = (
    "CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS tenants (name TEXT PRIMARY KEY, token_hash TEXT NOT NULL UNIQUE, admin INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS sources (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, columns TEXT NOT NULL,"
    " delay_us BIGINT NOT NULL, rate DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE IF NOT EXISTS servers (id INTEGER PRIMARY KEY, alive INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS templates (id INTEGER PRIMARY KEY, key TEXT NOT NULL, template TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS computations (id BIGINT PRIMARY KEY, template INTEGER NOT NULL, sources TEXT NOT NULL,"
    " constants TEXT NOT NULL, server INTEGER NOT NULL, born BIGINT NOT NULL, here BIGINT NOT NULL, origin INTEGER)",
    "CREATE TABLE IF NOT EXISTS queries (id BIGINT PRIMARY KEY, tenant TEXT NOT NULL, name TEXT NOT NULL, text TEXT NOT NULL,"
    " computation BIGINT, since BIGINT NOT NULL, state TEXT NOT NULL, why TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS starts (batch BIGINT PRIMARY KEY, latest TEXT NOT NULL)",
)


class Registry(Protocol):
    """What the service needs of a database."""

    def write(self, *changes: Change) -> None:
        """Make changes in one transaction, durable before this returns."""

    def read(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a query."""

    def close(self) -> None:
        """Let go of the database."""


class _Database:
    """The same for both databases, but for how to connect and how a value is marked."""

    mark = "?"

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self.write(*((table, [()]) for table in TABLES))
        found = self.read("SELECT value FROM about WHERE name = 'format'")
        if not found:
            self.write(("INSERT INTO about VALUES ('format', ?)", [(str(FORMAT),)]))
        elif int(found[0][0]) > FORMAT:
            self.close()
            raise NewerFormat(
                f"the registry has format {found[0][0]}, and this headgate reads up to {FORMAT}; upgrade headgate"
            )

    def write(self, *changes: Change) -> None:
        with self._lock:
            cursor = self._connection.cursor()
            try:
                for sql, rows in changes:
                    cursor.executemany(sql.replace("?", self.mark), rows)
                self._connection.commit()
            except Exception as error:
                self._connection.rollback()
                raise HeadgateError(
                    f"the registry refused a change, and nothing of it was made: {error}"
                ) from error
            finally:
                cursor.close()

    def read(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            cursor = self._connection.cursor()
            try:
                cursor.execute(sql.replace("?", self.mark), values)
                return [tuple(row) for row in cursor.fetchall()]
            finally:
                cursor.close()
                self._connection.commit()

    def close(self) -> None:
        with self._lock:
            self._connection.close()


class SQLite(_Database):
    """A file beside the service."""

    def __init__(self, path: str) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # durable, not only consistent, when a commit returns
        super().__init__(connection)


class PostgreSQL(_Database):
    """A database by its URL."""

    mark = "%s"

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ModuleNotFoundError as error:
            raise ConfigError(
                "a registry in PostgreSQL needs psycopg: pip install 'headgate[postgres]'"
            ) from error
        try:
            connection = psycopg.connect(url)
        except psycopg.Error as error:
            raise ConfigError(f"the registry cannot be reached: {error}") from error
        super().__init__(connection)


def open_registry(where: str) -> Registry:
    """A registry by a path, or by a postgresql:// URL."""
    if where.startswith(("postgresql://", "postgres://")):
        return PostgreSQL(where)
    if "://" in where:
        raise ConfigError(f"registry {where!r}: a path for SQLite, or postgresql://user@host/database")
    return SQLite(where)
