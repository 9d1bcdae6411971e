"""Takes the work of exporters off the query's thread: a batch does not wait for them.

Events are handled in order, in one thread for the process, which has time while tasks run. Nothing is dropped: if too
many events wait, the query's own thread handles them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from headgate import logs
from headgate.observe.events import Event, QueryEvent

MOST = 100
"""Events that may wait: each holds the report of its batch."""
LAST = frozenset((Event.ended, Event.stopped, Event.failed))
log = logs.logger("headgate.query")
_pool = ThreadPoolExecutor(1, thread_name_prefix="headgate-observe")


class Later:
    """Calls a function with each event, a little later; with the last event of a query at once."""

    def __init__(self, call: Callable[[QueryEvent], object]) -> None:
        self._call, self._events, self._lock = call, deque[QueryEvent](), threading.Lock()

    def __call__(self, event: QueryEvent) -> None:
        """Take an event."""
        self._events.append(event)
        if event.event in LAST or len(self._events) > MOST:
            self.drain()
            return
        try:
            _pool.submit(self.drain)
        except RuntimeError:  # the interpreter ends
            self.drain()

    def drain(self) -> None:
        """Handle all events that wait."""
        with self._lock:
            while self._events:
                event = self._events.popleft()
                try:
                    self._call(event)
                except Exception:
                    log.exception("%r raised an error and was ignored", self._call)
