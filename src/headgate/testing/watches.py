"""Clocks for the channels of a stage: real time with slow rows, or simulated time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from headgate.errors import ConfigError

Pace = float | Mapping[int, float]
"""The microseconds that a row takes, on every channel or by channel."""


def pace(stage: Any, us: Pace) -> None:
    """Give rows a service time on the channels of a stage, from the next batch
    on. For demonstrations and tests.

    `us` is the time for each row in microseconds, on all channels or by channel; 0 removes it. The
    channel sleeps for that time and uses no CPU.
    """
    stage.engine.watch = Paced(us)


class Paced:
    """Real time, in which each row takes at least a given time."""

    def __init__(self, us: Pace = 0.0) -> None:
        if min(us.values(), default=0) < 0 if isinstance(us, Mapping) else us < 0:
            raise ConfigError(f"pace={us} is a time per row and cannot be negative")
        self.us = us

    def now(self) -> float:
        """Seconds since an arbitrary moment."""
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        """Sleep for some seconds."""
        time.sleep(seconds)

    def pace(self, channel: int) -> float:
        """The least time in seconds that a row takes on a channel."""
        return 1e-6 * (self.us.get(channel, 0.0) if isinstance(self.us, Mapping) else self.us)


class ModelledTime(Paced):
    """Simulated time: a row takes exactly its pace, and everything else takes no time.

    Whether a channel is late, and what it reports, then depend on its rows alone, on any machine,
    and nothing really sleeps: `stage.engine.watch = ModelledTime(500)`.

    >>> watch = ModelledTime()
    >>> watch.sleep(1.5)
    >>> watch.now()
    1.5
    """

    def __init__(self, us: Pace = 0.0) -> None:
        super().__init__(us)
        self._now = 0.0

    def now(self) -> float:
        """Seconds so far."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Let this many seconds pass."""
        self._now += seconds
