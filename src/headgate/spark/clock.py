"""Time as it is, for the channels of a stage on Spark. (`headgate.testing` has others.)"""

from __future__ import annotations

import time


class RealTime:
    """A watch that shows real time; no row takes longer than it takes."""

    def now(self) -> float:
        """Seconds since some moment."""
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        """Let so much time pass."""
        time.sleep(seconds)

    def pace(self, channel: int) -> float:
        """No service time is modelled."""
        return 0.0
