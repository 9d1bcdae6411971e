"""Databases for tests: a SQLite file, and a real PostgreSQL, as fixtures."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate_lab.bench.sinks.postgres import can_start, server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of an empty database: the one that HEADGATE_TEST_POSTGRES names, or one in a server that is started here."""
    given = os.environ.get("HEADGATE_TEST_POSTGRES", "")
    if given:
        yield given
        return
    if not can_start():
        pytest.skip(
            "needs a PostgreSQL: install one, or set HEADGATE_TEST_POSTGRES to the URL of an empty database"
        )
    with server(durable=False) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator["Database"]:
    """An empty database."""
    if request.param == "sqlite":
        yield Database(f"sqlite:///{tmp_path}/out.db")
        return
    made = Database(request.getfixturevalue("postgres"))
    yield made
    made.run("DROP SCHEMA public CASCADE")
    made.run("CREATE SCHEMA public")


class Database:
    """A database as a test sees it: by a connection of its own."""

    def __init__(self, url: str) -> None:
        self.url, self.is_sqlite = url, url.startswith("sqlite")

    def connect(self) -> Any:
        """A connection that commits each statement."""
        if self.is_sqlite:
            import sqlite3

            return sqlite3.connect(self.url.removeprefix("sqlite:///"), isolation_level=None)
        psycopg = pytest.importorskip("psycopg")
        return psycopg.connect(self.url, autocommit=True)

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement, and return its rows."""
        connection = self.connect()
        try:
            cursor = connection.execute(sql)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []
        finally:
            connection.close()

    def pairs(self, table: str = "t") -> list[tuple[Any, Any]]:
        """The rows of a table of keys and numbers."""
        return sorted(self.run(f"SELECT k, n FROM {table}"), key=str)
