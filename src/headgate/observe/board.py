"""A Grafana board, made of the vocabulary: `headgate alerts --out ops` writes it as JSON, to be imported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

UNITS = {
    "seconds": "s",
    "bytes": "bytes",
    "rows": "short",
    "rows a second": "short",
    "ratio": "none",
    "": "short",
}
_HERE = 'query=~"$query"'
WIDTH, HEIGHT = 12, 8


@dataclass(frozen=True)
class Panel:
    """One picture: expressions, each with the legend of its lines."""

    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]
    about: str = ""


def _here(text: str) -> str:
    return text.replace("HERE", _HERE)


def _rate(name: str) -> str:
    return f"rate({name}{{HERE}}[$__rate_interval])"


def _quantile(share: float, name: str) -> str:
    return f"histogram_quantile({share}, sum by (query, stage, le) ({_rate(name)}))"


def _mean_by(label: str, name: str) -> str:
    return f"sum by (query, {label}) ({_rate(f'{name}_sum')}) / sum by (query, {label}) ({_rate(f'{name}_count')})"


ROWS: dict[str, tuple[Panel, ...]] = {
    "Is it well?": (
        Panel(
            "Rows a second",
            "rows a second",
            ((_rate("headgate_rows_total"), "{{query}} in"),
             (_rate("headgate_output_rows_total"), "{{query}} out")),
        ),
        Panel(
            "Time of a batch",
            "seconds",
            ((_quantile(0.5, "headgate_batch_seconds_bucket"), "{{query}} median"),
             (_quantile(0.95, "headgate_batch_seconds_bucket"), "{{query}} 95%")),
        ),
        Panel(
            "Lag of the watermark",
            "seconds",
            (("headgate_lag_seconds{HERE}", "{{query}} stage {{stage}}"),),
            "How far the watermark was behind the clock at the last commit.",
        ),
        Panel(
            "Since the last look at the sources",
            "seconds",
            (("time() - headgate_last_look_timestamp_seconds{HERE}", "{{query}}"),
             ("headgate_interval_seconds{HERE}", "{{query}} interval")),
        ),
    ),
    "Where a batch spends its time": (
        Panel(
            "Mean time by step",
            "seconds",
            ((_mean_by("step", "headgate_step_seconds"), "{{query}} {{step}}"),),
        ),
        Panel(
            "Requests to object stores a second",
            "",
            ((_rate("headgate_store_requests_total"), "{{query}}"),
             (_rate("headgate_store_retries_total"), "{{query}} sent again")),
        ),
    ),
    "Balance": (
        Panel(
            "Busiest channel over the mean",
            "ratio",
            (("headgate_busiest_over_mean{HERE}", "{{query}} stage {{stage}}"),
             ("headgate_hottest_key_over_mean{HERE}", "{{query}} hottest key")),
            "1 is even. Above 1 for the hottest key: one key fills a channel.",
        ),
        Panel(
            "Busy share of each channel",
            "ratio",
            ((_rate("headgate_channel_busy_seconds_total"), "{{query}} {{channel}}"),),
        ),
        Panel(
            "Rows a second by channel",
            "rows a second",
            ((_rate("headgate_channel_rows_total"), "{{query}} {{channel}}"),),
        ),
        Panel(
            "Moves, pins and refusals",
            "",
            (("increase(headgate_moves_total{HERE}[$__rate_interval])", "{{query}} moves"),
             ("increase(headgate_pins_total{HERE}[$__rate_interval])", "{{query}} pins"),
             ("increase(headgate_refusals_total{HERE}[$__rate_interval])", "{{query}} {{reason}}")),
        ),
    ),
    "State and waiting rows": (
        Panel(
            "State",
            "bytes",
            (("headgate_state_bytes{HERE}", "{{query}} stage {{stage}}"),
             ("headgate_state_disk_bytes{HERE}", "{{query}} on disk")),
        ),
        Panel("Rows of state", "rows", (("headgate_state_rows{HERE}", "{{query}} stage {{stage}}"),)),
        Panel(
            "Rows that wait",
            "rows",
            (("headgate_backlog_rows{HERE}", "{{query}} stage {{stage}}"),),
        ),
        Panel(
            "Rows that could not be used, a second",
            "rows a second",
            ((_rate("headgate_unused_rows_total"), "{{query}} {{reason}}"),),
        ),
    ),
}  # fmt: skip


def expressions() -> Iterator[str]:
    """All expressions of the board."""
    for panels in ROWS.values():
        for panel in panels:
            yield from (_here(expr) for expr, _ in panel.lines)


def board() -> dict[str, Any]:
    """The board as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS.items():
        panels.append(
            {"id": len(panels) + 1, "type": "row", "title": title, "collapsed": False, "panels": [],
             "gridPos": {"h": 1, "w": 24, "x": 0, "y": y}}
        )  # fmt: skip
        y += 1
        for number, panel in enumerate(row):
            place = {"h": HEIGHT, "w": WIDTH, "x": WIDTH * (number % 2), "y": y + HEIGHT * (number // 2)}
            panels.append(_panel(len(panels) + 1, panel, place))
        y += HEIGHT * ((len(row) + 1) // 2)
    return {
        "title": "Headgate",
        "uid": "headgate",
        "description": "Made by `headgate alerts --out ops`.",
        "tags": ["headgate"],
        "schemaVersion": 38,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_datasource(), _query()]},
        "panels": panels,
    }


_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": UNITS[panel.unit], "min": 0}, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi"},
        },
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": _SOURCE, "expr": _here(expr), "legendFormat": legend}
            for at, (expr, legend) in enumerate(panel.lines)
        ],
    }


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}


def _query() -> dict[str, Any]:
    found = "label_values(headgate_batches_total, query)"
    return {
        "name": "query",
        "type": "query",
        "label": "Query",
        "datasource": _SOURCE,
        "query": {"query": found, "refId": "queries"},
        "definition": found,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
    }
