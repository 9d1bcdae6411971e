"""Samples of the vocabulary: the laws, and what a batch gives."""

import math
from itertools import pairwise
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from tests.observe.facts import batch_event, events, facts_of

from headgate.control.refusal import Reason
from headgate.control.report import HotKey
from headgate.errors import ConfigError, StorageFull
from headgate.observe.events import Event, QueryEvent
from headgate.observe.exposition import exposed
from headgate.observe.samples import Sample, samples_of
from headgate.observe.series import QUERIES, Series
from headgate.observe.vocabulary import CHANNELS, ERRORS, GROUPS, OTHER, STEPS, VOCABULARY, Kind, is_name
from headgate.operators.event_time import SECOND, Clock
from headgate.stage.batch import Batch
from headgate.testing import builders


@pytest.mark.parametrize("metric", VOCABULARY.values(), ids=VOCABULARY)
def test_names_have_their_unit_and_kind(metric: Any) -> None:
    assert metric.name.startswith("headgate_")
    assert metric.name.endswith("_total") == (metric.kind is Kind.counter)
    if metric.unit in ("bytes", "seconds"):
        assert metric.unit in metric.name
    assert bool(metric.buckets) == (metric.kind is Kind.histogram)
    assert list(metric.buckets) == sorted(set(metric.buckets))
    assert metric.help
    assert "\n" not in metric.help


def test_a_metric_is_listed_once() -> None:
    assert len(VOCABULARY) == sum(map(len, GROUPS.values()))


def test_the_bounded_sets_are_those_of_the_code() -> None:
    assert set(VOCABULARY["headgate_refusals_total"].labels[-1].values) == {reason.value for reason in Reason}
    assert all(hasattr(Batch, step) for step in STEPS if step != "plan")
    assert "StorageFull" in ERRORS


@hypothesis.settings(max_examples=10)
@hypothesis.given(st.lists(events(), max_size=4))
def test_every_sample_is_in_the_vocabulary_and_labels_are_bounded(told: list[QueryEvent]) -> None:
    for event in told:
        for name, labels, value in samples_of(event):
            metric = VOCABULARY[name]
            assert len(labels) == len(metric.labels)
            for label, text in zip(metric.labels, labels, strict=True):
                if label.values:
                    assert text in (*label.values, OTHER)
                elif label.below:
                    assert text == OTHER or int(text) < label.below
                else:
                    assert is_name(text)
            assert value is None or math.isfinite(value)
            if metric.kind is not Kind.gauge:
                assert value is not None
                assert value >= 0


@hypothesis.settings(max_examples=10)
@hypothesis.given(st.lists(events(), min_size=2, max_size=5))
def test_counters_and_histograms_never_go_down(told: list[QueryEvent]) -> None:
    series, seen = Series(), []
    for event in told:
        series.add(samples_of(event))
        seen.append(read(exposed(series)))
    for before, after in pairwise(seen):
        for name, value in before.items():
            if name[0].endswith(("_total", "_bucket", "_count", "_sum")):
                assert after[name] >= value


