"""Metrics as a text file for Prometheus' node exporter, for jobs that no scrape reaches.

The file is replaced as a whole, so a reader sees one state or the next.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from headgate.errors import ConfigError
from headgate.observe.events import Event, QueryEvent
from headgate.observe.export.collected import Collected
from headgate.observe.export.later import Later

SUFFIX = ".prom"
"""The node exporter reads files with this ending."""


class TextFile:
    """A listener that writes metrics to a file at most once in `every` seconds, and when a query ends."""

    def __init__(self, path: str | os.PathLike[str], *, every: float = 1.0) -> None:
        self.path, self._every, self._next = Path(path), every, 0.0
        if self.path.suffix != SUFFIX:
            raise ConfigError(f"{path}: the node exporter reads files that end in {SUFFIX}; name it so")
        if not self.path.parent.is_dir():
            raise ConfigError(
                f"{path}: there is no folder {self.path.parent}; make it, or name the one that the node exporter reads "
                "(--collector.textfile.directory)"
            )
        self._collected, self._later = Collected(), Later(self._take)

    def __call__(self, event: QueryEvent) -> None:
        """Take in what a query tells, and write it, a little later."""
        self._later(event)

    def _take(self, event: QueryEvent) -> None:
        self._collected.take(event)
        now = time.monotonic()
        if now < self._next and event.event in (Event.batch, Event.idle):
            return
        self._next = now + self._every
        self.write()

    def flush(self) -> None:
        """Handle what was told until now."""
        self._later.drain()

    def write(self) -> None:
        """Replace the file."""
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        temporary.write_text(self._collected.text(), encoding="utf-8")
        os.replace(temporary, self.path)

    def __repr__(self) -> str:
        return f"TextFile({str(self.path)!r})"
