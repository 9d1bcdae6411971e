"""What storage takes from outside: names that nobody else uses, and who and when a driver is.

Everything else here depends on its arguments and on the files alone. A simulator sets `OUTSIDE`,
and then a run can be repeated exactly.
"""

from __future__ import annotations

import os
import socket
import uuid
from contextvars import ContextVar
from datetime import UTC, datetime


class Outside:
    """This machine, its clock, and chance."""

    def unique(self) -> str:
        """32 hexadecimal digits that nobody else has drawn."""
        return uuid.uuid4().hex

    def here(self) -> tuple[str, int, str]:
        """The host, the id of this process, and the time in text."""
        return socket.gethostname(), os.getpid(), datetime.now(UTC).isoformat(timespec="seconds")


OUTSIDE: ContextVar[Outside] = ContextVar("outside", default=Outside())  # noqa: B039 - it has no state
"""What is outside, for this thread."""


def unique() -> str:
    """32 hexadecimal digits that nobody else has drawn."""
    return OUTSIDE.get().unique()
