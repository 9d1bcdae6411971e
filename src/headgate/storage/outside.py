"""What storage takes from outside: names that nobody else uses, who and when a driver is, time to
wait for a store, and how often it tidies up.

Everything else here depends on its arguments and on the files alone. A simulator sets `OUTSIDE`,
and then a run can be repeated exactly.
"""

from __future__ import annotations

import os
import random
import socket
import time
import uuid
from contextvars import ContextVar
from datetime import UTC, datetime


class Outside:
    """This machine, its clock, and chance."""

    every = 10
    """On an object store, the batches between two removals of obsolete files, and between two files of the journal."""

    def unique(self) -> str:
        """32 hexadecimal digits that nobody else has drawn."""
        return uuid.uuid4().hex

    def here(self) -> tuple[str, int, str]:
        """The host, the id of this process, and the time in text."""
        return socket.gethostname(), os.getpid(), datetime.now(UTC).isoformat(timespec="seconds")

    def clock(self) -> float:
        """Seconds of a clock that only goes forward."""
        return time.monotonic()

    def pause(self, most: float) -> None:
        """Wait for a part of this time, in seconds, that chance decides."""
        time.sleep(random.uniform(most / 2, most))


OUTSIDE: ContextVar[Outside] = ContextVar("outside", default=Outside())  # noqa: B039 - it has no state
"""What is outside, for this thread."""


def unique() -> str:
    """32 hexadecimal digits that nobody else has drawn."""
    return OUTSIDE.get().unique()
