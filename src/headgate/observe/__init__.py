"""See a query run: one vocabulary of metrics, events for listeners, and where they go.

`vocabulary` lists the metrics as data, `samples` makes them from events, `series` adds them up,
`exposition` writes them down, `rules` and `board` make alerts and a Grafana board of them. These know no
clock and no file. What does is in `export/`.

A query has `metrics_port=9108` for Prometheus, and `listeners=[...]`: any function of an event, such as `print`,
`TextFile("users.prom")` or `OpenTelemetry()`.
"""

from headgate.observe.events import Event, Listener, QueryEvent
from headgate.observe.export.json_log import JsonLines, json_logs
from headgate.observe.export.otel import OpenTelemetry
from headgate.observe.export.port import Port
from headgate.observe.export.text_file import TextFile
from headgate.observe.vocabulary import VOCABULARY

__all__ = [
    "VOCABULARY",
    "Event",
    "JsonLines",
    "Listener",
    "OpenTelemetry",
    "Port",
    "QueryEvent",
    "TextFile",
    "json_logs",
]
