"""The metrics of headgate, as data: every exporter, alert, board and page is made from this list.

Laws: a sample names a metric of this list and has exactly its labels; each label has a bounded set of
values, and never a key, a path or the text of a query; a counter never goes down.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from headgate import errors
from headgate.control.refusal import Reason

CHANNELS = 64
"""Channels that have a series of their own; the others are added up as `other`."""
STAGES = 16
OTHER = "other"
STEPS = ("plan", "prepare", "compute", "decide", "commit", "journal", "retire", "publish")
"""The planning of a direct stream, then the steps of a batch (`headgate.stage.batch`)."""
ASIDE = ("late", "no event time", "far ahead")
ERRORS = tuple(
    sorted(
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.HeadgateError)
    )
)
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Kind(StrEnum):
    """What a metric is to Prometheus and to OpenTelemetry."""

    counter = "counter"
    gauge = "gauge"
    histogram = "histogram"


@dataclass(frozen=True)
class Label:
    """A label and its values: those of a list, whole numbers below a bound, or names.

    >>> CHANNEL.value(3), CHANNEL.value(64), STEP.value("commit"), REFUSAL.value("new")
    ('3', 'other', 'commit', 'other')
    """

    name: str
    help: str
    values: tuple[str, ...] = ()
    below: int = 0

    def value(self, given: object) -> str:
        """The value as it is exported; `other` if it is none of the label's values."""
        text = str(given)
        if self.values:
            return text if text in self.values else OTHER
        if self.below:
            known = text.isascii() and text.isdecimal() and int(text) < self.below
            return str(int(text)) if known else OTHER
        return text if is_name(text) else OTHER


def is_name(text: str) -> bool:
    """Whether a text can be the name of a query.

    >>> is_name("users-by-day"), is_name("out/users"), is_name("")
    (True, False, False)
    """
    return _NAME.fullmatch(text) is not None


