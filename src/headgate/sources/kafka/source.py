"""Kafka topics as the source of a direct stream, through confluent-kafka: no jar, and no group that
rebalances.

The driver asks the brokers where each partition ends and plans ranges of offsets; tasks read them.
Where the query stands is in its commit, so the offsets of a group play no part.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from headgate.errors import CheckpointMismatch, ConfigError, MissingColumn, OffsetsLost
from headgate.kafka_client import checked_options, library, log, server_list
from headgate.operators.event_time import SECOND, parse_duration
from headgate.sizes import parse_bytes
from headgate.sources.cutting import batches
from headgate.sources.kafka.cluster import Cluster
from headgate.sources.kafka.coding import codecs_of
from headgate.sources.kafka.dead_letters import DeadLetters, refused
from headgate.sources.kafka.planning import REMEDY, Span, checked_positions, cut, taken
from headgate.sources.kafka.reading import Access, records
from headgate.sources.kafka.records import Layout, table_of
from headgate.sources.kafka.start import EARLIEST, LATEST, Partition, Start
from headgate.sources.source import CHEAP_ROWS, Demand, Range, Ranges, Source
from headgate.storage.store import Store

_BEGIN = "start.json"
_OURS = {
    "bootstrap.servers": "it is the first argument, servers",
    "group.id": "write group=...",
    "enable.auto.commit": "the checkpoint keeps the offsets; write group=... to commit them to a group too",
    "enable.auto.offset.store": "the checkpoint keeps the offsets",
    "auto.offset.reset": "write start=... and on_lost=...",
    "isolation.level": "write uncommitted=True to read records of open transactions",
    "enable.partition.eof": "the source needs it",
    "allow.auto.create.topics": "a source makes no topic",
}
_SAMPLED = 50
"""After so many batches the size of a record is learned anew."""


class Kafka(Source):
    """The records of Kafka topics. `docs/reference/kafka.md` has the rules, with examples.

    `topics` is a name or several; `pattern` is a regular expression that whole names must fit
    instead. `schema` has the columns of JSON values (`value="json"`); `"text"` and `"raw"` give one
    column, `value`; `"avro"` takes an Avro schema, and `"protobuf"` a message type, or each a
    `registry`. `meta` adds columns of the record: key, topic, partition, offset, timestamp, headers; a
    dict renames them.

    `start` counts for the first start of a query, and is remembered then. Partitions and topics
    that appear later are read from their first offset. A batch takes at most about `max_bytes`, as
    a sample tells, besides the rows that `start` of the query allows. Records that do not parse
    stop the query, or go to the folder `bad`.

    >>> source = Kafka("localhost:9092", "events", pa.schema([("user", pa.int64())]), meta=["offset"])
    >>> source.schema().names
    ['user', 'offset']
    """

    rows_read_again = CHEAP_ROWS // 100

    def __init__(
        self,
        servers: str | Iterable[str],
        topics: str | Iterable[str] | None = None,
        schema: Any = None,
        *,
        pattern: str | None = None,
        value: str = "json",
        message: Any = None,
        registry: str | None = None,
        registry_options: Mapping[str, Any] | None = None,
        subject: str | None = None,
        key: str = "raw",
        key_schema: Any = None,
        meta: Sequence[str] | Mapping[str, str] | None = None,
        start: str | datetime | Mapping[str, Mapping[int, int | str]] = "earliest",
        bad: str | None = None,
        on_lost: str = "fail",
        max_bytes: str | int = "256MB",
        group: str | None = None,
        uncommitted: bool = False,
        timeout: str = "1 minute",
        refresh: str = "5 seconds",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.topics, self.pattern = _topics(topics, pattern)
        patience = parse_duration(timeout, "timeout", least=1) / SECOND
        codecs = codecs_of(
            value, schema, message, key, key_schema, registry, registry_options, subject, self.topics, patience
        )  # fmt: skip
        self._layout = self._wanted = Layout.of(value, key, schema, meta, *codecs)
        self._start = Start.of(start)
        if on_lost not in ("fail", "earliest"):
            raise ConfigError(
                f"Kafka(on_lost={on_lost!r}): write 'fail', or 'earliest' to go on without lost records"
            )
        if group is not None and (not isinstance(group, str) or not group):
            raise ConfigError(
                f"Kafka(group={group!r}): give the name of a group to which offsets are committed"
            )
        self._earliest = on_lost == "earliest"
        self._max_bytes = parse_bytes(max_bytes, "max_bytes")
        self._refresh = parse_duration(refresh, "refresh") / SECOND
        self._access = Access(
            server_list(servers, "Kafka"),
            checked_options(options, _OURS, "Kafka"),
            group or "",
            "read_uncommitted" if uncommitted else "read_committed",
            patience,
        )
        self.bad = None if bad is None else DeadLetters(bad)
        self._forget()

    def _forget(self) -> None:
        """What belongs to one query on a driver."""
        self._cluster: Cluster | None = None
        self._store: Store | None = None
        self._partitions: set[Partition] = set()
        self._listed: float | None = None
        self._committed: dict[Partition, int] | None = None
        self._row_bytes, self._plans = 0.0, 0

    def __getstate__(self) -> dict[str, Any]:
        gone: dict[str, Any] = {
            "_cluster": None,
            "_store": None,
            "_partitions": set(),
            "_listed": None,
            "_committed": None,
        }
        return {**self.__dict__, **gone}

    def fresh(self) -> Kafka:
        """The same topics for another query, which has a client of its own."""
        other = Kafka.__new__(Kafka)
        other.__dict__.update(self.__dict__)
        other.bad = None if self.bad is None else DeadLetters(self.bad.shown.url)
        other._forget()
        return other

    def __repr__(self) -> str:
        what = f"pattern={self.pattern!r}" if self.pattern is not None else repr(", ".join(self.topics))
        return f"Kafka({self._access.servers!r}, {what})"

    def schema(self) -> pa.Schema:
        """The columns of the value, then those of the record."""
        return self._wanted.schema

    def identity(self) -> dict[str, Any]:
        """The columns. Topics may be added; `plan` refuses a query without any of its old ones."""
        columns = [[field.name, str(field.type)] for field in self._layout.schema]
        return {"source": "kafka", "value": self._layout.form, "columns": columns}

    def only(self, columns: Sequence[str]) -> Kafka:
        """The same records with fewer columns. They are judged by all of them."""
        names = self._layout.schema.names
        if unknown := [name for name in columns if name not in names]:
            raise MissingColumn(f"{self!r} has no column {unknown[0]}; it has {', '.join(names)}")
        fewer = object.__new__(Kafka)
        fewer.__dict__.update(self.__dict__)
        fewer._wanted = self._layout.only(columns)
        return fewer

    # -- on the driver

    def check(self) -> None:
        """Refuse brokers that cannot be reached, and topics that do not exist."""
        library()
        self._cluster = self._cluster or Cluster(self._access)
        _, found = self._cluster.partitions(self.topics, self.pattern)
        there = {topic for topic, _ in found}
        if missing := [topic for topic in self.topics if topic not in there]:
            raise ConfigError(
                f"{self!r}: there is no topic {missing[0]!r}, or this user may not see it: create it, or correct the name"
            )

    def open(self, store: Store) -> None:
        """Find the partitions, and where the query begins. That is written down once, so that a
        query which was started at the end misses nothing between two starts.
        """
        self._cluster = self._cluster or Cluster(self._access)
        self._store = store
        name, found = self._cluster.partitions(self.topics, self.pattern)
        if self.bad is not None:
            self.bad.open(store)
        if not store.exists(_BEGIN):
            times = {
                self._start.time,
                EARLIEST,
                LATEST,
                *(o for o in (self._start.offsets or {}).values() if o < 0),
            }
            positions = self._start.positions(self._cluster.offsets(found, times))
            store.make("")
            store.write_once(_BEGIN, json.dumps({"cluster": name, "at": _written(positions)}).encode())
        begun = json.loads(store.read(_BEGIN))
        if begun["cluster"] and name and begun["cluster"] != name:
            raise CheckpointMismatch(
                f"{self!r}: this is the cluster {name}, and the checkpoint {store.path()} has offsets of the cluster {begun['cluster']}: "
                "name the brokers of that one, or start another query with a checkpoint of its own"
            )

    def plan(self, offset: Any, demand: Demand) -> Ranges:
        """The next offsets of each partition."""
        cluster, store = self._cluster, self._store
        if cluster is None or store is None:
            raise ConfigError(f"{self!r} is not open: call open(store) before plan")
        positions = _read(offset["at"] if offset else json.loads(store.read(_BEGIN))["at"])
        self._after_commit(cluster, offset, positions)
        partitions = self._look(cluster, demand.now, positions, offset is not None)
        held = cluster.held(partitions)
        now, lost = checked_positions(positions, held, earliest=self._earliest)
        for one in lost:
            log.warning("%s The query goes on with the first offset that there is (on_lost='earliest')", one)
        spans, more = taken(now, held, self._rows(cluster, now, held, demand.rows))
        after = {**positions, **now, **{(span.topic, span.partition): span.last for span in spans}}
        if not spans:
            return Ranges((), offset if after == positions else {"at": _written(after)})
        pieces = cut(spans, demand.tasks)
        ranges = [Range((p.topic, p.partition, p.first, p.last), p.size) for p in pieces]
        new: dict[str, Any] = {"at": _written(after)}
        if self.bad is not None:
            new["read"] = [list(part.what) for part in ranges]
        return Ranges(tuple(ranges), new, more)

    def _look(
        self, cluster: Cluster, now: float, positions: Mapping[Partition, int], begun: bool
    ) -> set[Partition]:
        """The partitions that there are; looked up now and then."""
        if self._listed is not None and 0 <= now - self._listed < self._refresh:
            return self._partitions
        _, found = cluster.partitions(self.topics, self.pattern)
        old = {topic for topic, _ in positions}
        if begun and old and self.topics and old.isdisjoint(self.topics):
            raise CheckpointMismatch(
                f"{self!r} reads none of the topics of its checkpoint, {', '.join(sorted(old))}: name them, with others if you like, or "
                "start another query with a checkpoint of its own"
            )
        gone = sorted(p for p in positions if p not in found and self._reads(p[0]))
        if gone and not self._earliest:
            raise OffsetsLost(
                f"partition {gone[0][1]} of {gone[0][0]} is gone: the topic was deleted or created anew. {REMEDY}"
            )
        self._partitions, self._listed = found, now
        return found

    def _reads(self, topic: str) -> bool:
        return re.fullmatch(self.pattern, topic) is not None if self.pattern else topic in self.topics

    def _rows(self, cluster: Cluster, positions: Any, held: Any, most: int) -> int:
        """How many rows a batch may have: as many as are asked for, if `max_bytes` holds them."""
        if most * self._row_bytes * 4 < self._max_bytes and self._row_bytes:
            return most
        spans, _ = taken(positions, held, most)
        if spans and (not self._row_bytes or self._plans >= _SAMPLED):
            self._row_bytes, self._plans = cluster.record_bytes(spans) or self._row_bytes, 0
        self._plans += 1
        return max(1, min(most, int(self._max_bytes / self._row_bytes))) if self._row_bytes else most

    def _after_commit(self, cluster: Cluster, offset: Any, positions: dict[Partition, int]) -> None:
        """What follows a commit: records that did not parse are shown, and a group is told."""
        if offset is None or positions == self._committed:
            return
        if self.bad is not None:
            self.bad.show([Span(*what) for what in offset.get("read", ())], positions)
        if self._access.group:
            cluster.commit(positions)
        self._committed = positions

    # -- in a task

    def read(self, what: Any) -> Iterator[pa.RecordBatch]:
        """The records of a range."""
        span = Span(*what)
        return batches(self._tables(span))

    def _tables(self, span: Span) -> Iterator[pa.Table]:
        from headgate.state.conform import (
            conform_table,  # it loads compiled code, which a driver does not need
        )

        aside: list[pa.Table] = []
        wanted, schema = self._wanted, self._wanted.schema
        for messages in records(self._access, span):
            table, wrong = table_of(messages, span, wanted, self._layout)
            if wrong is not None:
                if self.bad is None:
                    raise refused(span, [wrong])
                aside.append(wrong)
            if table.num_rows:
                yield conform_table(table, schema)
        if aside and self.bad is not None:
            self.bad.write(span, aside)


def _topics(topics: Any, pattern: Any) -> tuple[tuple[str, ...], str | None]:
    if (topics is None) == (pattern is None):
        raise ConfigError("Kafka needs topics='events' or pattern='events-.*', and not both")
    if pattern is not None:
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            raise ConfigError(f"Kafka(pattern={pattern!r}) is not a regular expression: {error}") from None
        return (), str(pattern)
    listed = [topics] if isinstance(topics, str) else list(topics) if isinstance(topics, Iterable) else []
    if not listed or not all(isinstance(topic, str) and topic for topic in listed):
        raise ConfigError(f"Kafka(topics={topics!r}): name a topic, or several: ['clicks', 'views']")
    return tuple(sorted(set(listed))), None


def _written(positions: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    """Positions as JSON holds them."""
    written: dict[str, dict[str, int]] = {}
    for (topic, number), at in sorted(positions.items()):
        written.setdefault(topic, {})[str(number)] = at
    return written


def _read(written: Mapping[str, Mapping[str, int]]) -> dict[Partition, int]:
    return {(topic, int(number)): at for topic, numbers in written.items() for number, at in numbers.items()}
