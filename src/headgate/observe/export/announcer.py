"""Tells the listeners of a query what happens. A listener that raises an error is named in the log, and never stops the stream."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from headgate import logs
from headgate.errors import ConfigError
from headgate.observe.events import Event, Listener, QueryEvent
from headgate.observe.export.port import Port
from headgate.observe.vocabulary import is_name
from headgate.stage.facts import BatchFacts
from headgate.storage.patience import REQUESTS

log = logs.logger("headgate.query")
IDLE_EVERY = 10.0
"""Seconds between two events of a query that stays idle."""


class Announcer:
    """The listeners of one query, and what they have not been told yet."""

    def __init__(
        self,
        name: str | None = None,
        listeners: Iterable[Listener] = (),
        port: int | None = None,
        *,
        interval: float | None = None,
    ) -> None:
        """`name` is the query's; without it `query` is set when its checkpoint is known."""
        if name is not None and (not isinstance(name, str) or not is_name(name)):
            raise ConfigError(
                f"name={name!r} is not a name: it is a label of metrics, so give up to 64 letters, digits, '-', '_' and '.'"
            )
        self.query, self.named = name or "", name is not None
        self.listeners = list(listeners)
        """Functions that are called with each `QueryEvent`, in the thread of the query. Change it at any time."""
        wrong = [each for each in self.listeners if not callable(each)]
        if wrong:
            raise ConfigError(
                f"{wrong[0]!r} is not a listener: give a function of one event, such as print, or hg.observe.TextFile(...)"
            )
        self.port = None if port is None else Port(port)
        if self.port is not None:
            self.listeners.append(self.port)
        self._interval, self._facts = interval, deque[BatchFacts]()
        self._again = REQUESTS.again
        self._idle_until = 0.0

    def identify(self, stage: str) -> None:
        """Name the query by its checkpoint, if it has no other name."""
        if not self.named:
            self.query = stage[:8]

    def take(self, facts: BatchFacts) -> None:
        """Take what a stage did, for the next event."""
        self._facts.append(facts)

    def tell(self, event: Event, *, requests: int = 0, **more: Any) -> None:
        """Tell every listener. `requests` are those of tasks and driver together since the last event."""
        facts = [self._facts.popleft() for _ in range(len(self._facts))]
        again, self._again = REQUESTS.again - self._again, REQUESTS.again
        self._idle_until = 0.0
        self._out(
            QueryEvent(
                event=event,
                query=self.query,
                at=time.time(),
                stages=tuple(sorted(facts, key=lambda facts: facts.stage)),
                interval=self._interval,
                requests=requests,
                retries=max(0, again),
                **more,
            )
        )

    def tell_rest(self) -> None:
        """Tell what a query did after its end, if it did something."""
        if self._facts:
            self.tell(Event.batch)
            self.tell(Event.ended)

    def idle(self) -> None:
        """Tell that there was nothing to do, if that is news."""
        now = time.monotonic()
        if now >= self._idle_until:
            self.tell(Event.idle)
            self._idle_until = now + IDLE_EVERY

    def _out(self, event: QueryEvent) -> None:
        with logs.about(query=self.query, batch=event.batch):
            if event.event is not Event.idle:
                log.info("%s", event, extra={"happened": event})
            for listener in list(self.listeners):
                try:
                    listener(event)
                except Exception:
                    log.exception("%r raised an error and was ignored", listener)