QUERY = Label(
    "query",
    "the name of the query (`name=`), by default the first 8 digits of its checkpoint's id; `service` for the query service",
)
STAGE = Label("stage", f"the number of the stage, 0 to {STAGES - 1}", below=STAGES)
CHANNEL = Label(
    "channel", f"the number of the channel, 0 to {CHANNELS - 1}; the rest together", below=CHANNELS
)
STEP = Label("step", "the step of a batch", values=STEPS)
REFUSAL = Label("reason", "the name of the refusal", values=tuple(reason.value for reason in Reason))
UNUSED = Label("reason", "why the rows could not be used, or were doubted", values=ASIDE)
ERROR = Label("error", "the class of the error", values=ERRORS)
SERVER = Label("server", f"the number of the server, 0 to {CHANNELS - 1}", below=CHANNELS)

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""The buckets of times."""


@dataclass(frozen=True)
class Metric:
    """One metric. The name of a counter ends in `_total`, and a unit is part of the name."""

    name: str
    kind: Kind
    unit: str
    labels: tuple[Label, ...]
    help: str
    buckets: tuple[float, ...] = ()

    def labelled(self, **values: object) -> tuple[str, ...]:
        """The values of the labels in their order, each within its bounds."""
        if values.keys() != {label.name for label in self.labels}:
            wanted = ", ".join(label.name for label in self.labels)
            raise errors.ConfigError(f"{self.name} has the labels {wanted}, not {', '.join(values)}")
        return tuple(label.value(values[label.name]) for label in self.labels)


def _counter(
    name: str, unit: str, help_text: str, *more: Label, of: tuple[Label, ...] | None = None
) -> Metric:
    labels = (QUERY, STAGE, *more) if of is None else of
    return Metric(f"headgate_{name}_total", Kind.counter, unit, labels, help_text)


def _gauge(name: str, unit: str, help_text: str, *more: Label, of: tuple[Label, ...] | None = None) -> Metric:
    labels = (QUERY, STAGE, *more) if of is None else of
    return Metric(f"headgate_{name}", Kind.gauge, unit, labels, help_text)


def _times(name: str, help_text: str, *more: Label) -> Metric:
    return Metric(f"headgate_{name}", Kind.histogram, "seconds", (QUERY, STAGE, *more), help_text, SECONDS)


_OF_QUERY = (QUERY,)
_BATCHES = (
    _counter("batches", "batches", "Batches that were committed"),
    _counter("rows", "rows", "Rows of the source that arrived"),
    _counter("output_rows", "rows", "Rows that channels emitted"),
    _counter("output_bytes", "bytes", "Bytes of committed output files"),
    _counter("state_written_bytes", "bytes", "Bytes of committed state files"),
    _counter("unused_rows", "rows", "Rows that were put aside, or whose time was doubted", UNUSED),
    _times("batch_seconds", "Time of a batch, with its commit, its output and the stages after it"),
    _times("step_seconds", "Time of each step of a batch; publish includes the stages after it", STEP),
    _gauge("last_batch", "batches", "Number of the batch that was committed last"),
    _gauge("last_commit_timestamp_seconds", "seconds", "When the last batch was committed, since 1970"),
)
_TIME = (
    _gauge("watermark_timestamp_seconds", "seconds", "The watermark, in seconds since 1970"),
    _gauge("newest_event_timestamp_seconds", "seconds", "The newest event time, in seconds since 1970"),
    _gauge("lag_seconds", "seconds", "How far the watermark was behind the clock at the last commit"),
)
_STATE = (
    _gauge("state_rows", "rows", "Rows of state: keys, or their windows and parts"),
    _gauge("state_bytes", "bytes", "Bytes of state"),
    _gauge("state_disk_bytes", "bytes", "Bytes of state that are on disk because memory is bounded"),
    _gauge("backlog_rows", "rows", "Rows that were admitted and wait"),
    _gauge("backlog_bytes", "bytes", "Bytes of rows that were admitted and wait"),
    _counter("rebuilt_bins", "bins", "Bins whose state was read back from the checkpoint"),
)
_LOAD = (
    _gauge("channels", "channels", "Channels of the table in force"),
    _counter(
        "channel_rows", "rows", "Rows that a channel processed, after map tasks have combined them", CHANNEL
    ),
    _counter("channel_busy_seconds", "seconds", "Time that a channel worked", CHANNEL),
    _counter("channel_idle_seconds", "seconds", "Time that a channel waited for input", CHANNEL),
    _gauge("channel_state_bytes", "bytes", "Bytes of state on a channel", CHANNEL),
    _gauge("channel_backlog_rows", "rows", "Rows that wait for a channel", CHANNEL),
    _gauge("busiest_over_mean", "ratio", "Busy time of the busiest channel over the mean, last batch"),
    _gauge(
        "hottest_key_over_mean",
        "ratio",
        "Rows of the most frequent key over the mean rows of a channel, last batch; above 1 one key fills a channel",
    ),
)
_CONTROL = (
    _gauge("table_version", "versions", "Version of the routing table for the next batch"),
    _counter("moves", "bins", "Bins that were moved to another channel"),
    _counter("pins", "keys", "Keys, or pieces of split keys, that were given a bin of their own"),
    _counter("unpins", "keys", "Keys, or pieces of split keys, that went back to their hash bin"),
    _counter("refusals", "plans", "Plans that were refused, by reason", REFUSAL),
)
_QUERIES = (
    _gauge("query_up", "ratio", "1 while the query runs, 0 after it failed", of=_OF_QUERY),
    _gauge("interval_seconds", "seconds", "Expected time between two looks at the sources", of=_OF_QUERY),
    _gauge(
        "last_look_timestamp_seconds",
        "seconds",
        "When the query last committed a batch, or found nothing to do, since 1970",
        of=_OF_QUERY,
    ),
    _gauge("more_rows", "ratio", "1 if the sources had more rows than the last batch took", of=_OF_QUERY),
    _counter("failures", "failures", "Failures of the query, by error", of=(QUERY, ERROR)),
    _counter(
        "store_requests", "requests", "Requests to object stores, by driver and tasks together", of=_OF_QUERY
    ),
    _counter(
        "store_retries", "requests", "Requests to object stores that the driver sent again", of=_OF_QUERY
    ),
)
_SERVICE = (
    _gauge("up", "ratio", "Whether batches run", of=()),
    _gauge("queries", "queries", "Registered queries", of=()),
    _gauge("computations", "computations", "Distinct computations", of=()),
    _gauge("templates", "templates", "Query templates", of=()),
    _gauge("sources", "sources", "Sources", of=()),
    _gauge("servers", "servers", "Servers", of=()),
    _gauge("traffic", "rows", "Traffic of the placement, by the rates of its sources", of=()),
    _gauge("replication", "ratio", "Replication factor of the placement", of=()),
    _gauge("batch", "batches", "The batch that was committed last; -1 before the first", of=()),
    _counter("pushed_rows", "rows", "Rows pushed since the start", of=()),
    _gauge("waiting_rows", "rows", "Rows that wait for tenants that used more time than they may", of=()),
    _gauge("waiting_tenants", "tenants", "Tenants that used more time than they may, and wait", of=()),
    _gauge(
        "service_lag_seconds", "seconds", "How long the oldest row that is not committed has waited", of=()
    ),
    _gauge("service_backlog_rows", "rows", "Rows that were pushed or found, and are not committed", of=()),
    _gauge("service_backlog_bytes", "bytes", "Bytes of rows that were pushed and are not committed", of=()),
    _gauge("service_lagging", "ratio", "Whether a row has waited longer than `lag_s`", of=()),
    _counter("sent_rows", "rows", "Rows that the shuffle to the servers carried", of=()),
    _counter("sent_bytes", "bytes", "Bytes that the shuffle to the servers carried", of=()),
    _gauge("predicted_bytes", "bytes", "Bytes that placement predicted for the last batch", of=()),
    _gauge("server_busy_seconds", "seconds", "Time that a server took in the last batch", of=(SERVER,)),
)

GROUPS: dict[str, tuple[Metric, ...]] = {
    "Batches": _BATCHES,
    "Event time": _TIME,
    "State and waiting rows": _STATE,
    "Load": _LOAD,
    "Control": _CONTROL,
    "Queries": _QUERIES,
    "The query service": _SERVICE,
}
VOCABULARY: dict[str, Metric] = {metric.name: metric for group in GROUPS.values() for metric in group}
"""Every metric by its name."""
