"""The service's database: SQLite at a path or PostgreSQL at a URL, behind one thin interface.

`write` returns when its changes are durable, all of them or none. Statements mark values with `?`; rows come back as tuples.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from headgate.errors import ConfigError, CorruptState, HeadgateError, NewerFormat, Superseded, required

FORMAT = 3
"""Earlier ones are brought to it by `migrations`."""
Change = tuple[str, Sequence[Sequence[Any]]]
"""A statement and the rows to run it with."""
Changes = dict[str, list[Sequence[Any]]]
"""Changes that are being collected for one `write`: rows by statement."""
TABLES = (
    "CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS tenants (name TEXT PRIMARY KEY, role TEXT NOT NULL, state TEXT NOT NULL, created_us BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS tokens (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, hash TEXT NOT NULL UNIQUE, role TEXT NOT NULL,"
    " label TEXT NOT NULL, created_us BIGINT NOT NULL, expires_us BIGINT, revoked_us BIGINT, used_us BIGINT)",
    "CREATE TABLE IF NOT EXISTS sources (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, columns TEXT NOT NULL,"
    " delay_us BIGINT NOT NULL, rate DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE IF NOT EXISTS servers (id INTEGER PRIMARY KEY, alive INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS templates (id INTEGER PRIMARY KEY, key TEXT NOT NULL, template TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS computations (id BIGINT PRIMARY KEY, template INTEGER NOT NULL, sources TEXT NOT NULL,"
    " constants TEXT NOT NULL, server INTEGER NOT NULL, born BIGINT NOT NULL, here BIGINT NOT NULL, origin INTEGER)",
    "CREATE TABLE IF NOT EXISTS queries (id BIGINT PRIMARY KEY, tenant TEXT NOT NULL, name TEXT NOT NULL, text TEXT NOT NULL,"
    " computation BIGINT, since BIGINT NOT NULL, state TEXT NOT NULL, why TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS grants (source TEXT NOT NULL, tenant TEXT NOT NULL, PRIMARY KEY (source, tenant))",
    "CREATE TABLE IF NOT EXISTS tenant_limits (tenant TEXT NOT NULL, name TEXT NOT NULL, value DOUBLE PRECISION NOT NULL,"
    " PRIMARY KEY (tenant, name))",
    "CREATE TABLE IF NOT EXISTS starts (batch BIGINT PRIMARY KEY, latest TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS published (source TEXT PRIMARY KEY, tenant TEXT NOT NULL, query BIGINT NOT NULL, since BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS deliveries (id BIGINT PRIMARY KEY, uid TEXT NOT NULL, tenant TEXT NOT NULL, query BIGINT NOT NULL,"
    " target TEXT NOT NULL, options TEXT NOT NULL, secret TEXT NOT NULL, cursor TEXT NOT NULL, pending TEXT NOT NULL,"
    " number BIGINT NOT NULL, state TEXT NOT NULL, why TEXT NOT NULL, failing_since DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE IF NOT EXISTS old_secrets (delivery BIGINT PRIMARY KEY, secret TEXT NOT NULL, ends DOUBLE PRECISION NOT NULL)",
)


_OWN = (
    "INSERT INTO about VALUES ('owner', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    " WHERE about.value < excluded.value"
)
_STILL_MINE = "UPDATE about SET value = value WHERE name = 'owner' AND value = ?"
"""Locks the row, so that no other service becomes the owner before the change is made."""


class Registry(Protocol):
    """What the service needs from a database."""

    in_doubt: bool
    """Whether a change failed since this was last set to False: then memory and database may differ."""

    def own(self, claim: int) -> None:
        """Make this service the owner, by the number of its claim; raise `Superseded` if a later one is."""

    def write(self, *changes: Change) -> None:
        """Make all changes in one transaction, which is durable when this returns. Raise `Superseded` if
        another service has become the owner.
        """

    def read(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT."""

    def close(self) -> None:
        """Close the connection."""


class _Database:
    """What SQLite and PostgreSQL share; they differ in how to connect and how a statement marks a value.

    The call during which a connection breaks fails; the next call connects again.
    """

    placeholder = "?"

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._connection = connect()
        self.in_doubt = False
        self._owner = ""
        self._lock = threading.Lock()
        self.write(*((table, [()]) for table in TABLES))
        rows = self.read("SELECT value FROM about WHERE name = 'format'")
        if not rows:
            self.write(("INSERT INTO about VALUES ('format', ?)", [(str(FORMAT),)]))
        elif int(rows[0][0]) > FORMAT:
            self.close()
            raise NewerFormat(
                f"the registry has format {rows[0][0]}, but this headgate reads formats up to {FORMAT}: upgrade headgate"
            )

    @contextmanager
    def _transaction(self, failure: str) -> Iterator[Any]:
        """Give a cursor; everything the block does with it is committed after the block, or nothing is."""
        with self._lock:
            try:
                if getattr(self._connection, "closed", False):
                    self._connection = self._connect()
                with closing(self._connection.cursor()) as cursor:
                    yield cursor
                self._connection.commit()
            except Exception as error:
                with suppress(Exception):  # a broken connection has nothing to roll back
                    self._connection.rollback()
                if isinstance(error, Superseded):
                    raise
                raise HeadgateError(f"{failure}: {error}") from error

    def own(self, claim: int) -> None:
        number = f"{claim:012d}"
        self.write((_OWN, [(number,)]))
        self._owner = number
        self.write()

    def write(self, *changes: Change) -> None:
        try:
            with self._transaction("the registry refused a change, and no part of it was made") as cursor:
                if self._owner:
                    cursor.execute(_STILL_MINE.replace("?", self.placeholder), (self._owner,))
                    if cursor.rowcount != 1:
                        raise Superseded(
                            "another service has taken over this registry. This one has changed nothing since then, and stops: "
                            "run only one service on a registry"
                        )
                for sql, rows in changes:
                    cursor.executemany(sql.replace("?", self.placeholder), rows)
        except HeadgateError:
            self.in_doubt = True
            raise

    def read(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._transaction("the registry cannot be read") as cursor:
            cursor.execute(sql.replace("?", self.placeholder), values)
            return [tuple(row) for row in cursor.fetchall()]

    def close(self) -> None:
        with self._lock:
            self._connection.close()


class SQLite(_Database):
    """A registry in a SQLite file."""

    def __init__(self, path: str) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)

        def connect() -> sqlite3.Connection:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # SQLite's other files take its mode
            try:
                connection = sqlite3.connect(path, check_same_thread=False)
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")  # a commit is durable when it returns
            except sqlite3.DatabaseError as error:
                raise damaged(f"{path}: {error}") from error
            return connection

        super().__init__(connect)


class PostgreSQL(_Database):
    """A registry in a PostgreSQL database, given by its URL."""

    placeholder = "%s"

    def __init__(self, url: str) -> None:
        psycopg = required("psycopg", "a registry in PostgreSQL")
        try:
            super().__init__(partial(psycopg.connect, url))
        except psycopg.Error as error:
            raise ConfigError(f"the registry cannot be reached: {error}") from error


def damaged(what: str) -> CorruptState:
    """The error for a registry whose tables do not belong together."""
    return CorruptState(f"the registry is damaged: {what}; restore it from a backup")


def open_registry(where: str) -> Registry:
    """Open the registry at a path (SQLite) or at a postgresql:// URL."""
    if where.startswith(("postgresql://", "postgres://")):
        return PostgreSQL(where)
    if "://" in where:
        raise ConfigError(
            f"registry {where!r} is neither a path (SQLite) nor a URL like postgresql://user@host/database"
        )
    return SQLite(where)
