"""Where a query begins to read a topic for the first time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headgate.errors import ConfigError

Partition = tuple[str, int]
"""A topic, and the number of a partition of it."""
EARLIEST, LATEST = -2, -1
"""What Kafka calls the first and the end of the offsets that a partition has."""
_WORDS = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True)
class Start:
    """`time` is EARLIEST, LATEST or milliseconds since 1970; `offsets` name partitions instead."""

    time: int = EARLIEST
    offsets: Mapping[Partition, int] | None = None

    @classmethod
    def of(cls, start: Any) -> Start:
        """The start that a user describes.

        >>> Start.of("latest").time, Start.of("2026-01-01T00:00:00Z").time
        (-1, 1767225600000)
        >>> Start.of({"events": {0: 17, 1: "earliest"}}).offsets
        {('events', 0): 17, ('events', 1): -2}
        """
        if isinstance(start, Mapping):
            return cls(offsets=_offsets(start))
        if isinstance(start, str) and start in _WORDS:
            return cls(_WORDS[start])
        if isinstance(start, str):
            try:
                start = datetime.fromisoformat(start)
            except ValueError:
                raise _unknown(start) from None
        if not isinstance(start, datetime):
            raise _unknown(start)
        moment = start if start.tzinfo is not None else start.replace(tzinfo=UTC)
        return cls(int(moment.timestamp() * 1000))

    def positions(self, known: Mapping[Partition, Mapping[int, int]]) -> dict[Partition, int]:
        """Where each partition begins. `known` has, by partition, the offset of each time that was
        asked for.
        """
        if self.offsets is None:
            return {partition: found[self.time] for partition, found in known.items()}
        for topic, number in self.offsets:
            if (topic, number) not in known:
                raise ConfigError(
                    f"Kafka(start=...) names partition {number} of {topic}, which the topic does not have, or which is not read: name "
                    "partitions of the topics that are read"
                )
        positions = {}
        for (topic, number), found in known.items():
            offset = self.offsets.get((topic, number))
            if offset is None:
                raise ConfigError(
                    f"Kafka(start=...) names no offset for partition {number} of {topic}: name all partitions, with a number, "
                    "'earliest' or 'latest'"
                )
            positions[topic, number] = found[offset] if offset < 0 else offset
        return positions


def _offsets(start: Mapping[Any, Any]) -> dict[Partition, int]:
    found: dict[Partition, int] = {}
    for topic, partitions in start.items():
        if not isinstance(topic, str) or not isinstance(partitions, Mapping):
            raise _unknown(start)
        for number, offset in partitions.items():
            offset = _WORDS.get(offset, offset) if isinstance(offset, str) else offset
            whole = all(isinstance(n, int) and not isinstance(n, bool) for n in (number, offset))
            if not whole or number < 0 or offset < EARLIEST:
                raise _unknown(start)
            found[topic, number] = offset
    if not found:
        raise _unknown(start)
    return found


def _unknown(start: Any) -> ConfigError:
    return ConfigError(
        f"Kafka(start={start!r}): write 'earliest', 'latest', a time such as '2026-01-31T12:00:00Z', or offsets such as "
        "{'events': {0: 17, 1: 'earliest'}}"
    )
