"""How far batches are behind what was pushed and what streams have."""

from __future__ import annotations

import threading
import time
from typing import Any

from headgate.service.flow import Flow
from headgate.service.push_source import PUSHED


class Lag:
    """The streams that have rows which are not committed, and since when. Thread-safe."""

    def __init__(self, flow: Flow) -> None:
        self._flow, self._lock = flow, threading.Lock()
        self._behind: dict[str, tuple[float, int]] = {}
        """By stream: since when, by a clock that only goes forward, and how many rows at least."""

    def behind(self, stream: str, rows: int = 0) -> None:
        """A stream has rows that are not committed, or it cannot be known whether it has."""
        with self._lock:
            since, _ = self._behind.get(stream, (time.monotonic(), 0))
            self._behind[stream] = (since, rows)

    def caught_up(self, stream: str) -> None:
        """All that a stream has is committed, or it was removed."""
        with self._lock:
            self._behind.pop(stream, None)

    def to_json(self, pushed: dict[str, Any]) -> dict[str, Any]:
        """Seconds since the oldest row that is not committed was accepted or found, rows and bytes; in all and by stream.
        Of streams, the rows are those of the next batch: how many follow is not known. `pushed` is the backlog of the log.
        """
        now = time.monotonic()
        with self._lock:
            streams = {
                name: {"seconds": round(now - since, 3), "rows": rows, "bytes": 0}
                for name, (since, rows) in self._behind.items()
                if name != PUSHED
            }
        if pushed["rows"]:
            streams[PUSHED] = {key: pushed[key] for key in ("seconds", "rows", "bytes")}
        for stream in streams.values():
            stream["lagging"] = stream["seconds"] > self._flow.lag_s
        return {
            "lagging": any(stream["lagging"] for stream in streams.values()),
            "seconds": max((stream["seconds"] for stream in streams.values()), default=0.0),
            "rows": sum(stream["rows"] for stream in streams.values()),
            "bytes": sum(stream["bytes"] for stream in streams.values()),
            "streams": streams,
        }
