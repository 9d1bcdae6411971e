"""Alerts for Prometheus, made of the vocabulary: `headgate alerts --out ops` writes them as a rule file.

Law: an expression names only metrics of the vocabulary (`unknown_names`), and every metric that an
alert needs is one that a query exports without further settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headgate.observe.vocabulary import VOCABULARY, Kind

_NAMES = re.compile(r"\bheadgate_[a-z0-9_]+")


@dataclass(frozen=True)
class Alert:
    """One alert: when it fires, for how long that must hold, and what to do then."""

    name: str
    expr: str
    hold: str
    severity: str
    summary: str
    remedy: str


ALERTS = (
    Alert(
        "HeadgateLagGrows",
        "deriv(headgate_lag_seconds[15m]) > 0.1 and headgate_lag_seconds > 60",
        "10m",
        "warning",
        "The watermark of {{ $labels.query }} falls behind the clock",
        "Rows come faster than they are processed. Look at busiest/mean first: one full channel holds every batch. If the channels "
        "are even, add some (query.rescale).",
    ),
    Alert(
        "HeadgateBehindSource",
        "min_over_time(headgate_more_rows[15m]) == 1",
        "15m",
        "warning",
        "The sources of {{ $labels.query }} always have more rows than a batch takes",
        "The query catches up, or it cannot: compare its rows a second with what the source gets. Raise max_rows, or add channels.",
    ),
    Alert(
        "HeadgateChannelStarves",
        "rate(headgate_channel_rows_total[10m]) < ignoring (channel) group_left () "
        "(0.1 * avg without (channel) (rate(headgate_channel_rows_total[10m])))",
        "10m",
        "warning",
        "Channel {{ $labels.channel }} of {{ $labels.query }} gets less than a tenth of the mean",
        "There are more channels than keys that can fill them, or the policy does not move bins (headgate explain CHECKPOINT).",
    ),
    Alert(
        "HeadgateUnbalanced",
        "avg_over_time(headgate_busiest_over_mean[15m]) > 2",
        "15m",
        "warning",
        "The busiest channel of {{ $labels.query }} works more than twice the mean",
        "headgate explain CHECKPOINT says why no plan helps: mode observe, a guard that asks for more gain, or one key that is too hot.",
    ),
    Alert(
        "HeadgateKeyTooHot",
        "(headgate_hottest_key_over_mean > 1.5 and headgate_busiest_over_mean > 1.5) or "
        'sum without (reason) (increase(headgate_refusals_total{reason="key_too_hot"}[15m])) > 0',
        "10m",
        "warning",
        "One key of {{ $labels.query }} has more rows than a channel should",
        "No placement helps, because a key is on one channel. The default policy splits it if the operator can merge its pieces; otherwise "
        "take the key out of the stream, or make it finer.",
    ),
    Alert(
        "HeadgateRowsUnused",
        "sum without (reason) (rate(headgate_unused_rows_total[15m])) > 0.01 * rate(headgate_rows_total[15m])",
        "15m",
        "warning",
        "More than 1% of the rows of {{ $labels.query }} are late or have no event time",
        "Raise the delay, or look at the rows: give the key an `aside` sink.",
    ),
    Alert(
        "HeadgateStoreErrors",
        "increase(headgate_store_retries_total[10m]) > 0.05 * increase(headgate_store_requests_total[10m])",
        "5m",
        "warning",
        "More than 5% of the requests of {{ $labels.query }} to its object store are sent again",
        "The store throttles or fails. Look at its own metrics; larger batches need fewer requests.",
    ),
    Alert(
        "HeadgateStoreFailed",
        'headgate_failures_total{error=~"CheckpointError|CorruptState|StorageFull|SinkFailed"} > 0 '
        "and ignoring (error) (headgate_query_up == 0)",
        "0m",
        "critical",
        "{{ $labels.query }} stopped: {{ $labels.error }}",
        "The message of the query names the path and the remedy. Start it again on the same checkpoint when that is done.",
    ),
    Alert(
        "HeadgateQueryFailed",
        "headgate_query_up == 0",
        "0m",
        "critical",
        "{{ $labels.query }} has failed",
        "query.status() and the log have the error. Nothing of the batch was committed; start the query again on its checkpoint.",
    ),
    Alert(
        "HeadgateNoCommit",
        "time() - headgate_last_look_timestamp_seconds > 10 * clamp_min(headgate_interval_seconds, 3) "
        "and headgate_query_up == 1",
        "1m",
        "critical",
        "{{ $labels.query }} has committed nothing, and not looked at its sources, for 10 intervals",
        "A batch hangs: look at its job in Spark's UI (job group headgate-NAME), and at the store and the sink.",
    ),
    Alert(
        "HeadgateServiceDown",
        "headgate_up == 0",
        "1m",
        "critical",
        "The query service runs no batches",
        "GET /status of the service names the failure.",
    ),
)


def names_in(expr: str) -> set[str]:
    """The metrics that an expression names; a histogram's parts count as the histogram."""
    return {_whole(name) for name in _NAMES.findall(expr)}


def unknown_names(expr: str) -> set[str]:
    """Those of them that are not in the vocabulary."""
    return {name for name in names_in(expr) if name not in VOCABULARY}


def _whole(name: str) -> str:
    for part in ("_bucket", "_sum", "_count"):
        whole = name.removesuffix(part)
        if whole != name and whole in VOCABULARY and VOCABULARY[whole].kind is Kind.histogram:
            return whole
    return name


def rule_file() -> str:
    """The alerts as Prometheus reads them."""
    return "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    yield "# Made by `headgate alerts --out ops`; change src/headgate/observe/rules.py instead."
    yield "groups:"
    yield "  - name: headgate"
    yield "    rules:"
    for alert in ALERTS:
        yield f"      - alert: {alert.name}"
        yield f"        expr: {_quoted(alert.expr)}"
        yield f"        for: {alert.hold}"
        yield f"        labels: {{severity: {alert.severity}}}"
        yield "        annotations:"
        yield f"          summary: {_quoted(alert.summary)}"
        yield f"          description: {_quoted(alert.remedy)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
