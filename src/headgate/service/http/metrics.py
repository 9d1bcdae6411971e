"""The service's metrics for Prometheus. They are totals over all tenants, and reveal nothing about a single one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from headgate.service.service import Service

SERVICE_GAUGES = {
    "queries": "Registered queries",
    "computations": "Distinct computations",
    "templates": "Query templates",
    "sources": "Sources",
    "servers": "Servers",
    "traffic": "Traffic of the placement, by the rates of its sources",
    "replication": "Replication factor of the placement",
    "batch": "The batch that was committed last",
}
BATCH_GAUGES = {
    "rows": "Rows of the last batch",
    "sent_rows": "Rows that the shuffle of the last batch carried",
    "sent_bytes": "Bytes that the shuffle of the last batch carried",
    "predicted_bytes": "Bytes that placement predicted for the last batch",
    "results": "Results of the last batch",
    "cut": "Results of the last batch that were cut off at the limit",
    "far_ahead": "Rows of the last batch whose event time is too far ahead to be believed",
    "wall_ms": "Milliseconds that the last batch took",
}


class _Collector:
    """What prometheus_client calls for the current values."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Any]:
        status = self._service.status()
        for name, help_text in SERVICE_GAUGES.items():
            yield GaugeMetricFamily(f"headgate_{name}", help_text, value=status[name])
        yield CounterMetricFamily(
            "headgate_pushed_rows", "Rows pushed since the start", value=status["pushed_rows"]
        )
        yield GaugeMetricFamily("headgate_up", "Whether batches run", value=float(status["failure"] is None))
        last = self._service.facts[-1] if self._service.facts else {}
        for name, help_text in BATCH_GAUGES.items():
            if last.get(name) is not None:
                yield GaugeMetricFamily(f"headgate_batch_{name}", help_text, value=last[name])
        busy = GaugeMetricFamily(
            "headgate_server_busy_ms", "Milliseconds that a server took in the last batch", labels=["server"]
        )
        for server, spent in last.get("busy_ms", {}).items():
            busy.add_metric([str(server)], spent)
        yield busy


def metrics_text(service: Service) -> str:
    """The metrics in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Collector(service))
    return generate_latest(registry).decode()
