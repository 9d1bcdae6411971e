"""Clocks for the channels of a stage: real time with slow rows, or simulated time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.errors import ConfigError

Pace = float | Mapping[int, float]
"""The microseconds that a row takes, on every channel or by channel."""


@dataclass(frozen=True)
class Disk:
    """A disk from which state is read: a seek for each bin, then its bytes.

    `grown` is the number of bytes for which one byte of state stands, so that a small state takes as
    long to read as a large one.

    >>> Disk(mb_per_s=100, seek_ms=5).seconds(1_000_000)
    0.015
    """

    mb_per_s: float = 125.0
    seek_ms: float = 5.0
    grown: float = 1.0

    def __post_init__(self) -> None:
        if not (self.mb_per_s > 0 and self.seek_ms >= 0 and self.grown > 0):
            raise ConfigError(f"{self} is no disk: mb_per_s and grown are above 0, seek_ms is 0 or more")

    def seconds(self, size_bytes: int) -> float:
        """The time to read a bin of this size."""
        return self.seek_ms / 1e3 + size_bytes * self.grown / (self.mb_per_s * 1e6)


def pace(stage: Any, us: Pace, disk: Disk | None = None) -> None:
    """Give rows a service time on the channels of a stage, from the next batch
    on. For demonstrations and tests.

    `us` is the time for each row in microseconds, on all channels or by channel; 0 removes it. With `disk`,
    reading the state of a bin takes at least as long as from that disk. The channel sleeps for that
    time and uses no CPU.
    """
    stage.engine.watch = Paced(us, disk)


class Paced:
    """Real time, in which each row takes at least a given time."""

    def __init__(self, us: Pace = 0.0, disk: Disk | None = None) -> None:
        if min(us.values(), default=0) < 0 if isinstance(us, Mapping) else us < 0:
            raise ConfigError(f"pace={us} is a time per row and cannot be negative")
        self.us, self.disk = us, disk

    def now(self) -> float:
        """Seconds since an arbitrary moment."""
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        """Sleep for some seconds."""
        time.sleep(seconds)

    def pace(self, channel: int) -> float:
        """The least time in seconds that a row takes on a channel."""
        return 1e-6 * (self.us.get(channel, 0.0) if isinstance(self.us, Mapping) else self.us)

    def reading(self, size_bytes: int) -> float:
        """The least time in seconds in which a bin of this size is read."""
        return 0.0 if self.disk is None else self.disk.seconds(size_bytes)


class ModelledTime(Paced):
    """Simulated time: a row takes exactly its pace, and everything else takes no time.

    Whether a channel is late, and what it reports, then depend on its rows alone, on any machine,
    and nothing really sleeps: `stage.engine.watch = ModelledTime(500)`.

    >>> watch = ModelledTime()
    >>> watch.sleep(1.5)
    >>> watch.now()
    1.5
    """

    def __init__(self, us: Pace = 0.0, disk: Disk | None = None) -> None:
        super().__init__(us, disk)
        self._now = 0.0

    def now(self) -> float:
        """Seconds so far."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Let this many seconds pass."""
        self._now += seconds
