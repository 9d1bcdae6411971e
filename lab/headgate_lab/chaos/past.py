"""The world after a past, kept so that many histories can begin from it, and what goes with a world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
