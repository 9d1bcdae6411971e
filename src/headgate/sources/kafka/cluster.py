"""The driver's side: which partitions there are, what they hold, and how large a record is."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from headgate.errors import ConfigError, SourceFailed
from headgate.kafka_client import is_refused, library, log
from headgate.sources.kafka.planning import Held, Span
from headgate.sources.kafka.reading import Access
from headgate.sources.kafka.start import EARLIEST, LATEST, Partition

T = TypeVar("T")
_ATTEMPTS = 4
_SAMPLE = 200
"""So many records are looked at to learn their size."""
_RECORD_BYTES = 70
"""What a record takes besides key and value, as Arrow holds it."""


class Cluster:
    """A consumer that asks, and reads nothing but samples."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._client, self._heard = access.consumer(
            queued_min_messages=_SAMPLE, queued_max_messages_kbytes=4096
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def partitions(self, topics: Collection[str], pattern: str | None) -> tuple[str, set[Partition]]:
        """The id of the cluster, and the partitions of the topics that are named or fit a pattern.
        One that does not exist has none.
        """

        def ask(seconds: float) -> Any:
            if pattern is None and len(topics) == 1:
                return self._client.list_topics(next(iter(topics)), timeout=seconds)
            return self._client.list_topics(timeout=seconds)

        listed = self._tried(ask, "the topics could not be listed")
        fits = re.compile(pattern).fullmatch if pattern is not None else topics.__contains__
        found = set()
        for name, topic in listed.topics.items():
            internal = pattern is not None and name.startswith("__")
            if not internal and fits(name):
                if topic.error is not None and str(topic.error.name()) == "TOPIC_AUTHORIZATION_FAILED":
                    raise SourceFailed(
                        f"{topic.error.str()} for topic {name}: grant READ and DESCRIBE to this user"
                    )
                found |= {(name, number) for number in topic.partitions}
        return str(listed.cluster_id or ""), found

    def held(self, partitions: Collection[Partition]) -> dict[Partition, Held]:
        """What each partition has."""
        found = self.offsets(partitions, (EARLIEST, LATEST))
        return {partition: Held(at[EARLIEST], at[LATEST]) for partition, at in found.items()}

    def offsets(
        self, partitions: Collection[Partition], times: Iterable[int]
    ) -> dict[Partition, dict[int, int]]:
        """The first offset at or after each time, by partition; the end if there is none. Under
        read_committed the end is that of the transactions that are complete.
        """
        found: dict[Partition, dict[int, int]] = {partition: {} for partition in partitions}
        for time in dict.fromkeys((LATEST, *times)):
            for at in self._at(partitions, time):
                offset = int(at.offset)
                partition = found[at.topic, at.partition]
                partition[time] = offset if offset >= 0 else partition[LATEST]
        return found

    def _at(self, partitions: Collection[Partition], time: int) -> list[Any]:
        if not partitions:
            return []
        kind = library().TopicPartition
        wanted = [kind(topic, number, time) for topic, number in sorted(partitions)]

        def ask(seconds: float) -> list[Any]:
            answered = list(self._client.offsets_for_times(wanted, timeout=seconds))
            for one in answered:
                if one.error is not None:
                    raise library().KafkaException(one.error)
            return answered

        return self._tried(ask, "offsets could not be looked up")

    def record_bytes(self, spans: Iterable[Span]) -> float:
        """The mean size of some records of the largest span; 0 if none arrived."""
        span = max(spans, key=lambda span: span.size)
        sizes: list[int] = []
        self._client.assign([library().TopicPartition(span.topic, span.partition, span.first)])
        try:
            for _ in range(20):
                for message in self._client.consume(min(_SAMPLE, span.size) - len(sizes), 0.05):
                    if message.error() is None:
                        sizes.append(len(message.value() or b"") + len(message.key() or b"") + _RECORD_BYTES)
                if len(sizes) >= min(_SAMPLE, span.size) or (sizes and span.size < _SAMPLE):
                    break
        finally:
            self._client.unassign()
        return sum(sizes) / len(sizes) if sizes else 0.0

    def commit(self, positions: Mapping[Partition, int]) -> None:
        """Commit positions to the group, for those who watch its lag. The query itself goes by its
        checkpoint, so a failure is only logged.
        """
        kind = library().TopicPartition
        offsets = [kind(topic, number, at) for (topic, number), at in positions.items()]
        try:
            self._client.commit(offsets=offsets, asynchronous=False)
        except library().KafkaException as error:
            log.warning("offsets were not committed to group %s: %s", self.access.group, error.args[0].str())

    def _tried(self, ask: Callable[[float], T], what: str) -> T:
        """An answer. Errors that may pass are waited for as long as the user allows: half of it for
        answers, and half between them. `ask` gets the seconds that one attempt may take.
        """
        each = self.access.patience / (2 * _ATTEMPTS)
        for _ in range(_ATTEMPTS):
            try:
                return ask(each)
            except library().KafkaException as error:
                cause = error.args[0]
            if is_refused(cause):
                break
            self._client.poll(each)
        if is_refused(cause):
            raise ConfigError(
                f"{what}: {cause.str()}; correct the credentials in options=..., or grant the rights"
            )
        raise SourceFailed(
            f"{self.access.servers} did not answer within {self.access.patience:g} s: {what} ({cause.str()}){self._heard}. "
            "See that the brokers run and can be reached, and start the query again; it goes on after its last commit"
        )
