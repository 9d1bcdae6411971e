"""A backup is what a kill at one moment would have left: the pair of registry and state, with pushed events."""

import json
import os
import sqlite3
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.databases import postgres  # noqa: F401  (a fixture)
from tests.service.local import local_job
from tests.service.pushed import Pushed
from typer.testing import CliRunner

from headgate.cli.commands import app
from headgate.errors import ConfigError, CorruptState, HeadgateError, NewerFormat
from headgate.service.backup import MANIFEST, backup, check, restore
from headgate.service.batch.loop import Loop
from headgate.service.batch.processor import BatchProcessor
from headgate.service.batch_log import PINS
from headgate.service.places import Places
from headgate.service.service import Service
from headgate.service.settings import Settings
from headgate.sql.prepare import Preparer
from headgate.storage.commit_log import sealed, unsealed

PREPARER = Preparer(Settings(None).limits, {})  # type: ignore[arg-type]
WINDOWS = "SELECT count(*) AS n FROM alpha GROUP BY TUMBLE(time, INTERVAL '10 seconds')"


class World:
    """A service without Spark whose pushes are numbered events, one a second."""

    def __init__(self, folder, **places) -> None:
        self.places = Places.of(folder, **places)
        self.service = Service(Settings(folder, servers=2, **places), PREPARER)
        self.processor = BatchProcessor(self.service, local_job)
        self.loop = Loop(self.service, self.processor, [Pushed(self.service)], pa.concat_tables)
        if not len(self.service.tenants):
            self.token = self.service.add_tenant("ann")
            self.ann = self.service.authenticate(self.token)
            self.service.add_sources(self.ann, [{"name": "alpha", "columns": {"x": "bigint"}, "delay_s": 0}])
            self.service.register(self.ann, [("SELECT x FROM alpha", "all"), (WINDOWS, "windows")])
        self.ann = self.service.tenants.by_name("ann")
        self.next, self.names = 0, ["all", "windows"]

    def push(self) -> None:
        self.service.push_events(self.ann, "alpha", [{"time": self.next, "x": self.next}])
        self.next += 1

    def batch(self) -> None:
        self.loop.step()

    def register(self) -> None:
        name = f"q{len(self.names)}"
        self.service.register(self.ann, [(f"SELECT x FROM alpha WHERE x > {len(self.names)}", name)])
        self.names.append(name)

    def remove_first(self) -> None:
        numbers = [q.id for q in self.service.list_queries(self.ann)[0]][2:]
        if numbers:
            self.service.remove(self.ann, numbers[0])

    def rows(self, number):
        found, cursor = list[dict](), None
        while True:
            rows, cursor = self.service.read(self.ann, number, cursor)
            found += [row["values"] for row in rows]
            if not rows:
                return found

    def check(self, sure: int, most: int) -> None:
        """All events up to the first number are there, each once, and the windows count what is there."""
        while True:
            last = self.service.last_batch
            self.batch()
            if self.service.last_batch == last:
                break
        there = Counter(row["x"] for row in self.rows(0))
        assert set(there) == set(range(len(there)))
        assert sure <= len(there) <= most
        assert all(count == 1 for count in there.values())
        counted = sum(row["n"] for row in self.rows(1))
        assert counted == max(0, len(there) - 1) // 10 * 10  # windows that the last event has closed


ACTS = st.lists(st.sampled_from(["push", "push", "batch", "register", "remove_first"]), max_size=8)


DURING = st.lists(ACTS, min_size=6, max_size=6)


@settings(max_examples=4)
@given(before=ACTS, during=DURING)
def test_a_backup_is_what_a_kill_at_one_moment_would_have_left(before, during) -> None:
    backed_up_meanwhile(before, during)


@pytest.mark.full
@given(before=ACTS, during=DURING)
def test_the_same_at_length(before, during) -> None:
    backed_up_meanwhile(before, during)


def backed_up_meanwhile(before, during) -> None:
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        _backed_up_meanwhile(Path(folder), before, during)


def _backed_up_meanwhile(folder, before, during) -> None:
    world = World(folder / "service")
    for act in [*before, "push", "batch"]:
        getattr(world, act)()
    sure, known = world.next, set(world.names)
    acts = iter(during)

    def meanwhile(step) -> None:
        for act in next(acts, []):
            getattr(world, act)()

    backup(world.places, folder / "backup", meanwhile)
    most, names = world.next, set(world.names)
    removed = names - {q.name for q in world.service.list_queries(world.ann)[0]}
    for act in ("push", "batch", "batch"):
        getattr(world, act)()
    assert world.service.batch_log.store.names(PINS) == []
    world.service.close()
    restore(folder / "backup", Places.of(folder / "restored"))
    again = World(folder / "restored")
    there = {q.name for q in again.service.list_queries(again.ann)[0]}
    assert known - removed <= there <= names
    again.check(sure, most)
    again.register()
    again.service.close()


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path / "service")
    for _ in range(15):
        world.push()
    world.batch()
    world.push()
    yield world
    world.service.close()


