"""From what a query tells to samples of the vocabulary. Pure: the time is part of the event.

A sample of a counter is an increment, that of a gauge its new value (None: there is none any more), and
that of a histogram one observation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from headgate.errors import HeadgateError
from headgate.far_ahead import NEVER
from headgate.observe.events import Event, QueryEvent
from headgate.observe.vocabulary import CHANNELS, VOCABULARY
from headgate.operators.event_time import COMPLETE, SECOND, Clock
from headgate.stage.facts import BatchFacts

SHORTEST_INTERVAL = 1.0
"""Seconds: a query without `every` looks again at once, and nobody should hear about a pause below this."""


class Sample(NamedTuple):
    """A value of a metric, with the values of its labels in their order."""

    name: str
    labels: tuple[str, ...]
    value: float | None


def sample(name: str, value: float | None, **labels: object) -> Sample:
    """A sample whose labels are within their bounds."""
    return Sample(name, _labelled(name, tuple(labels.items())), value)


@lru_cache(maxsize=8192)  # the same series come with every batch
def _labelled(name: str, labels: tuple[tuple[str, object], ...]) -> tuple[str, ...]:
    return VOCABULARY[name].labelled(**dict(labels))


def samples_of(event: QueryEvent) -> Iterator[Sample]:
    """All samples of an event."""
    yield from _of_life(event)
    if event.event is Event.batch:
        yield from _of_query(event)
    for facts in event.stages:
        yield from of_batch(facts, event.query, event.at)


def _of_life(event: QueryEvent) -> Iterator[Sample]:
    """Whether the query runs, and looks at its sources. One that was stopped on purpose has no such gauge.
    Only a direct stream knows when there is nothing to do: a stage in `foreachBatch` is not called then.
    """
    query, gone = event.query, event.event in (Event.ended, Event.stopped)
    up = float(event.event is not Event.failed)
    yield sample("headgate_query_up", None if gone else up, query=query)
    looked = event.progress is not None or event.event in (Event.started, Event.idle)
    if looked or gone:
        yield sample("headgate_last_look_timestamp_seconds", None if gone else event.at, query=query)
    if (looked and event.event is not Event.idle) or gone:
        expected = max(SHORTEST_INTERVAL, event.interval or 0.0, event.seconds)
        yield sample("headgate_interval_seconds", None if gone else expected, query=query)
    if event.event is Event.idle:
        yield sample("headgate_more_rows", 0.0, query=query)
    if event.error is not None:
        # Spark and threads wrap errors of ours.
        error = event.error if isinstance(event.error, HeadgateError) else event.error.__cause__
        kind = type(error or event.error).__name__
        yield sample("headgate_failures_total", 1, query=query, error=kind)


def _of_query(event: QueryEvent) -> Iterator[Sample]:
    query, progress = event.query, event.progress
    yield sample("headgate_store_requests_total", event.requests, query=query)
    yield sample("headgate_store_retries_total", event.retries, query=query)
    if progress is not None:
        yield sample("headgate_more_rows", float(progress.more), query=query)
        yield sample("headgate_step_seconds", progress.planning_ms / 1e3, query=query, stage=0, step="plan")


def of_batch(facts: BatchFacts, query: str, at: float) -> Iterator[Sample]:
    """The samples of one batch of a stage, committed about `at` (seconds since 1970)."""
    report, of = facts.report, {"query": query, "stage": facts.stage}
    channels = report.channels
    yield sample("headgate_batches_total", 1, **of)
    yield sample("headgate_rows_total", facts.rows, **of)
    yield sample("headgate_output_rows_total", sum(c.out_rows for c in channels), **of)
    yield sample("headgate_output_bytes_total", facts.output_bytes, **of)
    yield sample("headgate_state_written_bytes_total", sum(c.delta_bytes for c in channels), **of)
    for reason, rows in facts.unused.items():
        yield sample("headgate_unused_rows_total", max(0, rows), reason=reason, **of)
    yield sample("headgate_batch_seconds", facts.seconds, **of)
    for step in facts.steps:
        yield sample("headgate_step_seconds", step.seconds, step=step.name, **of)
    yield sample("headgate_last_batch", report.batch, **of)
    yield sample("headgate_last_commit_timestamp_seconds", at, **of)
    yield from _of_time(facts.clock, at, of)
    yield sample("headgate_state_rows", sum(c.state_keys for c in channels), **of)
    yield sample("headgate_state_bytes", sum(c.state_bytes for c in channels), **of)
    yield sample("headgate_state_disk_bytes", sum(c.disk_bytes for c in channels), **of)
    yield sample("headgate_backlog_rows", sum(c.backlog_rows for c in channels), **of)
    yield sample("headgate_backlog_bytes", sum(c.backlog_bytes for c in channels), **of)
    yield sample("headgate_rebuilt_bins_total", sum(c.rebuilt_bins for c in channels), **of)
    yield from _of_load(facts, of)
    yield from _of_control(facts, of)


def _of_time(clock: Clock, at: float, of: dict[str, object]) -> Iterator[Sample]:
    known = clock.watermark not in (NEVER, COMPLETE)
    watermark = clock.watermark / SECOND if known else None
    newest = max(clock.newest, default=NEVER)
    yield sample("headgate_watermark_timestamp_seconds", watermark, **of)
    yield sample("headgate_lag_seconds", None if watermark is None else at - watermark, **of)
    yield sample("headgate_newest_event_timestamp_seconds", newest / SECOND if newest > NEVER else None, **of)


def _of_load(facts: BatchFacts, of: dict[str, object]) -> Iterator[Sample]:
    report = facts.report
    yield sample("headgate_channels", facts.decision.table.channels, **of)
    gauges: dict[tuple[str, str], float] = defaultdict(float)
    for c in report.channels:
        yield sample("headgate_channel_rows_total", c.rows, channel=c.channel, **of)
        yield sample("headgate_channel_busy_seconds_total", c.busy_ms / 1e3, channel=c.channel, **of)
        yield sample("headgate_channel_idle_seconds_total", c.idle_ms / 1e3, channel=c.channel, **of)
        label = VOCABULARY["headgate_channel_state_bytes"].labels[-1].value(c.channel)
        gauges["headgate_channel_state_bytes", label] += c.state_bytes
        gauges["headgate_channel_backlog_rows", label] += c.backlog_rows
    for (name, label), value in gauges.items():
        yield sample(name, value, channel=label, **of)
    for gone in range(facts.decision.table.channels, min(CHANNELS, len(report.channels))):
        yield sample("headgate_channel_state_bytes", None, channel=gone, **of)
        yield sample("headgate_channel_backlog_rows", None, channel=gone, **of)
    yield sample("headgate_busiest_over_mean", report.imbalance, **of)
    hottest = max((key.rows for key in report.hot_keys), default=0)
    mean = sum(c.rows for c in report.channels) / max(1, len(report.channels))
    yield sample("headgate_hottest_key_over_mean", hottest / mean if mean else 0.0, **of)


def _of_control(facts: BatchFacts, of: dict[str, object]) -> Iterator[Sample]:
    decision = facts.decision
    yield sample("headgate_table_version", decision.table.version, **of)
    if decision.plan is not None and decision.changed:
        yield sample("headgate_moves_total", len(decision.plan.moves), **of)
        yield sample("headgate_pins_total", len(decision.plan.pins), **of)
        yield sample("headgate_unpins_total", len(decision.plan.unpins), **of)
    if decision.refusal is not None:
        yield sample("headgate_refusals_total", 1, reason=decision.refusal.name.value, **of)
