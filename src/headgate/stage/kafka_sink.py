"""`sinks.Kafka`: the output as records of a Kafka topic, exactly once for those who read committed
records.

A batch is one transaction: its records, and a note of its number among the offsets of a group that
is named after the stage. A batch that comes again is looked up there. Before that the producer
registers with the brokers, which completes or undoes every earlier transaction of the stage and
shuts out an older driver, so that what is found is final.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headgate.errors import CheckpointMismatch, ConfigError, MissingColumn, SinkFailed
from headgate.kafka_client import LastError, checked_options, library, log, made, server_list, settings
from headgate.operators.event_time import SECOND, parse_duration
from headgate.stage.record_values import column_values, json_values
from headgate.stage.sink import Output, Sink
from headgate.storage.parquet_folder import Owner
from headgate.storage.published import address_of, begin, name_of, pending
from headgate.storage.store import Store

_OURS = {
    "bootstrap.servers": "it is the first argument, servers",
    "transactional.id": "the stage has its own: two queries with one id would shut each other out",
    "enable.idempotence": "a transaction needs it",
    "group.id": "the stage has its own",
    "isolation.level": "the sink needs its own",
    "enable.auto.commit": "the sink commits in transactions",
}
_ATTEMPTS = 3
_NOTE = "published.json"
_USUAL = {
    "partitioner": "murmur2_random",
    "linger.ms": 20,
    "queue.buffering.max.messages": 1_000_000,
    "transaction.timeout.ms": 300_000,
}
"""The partitioner is that of Java's producers, so that a key goes to the same partition as theirs.
"""
_PRODUCER_ONLY = frozenset(
    (
        "partitioner",
        "linger",
        "queue.buffering",
        "transaction",
        "compression",
        "batch",
        "acks",
        "request.required",
    )
)


class Kafka(Sink):
    """A Kafka topic, to which each batch comes exactly once, in one transaction. It needs the extra
    `headgate[kafka]`, and no jar.

    `value` is a column of bytes or text, or a list of the columns of a JSON object; by default all
    columns. `key` is a column or a list likewise. `headers` are columns, or a dict of names and
    columns. `options` are librdkafka's. `first_batch` says that the topic begins with that batch of
    the stage. The driver sends the records, and a consumer must read with
    `isolation.level=read_committed`: others see batches that are not complete.
    """

    def __init__(
        self,
        servers: str | Iterable[str],
        topic: str,
        *,
        key: str | Sequence[str] | None = None,
        value: str | Sequence[str] | None = None,
        headers: Sequence[str] | Mapping[str, str] | None = None,
        first_batch: int | None = None,
        timeout: str = "1 minute",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(topic, str) or not topic:
            raise ConfigError(f"sinks.Kafka(topic={topic!r}): name a topic")
        self.servers, self.topic = server_list(servers, "sinks.Kafka"), topic
        self._named = (*_columns(key), *_columns(value), *(pairs := _headers(headers)).values())
        self.key, self.value, self.headers = key, value, pairs
        self._first = first_batch
        self._timeout = parse_duration(timeout, "timeout", least=1) / SECOND
        self._options = checked_options(options, _OURS, "sinks.Kafka")
        self._heard = LastError()
        self._store: Store | None = None
        self._producer: Any = None
        self._consumers: dict[str, Any] = {}
        self._forgotten = False
        self._recorded: int | None = None
        """The last batch that the topic has, while the producer is ours."""

    def __repr__(self) -> str:
        return f"sinks.Kafka({self.servers!r}, {self.topic!r})"

    def staging(self, checkpoint: Store) -> Store:
        self._store = super().staging(checkpoint)
        return self._store

    def check(self) -> None:
        library()

    def check_columns(self, schema: pa.Schema) -> None:
        for name in self._named:
            if name not in schema.names:
                raise MissingColumn(
                    f"{self!r} names the column {name!r}, and the output has {', '.join(schema.names)}; name one of these"
                )

    # -- whose topic it is

    def own(self, owner: Owner, committed: int | None = None) -> None:
        self._check_topic(name_of(owner))
        recorded, address = self._read(owner), address_of(owner)
        there = self._committed(address).get("stage")
        earlier = None
        if there is not None and there != owner.stage:
            before = name_of(replace(owner, stage=str(there)))
            earlier = self._committed(before).get("batch")
            self._close(before)
        fresh = begin(
            repr(self), owner, recorded=recorded, earlier=earlier, committed=committed, first=self._first
        )
        if fresh is not None:
            self._commit(name_of(owner), self._mark(owner, fresh))
        if there != owner.stage:
            self._commit(address, self._mark(owner, -1))
        self._close(address)

    def _check_topic(self, group: str) -> None:
        consumer = self._consumer(group)
        listed = self._asked(
            "the topic could not be looked up", lambda: consumer.list_topics(self.topic, self._timeout)
        )
        if not listed.topics[self.topic].partitions:
            raise ConfigError(
                f"{self!r}: there is no topic {self.topic!r}, or this user may not see it: create it, or correct the name"
            )

    def _mark(self, owner: Owner, batch: int) -> Any:
        """The note of a batch among the offsets of a group."""
        said = json.dumps({"stage": owner.stage, "batch": batch})
        return library().TopicPartition(self.topic, 0, batch + 1, said)

    def _read(self, owner: Owner) -> int | None:
        """The last batch that the topic has. Brokers forget the offsets of a group some days after its
        last commit; then the note in the checkpoint counts. It is written after the transaction, so
        it may be one batch behind, and never ahead.
        """
        marked, noted = self._committed(name_of(owner)).get("batch"), None
        if self._store is not None:
            with suppress(FileNotFoundError):
                note = json.loads(self._store.read(_NOTE))
                noted = note["batch"] if [note["topic"], note["stage"]] == [self.topic, owner.stage] else None
        self._forgotten = marked is None and noted is not None
        return max((int(batch) for batch in (marked, noted) if batch is not None), default=None)

    def _may_send(self, output: Output, owner: Owner) -> bool:
        """Whether a batch is to be published, though the brokers have forgotten what they have."""
        if not self._forgotten or not output.again or self._first == output.batch:
            return True
        if self._first == output.batch + 1:
            return False
        raise CheckpointMismatch(
            f"the brokers have forgotten which batches of {owner.stage} {self!r} has (offsets.retention.minutes has passed), and it is not "
            f"known whether batch {output.batch} is among them. Look for its records in the topic. Then start the query once with "
            f"sinks.Kafka(..., first_batch={output.batch}) to publish it, or with first_batch={output.batch + 1} if it is there"
        )

    # -- publishing

    def publish(self, output: Output) -> None:
        owner = output.owner
        if owner is None:
            raise ConfigError(f"{self!r} needs to know whose output it gets (Output.owner)")
        failure: Any = None
        for _ in range(_ATTEMPTS):
            try:
                self._register(owner)
                if pending(repr(self), owner, output.batch, self._recorded):
                    if self._may_send(output, owner):
                        self._send(output, owner)
                    self._recorded = output.batch
                    self._note(owner, output.batch)
                return
            except library().KafkaException as error:
                failure = error
                log.warning("%r could not publish batch %d: %s", self, output.batch, error.args[0].str())
                self._drop()
            except BaseException:
                self._drop()
                raise
        raise SinkFailed(
            f"batch {output.batch} is committed, but {self!r} could not publish it in {_ATTEMPTS} attempts: "
            f"{failure.args[0].str()}{self._heard}. See that the brokers run and that this user may write to the topic, to the "
            f"transactional id and to the group {name_of(owner)}, and start the query again: then the batch is published, once"
        ) from failure

    def _register(self, owner: Owner) -> None:
        """Make the producer, and ask what the topic has. After this no earlier transaction of the
        stage is open.
        """
        if self._producer is not None:
            return
        producer = made(
            "Producer",
            settings(self.servers, self._usual(), self._heard, transactional_id=name_of(owner)),
            repr(self),
        )
        producer.init_transactions(self._timeout)
        self._recorded = self._read(owner)
        self._producer = producer

    def _usual(self) -> dict[str, Any]:
        patience = max(1000, int(self._timeout * 1000))
        return {**_USUAL, "socket.timeout.ms": min(60_000, patience), **self._options}

    def _send(self, output: Output, owner: Owner) -> None:
        """One transaction."""
        producer, rows = self._producer, output.table()
        group = self._consumer(name_of(owner)).consumer_group_metadata()
        producer.begin_transaction()
        for key, value, headers in self._records(rows):
            while True:
                try:
                    producer.produce(self.topic, value, key, headers=headers)
                    break
                except BufferError:  # the queue is full until some are sent
                    producer.poll(0.05)
        self._flush(producer)
        producer.send_offsets_to_transaction([self._mark(owner, output.batch)], group, self._timeout)
        producer.commit_transaction(self._timeout)

    def _flush(self, producer: Any) -> None:
        """Wait until the brokers have all records, as long as they take some. (The calls that follow
        would wait for brokers that are away much longer than they are told to.)
        """
        left = len(producer)
        while left:
            before, left = left, producer.flush(self._timeout)
            if left >= before:
                raise library().KafkaException(library().KafkaError(library().KafkaError._TIMED_OUT))

    def _records(self, rows: pa.Table) -> Iterable[tuple[bytes | None, bytes | None, Any]]:
        count = rows.num_rows
        keys = [None] * count if self.key is None else _written(rows, self.key)
        values = _written(rows, rows.column_names if self.value is None else self.value)
        if not self.headers:
            return zip(keys, values, [None] * count, strict=True)
        columns = [column_values(rows, name) for name in self.headers.values()]
        headers = [list(zip(self.headers, row, strict=True)) for row in zip(*columns, strict=True)]
        return zip(keys, values, headers, strict=True)

    def _note(self, owner: Owner, batch: int) -> None:
        if self._store is not None:
            said = {"topic": self.topic, "stage": owner.stage, "batch": batch}
            self._store.make("")
            self._store.replace(_NOTE, json.dumps(said).encode())

    def _drop(self) -> None:
        """Forget the producer; the next one finds out what became of its transaction."""
        producer, self._producer, self._recorded = self._producer, None, None
        if producer is not None:
            with suppress(library().KafkaException):
                producer.abort_transaction(5.0)  # so that readers need not wait for its time-out

    # -- offsets of groups

    def _consumer(self, group: str) -> Any:
        if group not in self._consumers:
            kept = {
                n: v for n, v in self._options.items() if not any(n.startswith(p) for p in _PRODUCER_ONLY)
            }
            config = settings(
                self.servers,
                kept,
                self._heard,
                group_id=group,
                enable_auto_commit=False,
                allow_auto_create_topics=False,
                isolation_level="read_uncommitted",  # or it waits for the transaction of a dead driver
            )
            self._consumers[group] = made("Consumer", config, repr(self))
        return self._consumers[group]

    def _close(self, group: str) -> None:
        self._consumers.pop(group).close()

    def _committed(self, group: str) -> dict[str, Any]:
        """What a group notes; empty if nothing."""
        wanted = [library().TopicPartition(self.topic, 0)]
        consumer = self._consumer(group)
        (found,) = self._asked(
            "what the topic has could not be looked up", lambda: consumer.committed(wanted, self._timeout)
        )
        said = json.loads(found.metadata) if found.offset >= 0 and found.metadata else {}
        return said if isinstance(said, dict) else {}

    def _commit(self, group: str, mark: Any) -> None:
        consumer = self._consumer(group)
        self._asked(
            "the topic could not be claimed", lambda: consumer.commit(offsets=[mark], asynchronous=False)
        )

    def _asked(self, what: str, ask: Any) -> Any:
        try:
            return ask()
        except library().KafkaException as error:
            raise SinkFailed(
                f"{self!r}: {what}: {error.args[0].str()}{self._heard}. See that the brokers run and that this user has the rights, and "
                "start the query again"
            ) from error


def _columns(names: Any) -> tuple[str, ...]:
    listed = () if names is None else (names,) if isinstance(names, str) else tuple(names)
    if not all(isinstance(name, str) and name for name in listed) or (names is not None and not listed):
        raise ConfigError(f"sinks.Kafka: {names!r} names no column; write 'user' or ['user', 'day']")
    return listed


def _headers(headers: Any) -> dict[str, str]:
    if headers is None:
        return {}
    pairs = dict(headers) if isinstance(headers, Mapping) else {name: name for name in _columns(headers)}
    if not all(isinstance(text, str) and text for pair in pairs.items() for text in pair):
        raise ConfigError(f"sinks.Kafka(headers={headers!r}): write columns, or a dict of names and columns")
    return pairs


def _written(rows: pa.Table, columns: str | Sequence[str]) -> Sequence[bytes | None]:
    """A column as it is, a list of them as a JSON object."""
    return column_values(rows, columns) if isinstance(columns, str) else json_values(rows, columns)
