"""The world after a past, kept so that many histories can begin from it, and what goes with a world."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from dataclasses import dataclass
from typing import Any

from headgate.storage.bin_cache import cache_root
from headgate.storage.outside import OUTSIDE
from headgate_lab.chaos.checks import Raw
from headgate_lab.chaos.history import Settings
from headgate_lab.chaos.source import Row
from headgate_lab.chaos.world import World


@dataclass(frozen=True)
class Snapshot:
    """The world after a past, from which many histories begin."""

    files: dict[str, bytes]
    names: int
    now: float
    rows: tuple[Row, ...]
    source: Any
    published: dict[int, list[dict[str, Any]]]
    settings: Settings
    drivers: int
    split: bool
    slots: tuple[int, ...]
    lost: tuple[int, ...]
    caches: dict[str, bytes]
    raw: Raw


class inside:
    """The world is what storage sees as outside."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __enter__(self) -> None:
        self._token = OUTSIDE.set(self._world)

    def __exit__(self, *error: object) -> None:
        OUTSIDE.reset(self._token)


_folder = ""


def cache_folder() -> str:
    """An empty folder for the caches of executors, the same for every history of this process."""
    global _folder
    if not _folder or not os.path.isdir(_folder):
        _folder = tempfile.mkdtemp(prefix="headgate-chaos-", dir=cache_root())
        atexit.register(shutil.rmtree, _folder, ignore_errors=True)
    for name in os.listdir(_folder):
        shutil.rmtree(f"{_folder}/{name}", ignore_errors=True)
    return _folder


def cached(folder: str) -> dict[str, bytes]:
    """The files of all caches."""
    files = {}
    for inner, _, names in os.walk(folder):
        for name in names:
            with open(f"{inner}/{name}", "rb") as file:
                files[os.path.relpath(f"{inner}/{name}", folder)] = file.read()
    return files


def bring_back(folder: str, files: dict[str, bytes]) -> None:
    """Write them again."""
    for name, data in files.items():
        path = f"{folder}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
