"""A task's side: the records of a range, from a consumer that the worker process keeps.

A range ends with its last offset, with a record beyond it, or with the end of the partition: the
last offsets of a range may have no record (they were compacted, or belong to a transaction). The
client finds leaders that have moved, and connects again, by itself. If nothing arrives for the time
that the user allows, an error is raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from headgate.errors import OffsetsLost, SourceFailed
from headgate.kafka_client import LastError, library, made, settings
from headgate.sources.kafka.planning import REMEDY, Span

CHUNK = 20_000
"""How many records are taken from the client at once."""
_WAIT = 0.02
"""Seconds to wait for them. The client returns fewer only after this time."""
_STALE = 5.0
"""Seconds of silence after which a client that was used before is replaced."""
_MOST_CLIENTS = 4
"""How many consumers a process keeps, one for each configuration."""
_clients: dict[str, tuple[Any, LastError]] = {}


@dataclass(frozen=True)
class Access:
    """How brokers are reached. It is pickled and sent to the tasks."""

    servers: str
    options: Mapping[str, Any] = field(repr=False, default_factory=dict)
    """The user's; they may hold a password, so they are never shown."""
    group: str = ""
    isolation: str = "read_committed"
    patience: float = 60.0
    """Seconds without an answer of the brokers until an error is raised."""

    def consumer(self, **own: Any) -> tuple[Any, LastError]:
        """A new client that reads what it is told to, and keeps no offsets."""
        heard = LastError()
        config = settings(
            self.servers,
            self.options,
            heard,
            group_id=self.group or "headgate",
            isolation_level=self.isolation,
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            auto_offset_reset="error",
            enable_partition_eof=True,
            allow_auto_create_topics=False,
            fetch_wait_max_ms=10,
            fetch_queue_backoff_ms=2,
            **own,
        )
        return made("Consumer", config, f"a consumer for {self.servers}"), heard


def records(access: Access, span: Span) -> Iterator[list[Any]]:
    """The records of a range, some at a time, in order. If a client that was used before stays
    silent, a new one is tried: what it knows of the brokers may be out of date.
    """
    used, at, silent = _key(access) in _clients, span.first, 0.0
    client, heard = _placed(access, span, at)
    try:
        while at < span.last:
            got = client.consume(min(CHUNK, span.last - at), _WAIT)
            found = [message for message in got if message.error() is None]
            if found:
                silent = 0.0
                at = found[-1].offset() + 1
                if at > span.last:
                    found = [message for message in found if message.offset() < span.last]
                if found:
                    yield found
            for message in got if len(found) < len(got) else ():
                if message.error() is not None:
                    at = max(at, _reached(access, message, span))
            silent = 0.0 if got else silent + _WAIT
            if silent >= access.patience:
                forget(access)
                raise SourceFailed(
                    f"{span}: no record came from {access.servers} for {access.patience:g} s{heard}. {_AGAIN}"
                )
            if used and silent >= min(_STALE, access.patience / 2):
                forget(access)
                used, silent = False, 0.0
                client, heard = _placed(access, span, at)
    finally:
        with suppress(RuntimeError):  # it is closed
            client.unassign()


def _placed(access: Access, span: Span, at: int) -> tuple[Any, LastError]:
    """The consumer of this process, reading from an offset on."""
    if _key(access) not in _clients:
        while len(_clients) >= _MOST_CLIENTS:
            _clients.pop(next(iter(_clients)))[0].close()
        _clients[_key(access)] = access.consumer(
            queued_min_messages=CHUNK, queued_max_messages_kbytes=32 << 10
        )
    client, heard = _clients[_key(access)]
    client.assign([library().TopicPartition(span.topic, span.partition, at)])
    return client, heard


_AGAIN = (
    "Nothing of the batch was committed: see that the brokers run and can be reached, and start the query again; it goes "
    "on after its last commit"
)
_LOST = (
    "_AUTO_OFFSET_RESET",
    "OFFSET_OUT_OF_RANGE",
    "_UNKNOWN_TOPIC",
    "_UNKNOWN_PARTITION",
    "UNKNOWN_TOPIC_OR_PART",
)
_OF_GROUPS = ("GROUP_AUTHORIZATION_FAILED", "_MAX_POLL_EXCEEDED")
"""What concerns members of a group: a task reads without one."""


def _reached(access: Access, message: Any, span: Span) -> int:
    """The offset that an event says was reached; raise an error if it is one."""
    error = message.error()
    name = str(error.name())
    if name == "_PARTITION_EOF":
        return int(message.offset())
    if name in _OF_GROUPS or (name not in _LOST and error.retriable()):
        return 0
    forget(access)
    if name in _LOST:
        raise OffsetsLost(
            f"{span} are no longer there: they were deleted, or the topic was, before they were read ({error.str()}). {REMEDY}"
        )
    raise SourceFailed(f"{span} could not be read: {error.str()}. {_AGAIN}")


def _key(access: Access) -> str:
    return repr((access, sorted(access.options.items(), key=lambda item: item[0])))


def forget(access: Access) -> None:
    """Close the consumer of this process: after an error its state is not known."""
    known = _clients.pop(_key(access), None)
    if known is not None:
        known[0].close()
