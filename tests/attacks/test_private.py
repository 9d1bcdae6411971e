"""What other users of the machine, and a second service, find in a service's folder."""

import errno
import os
import sqlite3
from pathlib import Path

import httpx
import pytest
from tests.service.local import Local

from headgate.errors import ConfigError, CorruptState, HeadgateError
from headgate.service.process import admin_token, alone_in


def open_to_others(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o077)


@pytest.mark.parametrize("there", [False, True])
def test_the_folder_and_the_registry_are_private(tmp_path, there) -> None:
    folder = tmp_path / "service"
    if there:
        folder.mkdir(mode=0o755)
    local = Local(folder)
    local.add("SELECT x FROM alpha")
    assert not open_to_others(folder)
    assert not any(open_to_others(path) for path in folder.glob("registry.db*"))
    local.service.close()


def test_two_services_do_not_start_in_one_folder(tmp_path) -> None:
    with (
        alone_in(tmp_path),
        pytest.raises(ConfigError, match=f"process {os.getpid()}.* runs in .*--folder"),
        alone_in(tmp_path),
    ):
        pass
    with alone_in(tmp_path):
        pass


def test_a_registry_that_was_lost_does_not_lock_the_admin_out(local) -> None:
    admin_token(local.service, local.folder)
    token = (local.folder / "token").read_text().strip()
    local.service.close()
    for path in local.folder.glob("registry.db*"):
        path.unlink()
    local.start()
    assert not admin_token(local.service, local.folder)
    assert local.service.authenticate(token).admin


DAMAGE = {
    "DELETE FROM templates": "template 0",
    "DELETE FROM sources WHERE name = 'gamma'": "reads sources",
    "DELETE FROM sources WHERE name = 'alpha'": "numbered",
    "DELETE FROM computations": "query 0 has computation 0",
    "DELETE FROM servers WHERE id > 0": "is on server",
    "UPDATE computations SET constants = '['": "cannot be read",
    "UPDATE templates SET template = '{}'": "cannot be read",
    "UPDATE sources SET columns = '[]'": "cannot be read",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_registry_is_named_as_such(local, damage) -> None:
    local.add("SELECT x FROM gamma WHERE x > 1", *(f"SELECT x FROM gamma WHERE n > {i}" for i in range(20)))
    local.service.close()
    with sqlite3.connect(local.folder / "registry.db") as registry:
        registry.execute(damage)
    with pytest.raises(CorruptState, match=f"the registry is damaged: .*{DAMAGE[damage]}.*backup"):
        local.start()


def test_a_full_disk_names_no_path_of_the_machine(served, monkeypatch, caplog) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/srv/headgate/push/x")

    monkeypatch.setattr("headgate.storage.store.Store._appear", full)
    headers = {"Authorization": f"Bearer {served.token}"}
    body = {"events": [{"time": 1, "x": 1.0}]}
    told = httpx.post(f"{served.url}/sources/alpha/events", json=body, headers=headers)
    assert (told.status_code, told.json()["error"]) == (503, "StorageFull")
    assert "no room left" in told.json()["message"]
    assert "/" not in told.text
    assert "no room left while" in caplog.text


def test_what_the_registry_says_is_for_the_log(served, monkeypatch, caplog) -> None:
    def broken(*_: object) -> None:
        raise HeadgateError("the registry refused a change: server at 10.0.0.5 user headgate")

    monkeypatch.setattr(served.service._registry, "write", broken)
    headers = {"Authorization": f"Bearer {served.token}"}
    told = httpx.post(f"{served.url}/queries", json={"sql": "SELECT x FROM alpha"}, headers=headers)
    assert told.status_code == 503
    assert "10.0.0.5" not in told.text
    assert "10.0.0.5" in caplog.text
