"""Which offsets a batch takes: a pure function of where the query stands and what there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headgate.errors import OffsetsLost
from headgate.sources.kafka.start import Partition

LEAST = 10_000
"""A range has at least so many offsets, so that a task is worth its start."""


@dataclass(frozen=True)
class Span:
    """Offsets of a partition: from the first up to, and without, the last. Some have no record."""

    topic: str
    partition: int
    first: int
    last: int

    @property
    def size(self) -> int:
        """How many offsets there are; records are not more."""
        return self.last - self.first

    def __str__(self) -> str:
        return f"offsets {self.first} to {self.last - 1} of partition {self.partition} of {self.topic}"


@dataclass(frozen=True)
class Held:
    """What a partition has now: the first offset, and the one after the last that may be read."""

    first: int
    end: int


def checked_positions(
    positions: Mapping[Partition, int], held: Mapping[Partition, Held], *, earliest: bool
) -> tuple[dict[Partition, int], list[str]]:
    """The positions of all partitions that are there. One that is new begins with its first offset.
    If rows were lost, raise `OffsetsLost`, or with `earliest` go on with the first offset and say
    what was lost.

    >>> checked_positions({("t", 0): 3}, {("t", 0): Held(5, 9), ("t", 1): Held(0, 4)}, earliest=True)[0]
    {('t', 0): 5, ('t', 1): 0}
    """
    found, said = {}, []
    for partition, now in held.items():
        at = positions.get(partition, now.first)
        lost = _lost(partition, at, now)
        if lost and not earliest:
            raise OffsetsLost(f"{lost} {REMEDY}")
        if lost:
            said.append(lost)
        found[partition] = now.first if lost else at
    return found, said


REMEDY = (
    "To go on with the first offset that there is, start the query again with Kafka(..., on_lost='earliest'); or begin "
    "with a new checkpoint and a new output"
)


def _lost(partition: Partition, at: int, now: Held) -> str:
    topic, number = partition
    if at < now.first:
        return (
            f"the query stands at offset {at} of partition {number} of {topic}, and the first that is kept is {now.first}: "
            f"{now.first - at} offsets were deleted before they were read (see retention.ms and retention.bytes of the topic)."
        )
    if at > now.end:
        return (
            f"the query stands at offset {at} of partition {number} of {topic}, which ends at {now.end}: the topic was created anew, or "
            "its brokers have lost records."
        )
    return ""


def taken(
    positions: Mapping[Partition, int], held: Mapping[Partition, Held], rows: int
) -> tuple[list[Span], bool]:
    """The offsets that a batch takes, at most about `rows`, and whether there are more. Each
    partition gives a share of what it has, so none falls behind for ever.

    >>> taken({("t", 0): 0, ("t", 1): 0}, {("t", 0): Held(0, 300), ("t", 1): Held(0, 100)}, 40)
    ([Span(topic='t', partition=0, first=0, last=30), Span(topic='t', partition=1, first=0, last=10)], True)
    """
    waiting = {
        partition: held[partition].end - at
        for partition, at in positions.items()
        if partition in held and held[partition].end > at
    }
    total = sum(waiting.values())
    spans = []
    for partition in sorted(waiting):
        has = waiting[partition]
        share = has if total <= rows else max(1, has * rows // total)
        at = positions[partition]
        spans.append(Span(*partition, at, at + share))
    return spans, total > sum(span.size for span in spans)


def cut(spans: Sequence[Span], tasks: int) -> list[Span]:
    """The same offsets in about `tasks` pieces of equal size, in order; a partition with few is not
    cut.

    >>> [span.size for span in cut([Span("t", 0, 0, 50_000), Span("t", 1, 7, 9)], 2)]
    [25000, 25000, 2]
    """
    total = sum(span.size for span in spans)
    each = max(LEAST, -(-total // max(1, tasks)))
    pieces = []
    for span in spans:
        parts = max(1, -(-span.size // each)) if span.size >= 2 * LEAST else 1
        edges = [span.first + span.size * part // parts for part in range(parts + 1)]
        pieces += [Span(span.topic, span.partition, a, b) for a, b in pairwise(edges)]
    return pieces