def test_the_old_service_does_no_harm_to_the_restored_one(world, tmp_path) -> None:
    backup(world.places, tmp_path / "backup")
    restore(tmp_path / "backup", Places.of(tmp_path / "restored"))
    again = World(tmp_path / "restored")
    world.push()
    world.batch()
    world.register()
    again.check(16, 16)
    assert len(again.service.list_queries(again.ann)[0]) == 2
    again.service.close()
    for folder in ("backup", "restored"):
        assert not any(path.stat().st_mode & 0o077 for path in (tmp_path / folder).rglob("*.db"))
        assert not (tmp_path / folder).stat().st_mode & 0o077


def test_files_of_a_pinned_commit_stay_and_are_removed_later(world, tmp_path) -> None:
    state = world.service.batch_log.store

    def batches(step) -> None:
        if step == "cut":
            pinned.extend(state.names("state"))
            for _ in range(5):
                world.push()
                world.batch()
            assert set(pinned) <= set(state.names("state"))

    pinned: list[str] = []
    backup(world.places, tmp_path / "backup", batches)
    world.push()
    world.batch()
    last = world.service.batch_log.last
    assert set(state.names("state")) == last.state_files


def test_a_backup_that_is_damaged_or_newer_is_refused(world, tmp_path) -> None:
    backup(world.places, tmp_path / "backup")
    to = Places.of(tmp_path / "restored")
    victim = next((tmp_path / "backup" / "state" / "results").iterdir())
    good = victim.read_bytes()
    victim.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(CorruptState, match="checksum"):
        restore(tmp_path / "backup", to)
    victim.unlink()
    with pytest.raises(CorruptState, match="missing"):
        restore(tmp_path / "backup", to)
    victim.write_bytes(good)
    manifest = tmp_path / "backup" / MANIFEST
    body = unsealed(manifest.read_bytes(), "")
    for key in ("format", "registry_format"):
        manifest.write_bytes(sealed({**body, key: 99}))
        with pytest.raises(NewerFormat, match="99"):
            restore(tmp_path / "backup", to)
    manifest.unlink()
    with pytest.raises(ConfigError, match="not finished"):
        check(tmp_path / "backup")
    assert not (tmp_path / "restored").exists()


def test_nothing_is_overwritten(world, tmp_path) -> None:
    backup(world.places, tmp_path / "backup")
    with pytest.raises(ConfigError, match="not empty"):
        backup(world.places, tmp_path / "backup")
    with pytest.raises(ConfigError, match="not empty"):
        restore(tmp_path / "backup", world.places)
    with pytest.raises(ConfigError, match="holds a service"):
        restore(tmp_path / "backup", Places.of(tmp_path / "new", state=world.places.state))
    with pytest.raises(ConfigError, match="in use"):
        restore(tmp_path / "backup", Places.of(tmp_path / "new", registry=world.places.registry))
    with pytest.raises(ConfigError, match="no service"):
        backup(Places.of(tmp_path / "nowhere"), tmp_path / "other")


def test_the_commands_back_up_and_restore(world, tmp_path) -> None:
    run = CliRunner()
    folder, target = str(tmp_path / "service"), str(tmp_path / "backup")
    made = run.invoke(app, ["backup", folder, target, "--json"])
    assert json.loads(made.output)["batch"] == 0
    back = run.invoke(app, ["restore", target, str(tmp_path / "restored")])
    assert "headgate serve --folder" in " ".join(back.output.split())
    assert run.invoke(app, ["restore", target, folder]).exit_code == 1


def test_a_service_moves_to_postgresql_and_back(world, tmp_path, postgres) -> None:  # noqa: F811
    psycopg = pytest.importorskip("psycopg")
    backup(world.places, tmp_path / "backup")
    away = {"registry": postgres, "state": str(tmp_path / "elsewhere")}
    restore(tmp_path / "backup", Places.of(tmp_path / "moved", **away))
    with pytest.raises(HeadgateError):
        restore(tmp_path / "backup", Places.of(tmp_path / "twice", registry=postgres))
    moved = World(tmp_path / "moved", **away)
    moved.check(16, 16)
    backup(moved.places, tmp_path / "second")
    moved.service.close()
    restore(tmp_path / "second", Places.of(tmp_path / "back"))
    again = World(tmp_path / "back")
    again.check(16, 16)
    again.service.close()
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")


def test_a_copy_of_the_registry_does_not_see_what_is_written_later(world, tmp_path) -> None:
    from headgate.service.registry_copy import view_of

    view = view_of(world.places.registry)
    world.register()
    view.copy_to(tmp_path / "copy.db")
    view.close()
    with sqlite3.connect(tmp_path / "copy.db") as copy:
        assert copy.execute("SELECT count(*) FROM queries").fetchall() == [(2,)]
