"""Real time, for the channels of a stage on Spark. (`headgate.testing` has other watches.)"""

from __future__ import annotations

import time


class RealTime:
    """A watch that shows real time and adds no service time."""

    def now(self) -> float:
        """Seconds since an arbitrary moment."""
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        """Sleep for some seconds."""
        time.sleep(seconds)

    def pace(self, channel: int) -> float:
        """Zero: no service time is added to a row."""
        return 0.0

    def reading(self, size_bytes: int) -> float:
        """Zero: reading takes as long as it takes."""
        return 0.0
