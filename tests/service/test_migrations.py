"""Folders of earlier versions: what they had works, tokens among it."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from tests.service.local import Local
from tests.sql.world import named, rows_of

from headgate.errors import BadToken
from headgate.service.registry import FORMAT
from headgate.service.service import Service
from headgate.service.settings import Settings

DUMP = Path(__file__).with_name("registry_format_2.sql")
"""A registry that the version before tokens had roles wrote."""


class Old(Local):
    """A service in a folder of format 2."""

    def __init__(self, folder) -> None:
        folder.mkdir()
        with sqlite3.connect(folder / "registry.db") as registry:
            registry.executescript(DUMP.read_text(encoding="utf-8"))
        self.folder, self.settings, self.batch = folder, {}, 0
        self.start()
        self.ann = self.service.authenticate("hg_token-of-ann-from-format-2")


def test_a_registry_of_format_2_works_with_its_tokens_grants_and_queries(tmp_path) -> None:
    old = Old(tmp_path / "service")
    for _ in range(2):
        service = old.service
        bob = service.authenticate("hg_token-of-bob-from-format-2")
        root = service.authenticate("hg_token-of-root-from-format-2")
        assert (old.ann.role, bob.role, root.role) == ("writer", "writer", "admin")
        with pytest.raises(BadToken):
            service.authenticate("hg_token-of-eve-from-format-2")
        assert (service.grants.of("alpha"), service.grants.of("weather")) == (["bob"], ["*"])
        assert [query.state for query in service.list_queries(bob)[0]] == ["active", "paused"]
        rows = rows_of(np.random.default_rng(old.batch), 100)
        old.feed(rows)
        expected = sum((row["x"] or 0) > 2 for row in named(rows, 0).to_pylist())
        found, _ = service.read(bob, 2, f"{old.batch - 1}")
        assert len(found) == expected > 0
        old.restart()
    bob = old.service.authenticate("hg_token-of-bob-from-format-2")
    assert old.service.resume(bob, 3).state == "active"
    new, text = old.service.accounts.rotate_token(bob, "bob", bob.token)
    assert new.label == "first"
    with pytest.raises(BadToken):
        old.service.authenticate("hg_token-of-bob-from-format-2")
    old.service.authenticate(text)
    old.service.close()
    with sqlite3.connect(tmp_path / "service" / "registry.db") as registry:
        assert registry.execute("SELECT value FROM about WHERE name = 'format'").fetchall() == [
            (str(FORMAT),)
        ]


def test_a_migration_that_is_interrupted_is_made_again(tmp_path) -> None:
    folder = tmp_path / "service"
    folder.mkdir()
    with sqlite3.connect(folder / "registry.db") as registry:
        registry.executescript(DUMP.read_text(encoding="utf-8"))
        registry.execute(
            "CREATE TRIGGER full BEFORE UPDATE ON about WHEN new.value = '3' BEGIN SELECT RAISE(ABORT, 'disk full'); END"
        )
    with pytest.raises(Exception, match="disk full"):
        Service(Settings(folder))
    with sqlite3.connect(folder / "registry.db") as registry:
        assert registry.execute("SELECT count(token_hash) FROM tenants").fetchall() == [(3,)]
        registry.execute("DROP TRIGGER full")
    service = Service(Settings(folder))
    assert service.authenticate("hg_token-of-ann-from-format-2").name == "ann"
    service.close()
