"""Exporters of OpenTelemetry that drop everything: what is measured then is our own part, and the library's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult


class NullMetrics(MetricExporter):
    """Drops metrics."""

    def export(self, metrics_data: Any, timeout_millis: float = 0, **kwargs: Any) -> MetricExportResult:
        """Drop them."""
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 0) -> bool:
        """Nothing is left."""
        return True

    def shutdown(self, timeout_millis: float = 0, **kwargs: Any) -> None:
        """Nothing to do."""


class NullSpans(SpanExporter):
    """Drops spans."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Drop them."""
        return SpanExportResult.SUCCESS
