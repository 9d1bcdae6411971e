"""The series of one exporter, fed by the threads of queries and read by others."""

from __future__ import annotations

import threading

from headgate.observe.events import QueryEvent
from headgate.observe.export.later import Later
from headgate.observe.exposition import exposed
from headgate.observe.samples import Sample, samples_of
from headgate.observe.series import Series, Values


class Collected:
    """A listener that adds up the metrics of the queries that it hears of."""

    def __init__(self) -> None:
        self._series, self._lock = Series(), threading.Lock()
        self._later = Later(self.take)

    def __call__(self, event: QueryEvent) -> None:
        """Take in what a query tells, a little later."""
        self._later(event)

    def take(self, event: QueryEvent) -> list[Sample]:
        """Take in what a query tells; returns the samples."""
        samples = list(samples_of(event))
        with self._lock:
            self._series.hear(event.query)
            self._series.add(samples)
        return samples

    def values(self, name: str) -> Values:
        """The values of a counter or gauge by its labels."""
        with self._lock:
            return dict(self._series.numbers.get(name, {}))

    def text(self) -> str:
        """The metrics in Prometheus' text format, with all that was told until now."""
        self._later.drain()
        with self._lock:
            return exposed(self._series)
