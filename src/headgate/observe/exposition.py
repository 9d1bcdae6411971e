"""Series in Prometheus' text format, version 0.0.4."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import accumulate

from headgate.observe.series import Histogram, Series
from headgate.observe.vocabulary import Kind, Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposed(series: Series) -> str:
    """The text that Prometheus reads."""
    return "".join(f"{line}\n" for metric in series.metrics() for line in _lines(metric, series))


def _lines(metric: Metric, series: Series) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.kind.value}"
    names = tuple(label.name for label in metric.labels)
    if metric.kind is Kind.histogram:
        for labels, histogram in sorted(series.histograms[metric.name].items()):
            yield from _buckets(metric, names, labels, histogram)
        return
    for labels, value in sorted(series.numbers[metric.name].items()):
        yield f"{metric.name}{_braces(names, labels)} {_number(value)}"


def _buckets(
    metric: Metric, names: tuple[str, ...], labels: tuple[str, ...], histogram: Histogram
) -> Iterator[str]:
    bounds = [*(f"{bound:g}" for bound in metric.buckets), "+Inf"]
    for bound, count in zip(bounds, accumulate(histogram.buckets), strict=True):
        yield f"{metric.name}_bucket{_braces((*names, 'le'), (*labels, bound))} {count}"
    yield f"{metric.name}_sum{_braces(names, labels)} {_number(histogram.total)}"
    yield f"{metric.name}_count{_braces(names, labels)} {histogram.count}"


def _braces(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    # Values are within the bounds of their labels, so that nothing in them needs an escape.
    inner = ",".join(f'{name}="{value}"' for name, value in zip(names, values, strict=True))
    return f"{{{inner}}}" if inner else ""


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
