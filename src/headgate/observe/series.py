"""Samples added up: the series that an exporter shows. Not thread-safe; exporters have a lock.

Law: a counter and a histogram never go down.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from headgate.errors import ConfigError
from headgate.observe.samples import Sample
from headgate.observe.vocabulary import VOCABULARY, Kind, Metric

QUERIES = 200
"""Queries whose series are kept: beyond that the one that was heard of longest ago is removed."""


@dataclass
class Histogram:
    """Observations by bucket (each its own, not yet added up), their sum and number."""

    buckets: list[int]
    total: float = 0.0
    count: int = 0

    def observe(self, value: float, bounds: tuple[float, ...]) -> None:
        """Add an observation."""
        self.buckets[bisect_left(bounds, value)] += 1
        self.total += value
        self.count += 1


Values = dict[tuple[str, ...], float]


@dataclass
class Series:
    """Every series by metric and labels."""

    numbers: dict[str, Values] = field(default_factory=dict)
    histograms: dict[str, dict[tuple[str, ...], Histogram]] = field(default_factory=dict)
    _heard: dict[str, None] = field(default_factory=dict)
    """The queries, the one that was heard of longest ago first."""

    def add(self, samples: Iterable[Sample]) -> None:
        """Take samples in."""
        for name, labels, value in samples:
            metric = VOCABULARY[name]
            if metric.kind is Kind.histogram:
                self._observe(metric, labels, value or 0.0)
            elif metric.kind is Kind.counter:
                self._count(metric, labels, value or 0.0)
            elif value is None:
                self.numbers.get(name, {}).pop(labels, None)
            else:
                self.numbers.setdefault(name, {})[labels] = float(value)

    def _count(self, metric: Metric, labels: tuple[str, ...], value: float) -> None:
        if not value >= 0:
            raise ConfigError(f"{metric.name} is a counter, and {value} would take it down")
        values = self.numbers.setdefault(metric.name, {})
        values[labels] = values.get(labels, 0.0) + value

    def _observe(self, metric: Metric, labels: tuple[str, ...], value: float) -> None:
        found = self.histograms.setdefault(metric.name, {})
        if labels not in found:
            found[labels] = Histogram([0] * (len(metric.buckets) + 1))
        found[labels].observe(value, metric.buckets)

    def hear(self, query: str) -> None:
        """Note that there is news of a query, and forget the oldest if there are too many."""
        self._heard.pop(query, None)
        self._heard[query] = None
        while len(self._heard) > QUERIES:
            oldest = next(iter(self._heard))
            del self._heard[oldest]
            self.forget(oldest)

    def forget(self, query: str) -> None:
        """Remove the series of a query."""
        for metric in VOCABULARY.values():
            if not metric.labels or metric.labels[0].name != "query":
                continue
            known: dict[tuple[str, ...], object] = {
                **self.numbers.get(metric.name, {}),
                **self.histograms.get(metric.name, {}),
            }
            for labels in (labels for labels in known if labels[0] == query):
                self.numbers.get(metric.name, {}).pop(labels, None)
                self.histograms.get(metric.name, {}).pop(labels, None)

    def value(self, name: str, **labels: object) -> float | None:
        """The value of a counter or gauge; None if there is no such series."""
        return self.numbers.get(name, {}).get(VOCABULARY[name].labelled(**labels))

    def metrics(self) -> Iterator[Metric]:
        """The metrics that have a series, in the order of the vocabulary."""
        for metric in VOCABULARY.values():
            if self.numbers.get(metric.name) or self.histograms.get(metric.name):
                yield metric
