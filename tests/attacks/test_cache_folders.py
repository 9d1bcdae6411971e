"""Folders that everyone may write to: what another user planted there under our name is not used."""

import os
import tempfile

import pytest

from headgate import code_cache
from headgate.errors import ConfigError
from headgate.storage import bin_cache


@pytest.mark.parametrize("planted", ["link", "file", "another's"])
def test_a_cache_folder_that_another_user_planted_is_not_used(tmp_path, monkeypatch, planted) -> None:
    path = tmp_path / f"headgate-{os.getuid()}"
    if planted == "link":
        (tmp_path / "elsewhere").mkdir()
        path.symlink_to(tmp_path / "elsewhere")
    elif planted == "file":
        path.touch()
    else:
        path.mkdir()
        monkeypatch.setattr(os, "getuid", lambda: path.stat().st_uid + 1)
        path = path.rename(tmp_path / f"headgate-{os.getuid()}")
    with pytest.raises(ConfigError, match="not a folder of this user"):
        bin_cache.own_folder(str(tmp_path))


def test_our_own_cache_folder_is_closed_to_others(tmp_path) -> None:
    path = tmp_path / f"headgate-{os.getuid()}"
    path.mkdir(mode=0o755)
    assert bin_cache.own_folder(str(tmp_path)) == str(path)
    assert not path.stat().st_mode & 0o077


def test_code_is_not_kept_where_others_can_write(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none" / "file"))
    (tmp_path / "none").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    planted = tmp_path / f"headgate-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    assert code_cache.folder(os.environ["XDG_CACHE_HOME"]) != planted
    planted.chmod(0o700)
    assert code_cache.folder(os.environ["XDG_CACHE_HOME"]) == planted
