"""The registry: all or nothing, durable, the same in SQLite and PostgreSQL."""

import os
import sqlite3

import numpy as np
import pytest
from tests.service.local import Local
from tests.sql.world import DELAY, named, oracle, rows_of

from headgate.errors import ConfigError, HeadgateError, NewerFormat, Superseded
from headgate.service.registry import open_registry
from headgate.service.service import Service
from headgate.service.settings import Settings

POSTGRES = os.environ.get("HEADGATE_TEST_POSTGRES", "")
"""URL of an empty database that this may write to."""


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request, tmp_path):
    if request.param == "sqlite":
        yield str(tmp_path / "registry.db")
        return
    if not POSTGRES:
        pytest.skip("needs a PostgreSQL: set HEADGATE_TEST_POSTGRES to its URL")
    yield POSTGRES
    import psycopg

    with psycopg.connect(POSTGRES, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")


def test_what_is_written_is_there_after_a_restart(where) -> None:
    registry = open_registry(where)
    rows = [("ann", "admin", "active", 1), ("bob", "reader", "active", 0)]
    registry.write(
        ("INSERT INTO tenants VALUES (?, ?, ?, ?)", rows), ("INSERT INTO servers VALUES (?, 1)", [(0,), (1,)])
    )
    registry.close()
    again = open_registry(where)
    assert again.read("SELECT name, role, state, created_us FROM tenants ORDER BY name") == rows
    assert again.read("SELECT id FROM servers WHERE id > ?", 0) == [(1,)]
    again.close()


def test_a_change_is_made_whole_or_not_at_all(where) -> None:
    registry = open_registry(where)
    with pytest.raises(HeadgateError, match="no part of it was made"):
        registry.write(
            ("INSERT INTO servers VALUES (?, 1)", [(0,)]), ("INSERT INTO servers VALUES (?, 1)", [(0,)])
        )
    assert registry.read("SELECT * FROM servers") == []
    registry.write(("INSERT INTO starts VALUES (?, ?) ON CONFLICT (batch) DO NOTHING", [(1, "a"), (1, "b")]))
    assert registry.read("SELECT latest FROM starts") == [("a",)]
    registry.close()


def test_a_later_format_is_refused(where) -> None:
    registry = open_registry(where)
    registry.write(("UPDATE about SET value = '99'", [()]))
    registry.close()
    with pytest.raises(NewerFormat, match="format 99"):
        open_registry(where)


def test_other_places_are_refused() -> None:
    with pytest.raises(ConfigError, match="postgresql://"):
        open_registry("mysql://x/y")
    with pytest.raises(ConfigError, match="cannot be reached"):
        open_registry("postgresql://nobody@127.0.0.1:1/none")


def test_a_service_started_again_is_the_service_as_it_was(where, tmp_path) -> None:
    local = Local(tmp_path / "service", registry=where)
    number, gone = local.add("SELECT x FROM alpha WHERE n > 1", "SELECT x FROM beta")
    local.service.remove(local.ann, gone)
    rows = rows_of(np.random.default_rng(1), 60)
    local.feed(rows)
    before = local.service.status(), local.service.queries.by_id, local.service.computations.by_id
    local.restart()
    status = {**local.service.status(), "pushed_rows": 0}
    assert (status, local.service.queries.by_id, local.service.computations.by_id) == before
    local.feed(rows)
    expected = sum(r["n"] > 1 for r in named(rows, 0).to_pylist())
    assert sum(local.answers(number).values()) == 2 * expected
    assert local.service.authenticate(local.token).name == "ann"
    local.service.close()


@pytest.mark.skipif(not POSTGRES, reason="needs a PostgreSQL: set HEADGATE_TEST_POSTGRES to its URL")
def test_a_lost_connection_is_made_anew() -> None:
    import psycopg

    registry = open_registry(POSTGRES)
    with psycopg.connect(POSTGRES, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
    with pytest.raises(HeadgateError, match="cannot be read"):
        registry.read("SELECT 1")
    assert registry.read("SELECT 1") == [(1,)]
    registry.close()


def test_a_change_that_the_registry_refuses_leaves_nothing_behind(tmp_path) -> None:
    """A full disk, a lost database: who asked is told, nothing half made runs, and the next change finds everything as it was."""
    local = Local(tmp_path)
    text = "SELECT city, count(*) FROM {} GROUP BY city, TUMBLE(time, INTERVAL '10 seconds')"
    (kept,) = local.add(text.format("alpha"))
    rows = rows_of(np.random.default_rng(2), 300)
    local.feed(rows.slice(0, 100))
    other = sqlite3.connect(tmp_path / "registry.db")
    other.execute("CREATE TRIGGER full BEFORE INSERT ON queries BEGIN SELECT RAISE(ABORT, 'disk full'); END")
    with pytest.raises(HeadgateError, match="disk full"):
        local.add(text.format("beta"), text.format("gamma"))
    other.execute("DROP TRIGGER full")
    other.close()
    local.feed(rows.slice(100, 100))
    assert len(local.service.computations.by_id) == local.service.queries.count() == 1
    (new,) = local.add(text.format("alpha"))
    local.feed(rows.slice(200, 100))
    assert (
        local.service.get_query(local.ann, new).computation
        == local.service.get_query(local.ann, kept).computation
    )
    marks = int(np.max(named(rows, 0).column("time").cast("int64").to_numpy())) - DELAY
    window = ("TUMBLE(time, INTERVAL '10 seconds')", 10, 10)
    assert local.answers(kept) == oracle(text.format("alpha"), window, rows, 0, marks)


def test_only_the_service_with_the_newest_claim_changes_the_registry(where) -> None:
    old, new = open_registry(where), open_registry(where)
    old.own(3)
    old.write(("INSERT INTO servers VALUES (?, 1)", [(0,)]))
    new.own(5)
    for change in ([], [("INSERT INTO servers VALUES (?, 1)", [(1,)])]):
        with pytest.raises(Superseded, match="another service has taken over"):
            old.write(*change)
    with pytest.raises(Superseded):
        open_registry(where).own(4)
    new.write(("INSERT INTO servers VALUES (?, 1)", [(2,)]))
    assert new.read("SELECT id FROM servers ORDER BY id") == [(0,), (2,)]


def test_a_service_that_was_overtaken_registers_nothing(tmp_path) -> None:
    old = Service(Settings(tmp_path))
    new = Service(Settings(tmp_path))
    with pytest.raises(Superseded):
        old.tenants.add("late")
    assert len(Service(Settings(tmp_path)).tenants) == len(new.tenants)
