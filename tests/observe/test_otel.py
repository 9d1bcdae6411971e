"""OpenTelemetry: the same metrics under the same names, and a trace of each batch."""

from typing import Any

import pytest
from tests.observe.facts import batch_event

import headgate as hg
from headgate.errors import StorageFull
from headgate.observe.events import Event, QueryEvent
from headgate.observe.samples import samples_of
from headgate.observe.series import Series
from headgate.observe.vocabulary import VOCABULARY

sdk = pytest.importorskip("opentelemetry.sdk")


class Told:
    """Providers that keep everything in memory."""

    def __init__(self) -> None:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self.reader, self.exporter = InMemoryMetricReader(), InMemorySpanExporter()
        self.meters = MeterProvider(metric_readers=[self.reader])
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.listener = hg.observe.OpenTelemetry(self.meters, tracers)

    def numbers(self) -> dict[str, dict[tuple[str, ...], Any]]:
        """Every point by metric and labels."""
        self.listener.flush()
        data: Any = self.reader.get_metrics_data()
        metrics = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]
        return {
            metric.name: {
                tuple(point.attributes[label.name] for label in VOCABULARY[metric.name].labels): point
                for point in metric.data.data_points
            }
            for metric in metrics
        }

    def spans(self) -> list[Any]:
        self.listener.flush()
        return list(self.exporter.get_finished_spans())


@pytest.fixture
def told() -> Any:
    made = Told()
    yield made
    made.meters.shutdown()


def test_the_metrics_are_those_of_prometheus(told: Told) -> None:
    series = Series()
    for batch in range(3):
        event = batch_event(batch)
        told.listener(event)
        series.add(samples_of(event))
    numbers = told.numbers()
    for name, values in series.numbers.items():
        assert {labels: point.value for labels, point in numbers[name].items()} == pytest.approx(values)
    for name, histograms in series.histograms.items():
        for labels, histogram in histograms.items():
            point = numbers[name][labels]
            assert list(point.bucket_counts) == histogram.buckets
            assert (point.count, point.sum) == (histogram.count, pytest.approx(histogram.total))


def test_a_batch_is_a_trace_with_a_span_for_each_step_and_task(told: Told) -> None:
    told.listener(batch_event(5))
    spans = {span.name: span for span in told.spans()}
    root, compute = spans["batch"], spans["compute"]
    steps = ["plan", "prepare", "compute", "decide", "commit", "journal", "retire", "publish"]
    assert set(spans) == {"batch", *steps, "channel 0", "channel 1"}
    assert len({span.context.trace_id for span in spans.values()}) == 1
    assert all(spans[step].parent.span_id == root.context.span_id for step in steps)
    assert spans["channel 1"].parent.span_id == compute.context.span_id
    assert dict(root.attributes) == {
        "headgate.query": "users",
        "headgate.batch": 5,
        "headgate.rows": 1000,
    }
    assert spans["channel 0"].attributes["headgate.rows"] == 800
    assert root.start_time <= spans["plan"].start_time
    assert all(root.start_time <= spans[step].start_time <= spans[step].end_time for step in steps)
    assert compute.end_time - compute.start_time == pytest.approx(0.5e9, rel=1e-3)


def test_a_failure_is_a_span_with_the_error(told: Told) -> None:
    told.listener(QueryEvent(event=Event.failed, query="users", at=1.0, error=StorageFull("no room")))
    (span,) = told.spans()
    assert span.status.description == "StorageFull"
    assert span.events[0].attributes["exception.message"] == "no room"


def test_without_settings_nothing_is_sent_and_nothing_fails() -> None:
    hg.observe.OpenTelemetry()(batch_event())
