"""Time that passes only when it is told to: what a channel does then takes as long as its pace says, on any machine."""

from __future__ import annotations


class ModelledTime:
    """A watch for a stage (`stage.watch = ModelledTime()`): with `pace_us` a row takes just that, and all else no time.

    Whether a channel is late, and what it reports, then follow from its rows alone, and nobody sleeps.

    >>> watch = ModelledTime()
    >>> watch.sleep(1.5)
    >>> watch.now()
    1.5
    """

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        """Seconds so far."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Let so many pass."""
        self._now += seconds