def read(text: str) -> dict[tuple[str, ...], float]:
    """What Prometheus' own client reads in a text."""
    return {
        (sample.name, *(f"{k}={v}" for k, v in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_a_batch_gives() -> None:
    series = Series()
    series.add(samples_of(batch_event(3)))
    of = {"query": "users", "stage": 0}
    assert series.value("headgate_rows_total", **of) == 1000
    assert series.value("headgate_channel_rows_total", channel=0, **of) == 800
    assert series.value("headgate_busiest_over_mean", **of) == 1.6
    assert series.value("headgate_last_batch", **of) == 3
    assert series.value("headgate_store_requests_total", query="users") == 7
    assert series.value("headgate_query_up", query="users") == 1
    assert series.value("headgate_watermark_timestamp_seconds", **of) is None
    text = read(exposed(series))
    assert text["headgate_batch_seconds_count", "query=users", "stage=0"] == 1
    assert text["headgate_step_seconds_sum", "query=users", "stage=0", "step=compute"] == 0.5
    assert text["headgate_step_seconds_bucket", "le=0.25", "query=users", "stage=0", "step=compute"] == 0
    assert text["headgate_step_seconds_bucket", "le=0.5", "query=users", "stage=0", "step=compute"] == 1
    assert text["headgate_step_seconds_sum", "query=users", "stage=0", "step=plan"] == 0.005


def test_what_was_decided_is_counted() -> None:
    series = Series()
    event = batch_event()
    decision = event.stages[0].decision
    series.add(samples_of(event))
    of = {"query": "users", "stage": 0}
    if decision.changed:
        assert decision.plan is not None
        assert series.value("headgate_moves_total", **of) == len(decision.plan.moves) > 0
    else:
        assert decision.refusal is not None
        assert series.value("headgate_refusals_total", reason=decision.refusal.name.value, **of) == 1


def test_the_watermark_and_its_lag() -> None:
    table = builders.table([0, 1])
    clock = Clock(newest=(1_000 * SECOND,), watermark=900 * SECOND)
    facts = facts_of(builders.report(0, table, [5, 5]), table, clock=clock)
    series = Series()
    series.add(samples_of(batch_event(at=1_030.0, stages=(facts,))))
    of = {"query": "users", "stage": 0}
    assert series.value("headgate_watermark_timestamp_seconds", **of) == 900
    assert series.value("headgate_newest_event_timestamp_seconds", **of) == 1_000
    assert series.value("headgate_lag_seconds", **of) == 130


def test_one_key_that_fills_a_channel_is_seen() -> None:
    table = builders.table([0, 1])
    report = builders.report(0, table, [90, 10], hot_keys=[HotKey(1, 0, "a secret", 80)])
    series = Series()
    series.add(samples_of(batch_event(stages=(facts_of(report, table),))))
    assert series.value("headgate_hottest_key_over_mean", query="users", stage=0) == 80 / 50
    assert "secret" not in exposed(series)


def test_channels_beyond_the_bound_are_added_up() -> None:
    table = builders.table(list(range(CHANNELS + 3)))
    report = builders.report(0, table, [2] * (CHANNELS + 3))
    series = Series()
    series.add(samples_of(batch_event(stages=(facts_of(report, table),))))
    of = {"query": "users", "stage": 0}
    assert series.value("headgate_channel_rows_total", channel=OTHER, **of) == 6
    assert series.value("headgate_channel_state_bytes", channel=OTHER, **of) == 300
    assert series.value("headgate_channel_rows_total", channel=1, **of) == 2


def test_failures_are_counted_by_the_class_of_the_error() -> None:
    series = Series()
    for error in (StorageFull("no room"), ZeroDivisionError(), caused_by(StorageFull("no room"))):
        series.add(samples_of(QueryEvent(event=Event.failed, query="users", at=1.0, error=error)))
    assert series.value("headgate_failures_total", query="users", error="StorageFull") == 2
    assert series.value("headgate_failures_total", query="users", error=OTHER) == 1
    assert series.value("headgate_query_up", query="users") == 0


def caused_by(error: Exception) -> Exception:
    outer = RuntimeError("wrapped")
    outer.__cause__ = error
    return outer


def test_a_counter_that_would_go_down_raises() -> None:
    with pytest.raises(ConfigError, match="counter"):
        Series().add([Sample("headgate_rows_total", ("users", "0"), -1)])


def test_labels_are_those_of_the_metric() -> None:
    with pytest.raises(ConfigError, match="query, stage"):
        VOCABULARY["headgate_rows_total"].labelled(query="users", key="ann")


def test_queries_beyond_the_bound_are_forgotten_oldest_first() -> None:
    series = Series()
    for number in range(QUERIES + 2):
        event = batch_event(query=f"q{number}")
        series.hear(event.query)
        series.add(samples_of(event))
    assert series.value("headgate_rows_total", query="q1", stage=0) is None
    assert series.value("headgate_rows_total", query="q2", stage=0) == 1000
    assert 'query="q1"' not in exposed(series)


def test_an_event_prints_and_is_json() -> None:
    event = batch_event(4)
    assert str(event) == "users: batch 4, 1,000 rows in 250 ms, busiest 1.60x the mean"
    told = event.to_json()
    assert told["batch"] == 4
    assert told["stages"][0]["steps"]["compute"] == 0.5
