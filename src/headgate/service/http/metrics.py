"""The service's metrics for Prometheus, in headgate's vocabulary (`headgate.observe.vocabulary`). They are totals over all
tenants, and reveal nothing about a single one. A server counts as a channel of the query `service`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from headgate.observe.exposition import exposed
from headgate.observe.samples import Sample, sample
from headgate.observe.series import Series
from headgate.service.service import Service

OF = {"query": "service", "stage": 0}
GAUGES = (
    "queries",
    "computations",
    "templates",
    "sources",
    "servers",
    "traffic",
    "replication",
    "batch",
)
COUNTED = {
    "rows": "headgate_rows_total",
    "results": "headgate_output_rows_total",
}
SENT = {
    "sent_rows": "headgate_sent_rows_total",
    "sent_bytes": "headgate_sent_bytes_total",
}
LAG = {
    "seconds": "headgate_service_lag_seconds",
    "rows": "headgate_service_backlog_rows",
    "bytes": "headgate_service_backlog_bytes",
    "lagging": "headgate_service_lagging",
}
STEPS = {"prepare_ms": "prepare", "job_ms": "compute"}


def of_batch(facts: Mapping[str, Any]) -> Iterator[Sample]:
    """The samples of a batch of the service."""
    yield sample("headgate_batches_total", 1, **OF)
    yield sample("headgate_last_batch", facts["batch"], **OF)
    for name, metric in COUNTED.items():
        yield sample(metric, facts.get(name) or 0, **OF)
    for name, metric in SENT.items():
        yield sample(metric, facts.get(name) or 0)
    yield sample("headgate_unused_rows_total", facts.get("far_ahead") or 0, reason="far ahead", **OF)
    yield sample("headgate_predicted_bytes", facts.get("predicted_bytes"))
    yield sample("headgate_batch_seconds", facts["wall_ms"] / 1e3, **OF)
    for name, step in STEPS.items():
        if facts.get(name) is not None:
            yield sample("headgate_step_seconds", facts[name] / 1e3, step=step, **OF)
    if facts.get("at") is not None:
        yield sample("headgate_last_commit_timestamp_seconds", facts["at"] + facts["wall_ms"] / 1e3, **OF)
    yield from _of_servers(facts)


def _of_servers(facts: Mapping[str, Any]) -> Iterator[Sample]:
    busy: Mapping[Any, float] = facts.get("busy_ms", {})
    for server, spent in busy.items():
        yield sample("headgate_channel_busy_seconds_total", spent / 1e3, channel=server, **OF)
        yield sample("headgate_server_busy_seconds", spent / 1e3, server=server)
    for server, rows in facts.get("server_rows", {}).items():
        yield sample("headgate_channel_rows_total", rows, channel=server, **OF)
    total = sum(busy.values())
    if total:
        yield sample("headgate_busiest_over_mean", max(busy.values()) * len(busy) / total, **OF)


class ServiceMetrics:
    """The series of one service. Batches since the last look are added when somebody looks; the service remembers more of
    them than fit between two scrapes.
    """

    def __init__(self) -> None:
        self._series, self._lock = Series(), threading.Lock()
        self._batch, self._pushed = -1, 0

    def text(self, service: Service) -> str:
        """The metrics in Prometheus' text format."""
        status = service.status()
        with self._lock:
            for facts in list(service.facts):
                if facts["batch"] > self._batch:
                    self._series.add(of_batch(facts))
                    self._batch = facts["batch"]
            pushed, self._pushed = max(0, status["pushed_rows"] - self._pushed), status["pushed_rows"]
            self._series.add([sample("headgate_pushed_rows_total", pushed)])
            self._series.add(sample(f"headgate_{name}", status[name]) for name in GAUGES)
            waiting = service.usage.waiting
            self._series.add([sample("headgate_waiting_rows", sum(waiting.values()))])
            self._series.add([sample("headgate_waiting_tenants", len(waiting))])
            lag = service.lag()
            self._series.add(sample(metric, float(lag[name])) for name, metric in LAG.items())
            self._series.add([sample("headgate_up", float(status["failure"] is None))])
            return exposed(self._series)


_of: WeakKeyDictionary[Service, ServiceMetrics] = WeakKeyDictionary()


def metrics_text(service: Service) -> str:
    """The metrics in Prometheus' text format."""
    return _of.setdefault(service, ServiceMetrics()).text(service)
