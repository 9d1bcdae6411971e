"""The service's numbers as Prometheus reads them. Totals over all tenants; nothing of any one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from headgate.service.service import Service

GAUGES = {
    "queries": "Registered queries",
    "computations": "Distinct computations",
    "templates": "Templates",
    "sources": "Sources",
    "servers": "Servers",
    "traffic": "Traffic of the placement, by the sources' rates",
    "replication": "Replication factor of the placement",
    "batch": "The batch that was committed last",
}
BATCH = {
    "rows": "Rows of the last batch",
    "sent_rows": "Rows that its shuffle carried",
    "sent_bytes": "Bytes that its shuffle carried",
    "predicted_bytes": "Bytes that placement predicted for it",
    "results": "Results of the last batch",
    "cut": "Results beyond the limit that were cut off",
    "far_ahead": "Rows whose time is too far ahead to be believed",
    "wall_ms": "Time that the last batch took",
}


class _Numbers:
    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Any]:
        status = self._service.status()
        for name, words in GAUGES.items():
            yield GaugeMetricFamily(f"headgate_{name}", words, value=status[name])
        yield CounterMetricFamily(
            "headgate_pushed_rows", "Rows pushed since the start", value=status["pushed_rows"]
        )
        yield GaugeMetricFamily("headgate_up", "Whether batches run", value=float(status["failure"] is None))
        last = self._service.facts[-1] if self._service.facts else {}
        for name, words in BATCH.items():
            if last.get(name) is not None:
                yield GaugeMetricFamily(f"headgate_batch_{name}", words, value=last[name])
        busy = GaugeMetricFamily(
            "headgate_server_busy_ms", "Time a server took in the last batch", labels=["server"]
        )
        for server, spent in last.get("busy_ms", {}).items():
            busy.add_metric([str(server)], spent)
        yield busy


def metrics_text(service: Service) -> str:
    """The exposition text."""
    registry = CollectorRegistry()
    registry.register(_Numbers(service))
    return generate_latest(registry).decode()
