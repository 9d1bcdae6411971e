"""Metrics and traces through OpenTelemetry (`headgate[otel]`): the metrics of the vocabulary under the same names, and
a trace for each batch with a span for each step and each channel's task.

Where they go is the affair of OpenTelemetry's own settings: its global providers are used, or those that are given.
"""

from __future__ import annotations

import time
from typing import Any

from headgate.errors import required
from headgate.observe.events import Event, QueryEvent
from headgate.observe.export.collected import Collected
from headgate.observe.export.later import Later
from headgate.observe.vocabulary import VOCABULARY, Kind, Metric
from headgate.stage.facts import BatchFacts, StepTime

SCOPE = "headgate"
TASKS = 64
"""Tasks of a batch that get a span."""


class OpenTelemetry:
    """A listener that gives metrics to a meter, and a trace of each batch to a tracer.

    A step's span has its measured time. A task's span begins with the step `compute`; its length is the time that the
    channel worked and waited for input.
    """

    def __init__(self, meter_provider: Any = None, tracer_provider: Any = None) -> None:
        self._metrics = required("opentelemetry.metrics", "OpenTelemetry")
        self._trace = required("opentelemetry.trace", "OpenTelemetry")
        meter = (meter_provider or self._metrics.get_meter_provider()).get_meter(SCOPE)
        self._tracer = (tracer_provider or self._trace.get_tracer_provider()).get_tracer(SCOPE)
        self._collected = Collected()
        self._later = Later(self._take)
        self._records = {m.name: self._made(meter, m) for m in VOCABULARY.values()}

    def __call__(self, event: QueryEvent) -> None:
        """Take in what a query tells, a little later."""
        self._later(event)

    def flush(self) -> None:
        """Handle what was told until now."""
        self._later.drain()

    def _take(self, event: QueryEvent) -> None:
        for name, labels, value in self._collected.take(event):
            if self._records[name] is not None:
                self._records[name](value, _attributes(VOCABULARY[name], labels))
        if event.event is Event.batch and event.stages:
            self._trace_batch(event)
        elif event.event is Event.failed and event.error is not None:
            self._trace_failure(event, event.error)

    def _made(self, meter: Any, metric: Metric) -> Any:
        """Make the instrument of a metric; return what records an observation. Counters and gauges record nothing: they
        are read when somebody collects.
        """
        about = (metric.unit, metric.help)
        if metric.kind is Kind.histogram:
            bounds = list(metric.buckets)
            made = meter.create_histogram(metric.name, *about, explicit_bucket_boundaries_advisory=bounds)
            return made.record

        def observed(_: Any) -> list[Any]:
            values = self._collected.values(metric.name)
            return [self._metrics.Observation(v, _attributes(metric, labels)) for labels, v in values.items()]

        kind = "counter" if metric.kind is Kind.counter else "gauge"
        getattr(meter, f"create_observable_{kind}")(metric.name, [observed], *about)
        return None

    def _trace_batch(self, event: QueryEvent) -> None:
        ahead = time.time() - time.perf_counter()  # steps are measured by a clock that has no date
        planning = 0.0 if event.progress is None else event.progress.planning_ms / 1e3
        began = min(facts.steps[0].began for facts in event.stages)
        ended = max(facts.steps[-1].ended for facts in event.stages)
        about = {"headgate.query": event.query, "headgate.batch": event.batch, "headgate.rows": event.rows}
        root = self._span("batch", began - planning + ahead, about)
        inside = self._trace.set_span_in_context(root)
        if planning:
            self._span("plan", began - planning + ahead, {}, inside, until=began + ahead)
        for facts in event.stages:
            for step in facts.steps:
                self._trace_step(facts, step, ahead, inside)
        root.end(end_time=_ns(ended + ahead))

    def _trace_step(self, facts: BatchFacts, step: StepTime, ahead: float, inside: Any) -> None:
        span = self._span(step.name, step.began + ahead, {"headgate.stage": facts.stage}, inside)
        if step.name == "compute":
            within = self._trace.set_span_in_context(span)
            for channel in facts.report.channels[:TASKS]:
                about = {
                    "headgate.channel": int(channel.channel),
                    "headgate.rows": int(channel.rows),
                    "headgate.busy_ms": float(channel.busy_ms),
                    "headgate.idle_ms": float(channel.idle_ms),
                    "headgate.executor": channel.executor,
                }
                until = min(step.ended, step.began + (channel.busy_ms + channel.idle_ms) / 1e3) + ahead
                self._span(f"channel {channel.channel}", step.began + ahead, about, within, until=until)
        elif step.name == "decide":
            span.set_attribute("headgate.busiest_over_mean", float(facts.report.imbalance))
            refusal = facts.decision.refusal
            decided = "changed" if facts.decision.changed else refusal.name.value if refusal else "nothing"
            span.set_attribute("headgate.decision", decided)
        span.end(end_time=_ns(step.ended + ahead))

    def _trace_failure(self, event: QueryEvent, error: BaseException) -> None:
        span = self._span("failed", event.at, {"headgate.query": event.query})
        span.record_exception(error)
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, type(error).__name__))
        span.end(end_time=_ns(event.at))

    def _span(
        self, name: str, at: float, about: dict[str, Any], inside: Any = None, *, until: float | None = None
    ) -> Any:
        span = self._tracer.start_span(name, context=inside, start_time=_ns(at), attributes=about)
        if until is not None:
            span.end(end_time=_ns(until))
        return span

    def __repr__(self) -> str:
        return "OpenTelemetry()"


def _attributes(metric: Metric, labels: tuple[str, ...]) -> dict[str, str]:
    return {label.name: value for label, value in zip(metric.labels, labels, strict=True)}


def _ns(seconds: float) -> int:
    return int(1e9 * seconds)
