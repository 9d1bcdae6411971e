"""Time for the channels of a stage: slowed down, or made up."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from headgate.errors import ConfigError

Pace = float | Mapping[int, float]
"""Microseconds that a row takes: on every channel, or by channel."""


def pace(stage: Any, us: Pace) -> None:
    """Give rows a service time on a stage's channels, from the next batch on: it is slept, not burnt. For demonstrations and tests.

    `us` is the time of a row in microseconds, of all channels or by channel. 0 takes it back.
    """
    stage.engine.watch = Paced(us)


class Paced:
    """Real time, in which a row takes so long at least."""

    def __init__(self, us: Pace = 0.0) -> None:
        if min(us.values(), default=0) < 0 if isinstance(us, Mapping) else us < 0:
            raise ConfigError(f"pace={us} is a time per row and cannot be negative")
        self.us = us

    def now(self) -> float:
        """Seconds since some moment."""
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        """Let so much time pass."""
        time.sleep(seconds)

    def pace(self, channel: int) -> float:
        """Seconds that a row takes."""
        return 1e-6 * (self.us.get(channel, 0.0) if isinstance(self.us, Mapping) else self.us)


class ModelledTime(Paced):
    """Time that passes only when it is told to: a row takes just what its pace says, and all else no time.

    Whether a channel is late, and what it reports, then follow from its rows alone, on any machine, and nobody sleeps:
    `stage.engine.watch = ModelledTime(500)`.

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
        """Let so many pass."""
        self._now += seconds
