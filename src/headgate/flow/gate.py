"""The gate: bounded work in flight through a part of a dataflow (Faucet, section 4), as a machine without clock or engine.

`Gate` is the configuration, `Batcher` the state. How a driver uses them, whatever its engine:

    batcher = Batcher(Gate(in_flight=2, batch=1000))
    batcher.offer((), Rows(rows))           # nothing is drawn yet; () is the stamp outside of the gate
    batcher.close(())                       # no more input at this stamp
    while True:
        for batch in batcher.admit():       # draws and stamps what may enter now, batch by batch
            start(batch.stamp, batch.items)
        if batcher.finished(()):            # only a draw shows that a source is at its end
            break
        batcher.done(wait_for_any())        # a batch is through, in any order, with or without output

A driver that knows when a batch as a whole is through (a Spark job) says `done`. One that only sees single tuples counts them:
`batcher.update(stamp, +made)` and then `(stamp, -taken)`, and says `done` when the batch has been handed in; it is through
when its count is 0.

Gates nest: an inner `Batcher(gate, outer=batcher)` is offered its input at the stamps of the outer's batches, and each such
stamp stays outstanding in the outer scope until the inner one has finished it. The driver offers the stamp inside before it
says `done` outside (add first, then take away), and closes it inside when all of its input is in:

    for batch in outer.admit():
        inner.offer(batch.stamp, Rows(expand(batch.items)))
        inner.close(batch.stamp)
        outer.done(batch.stamp)             # the inner gate holds the stamp from here on

and asks both to admit again until neither has anything: an inner input that turns out to be empty makes room outside.

Laws. Batch t_b of an outer stamp t_e is released if and only if t_b - in_flight is complete. So at most `in_flight` batches
of a t_e are incomplete at any time, each of at most `batch` rows. Completion is by frontier: while one straggler is out,
later batches that are done do not make room. It is judged within the t_e: an earlier one that waits for input holds nobody
up. With `shared` the bound is on all t_e together, the least of those with input first. What is released depends on what was
offered and done, not on when the driver asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from headgate.errors import ConfigError
from headgate.flow.sources import Source
from headgate.flow.stamps import Progress, Stamp, enter, leave

AUTO = "auto"
OR_AUTO = ', nor "auto"'


@dataclass(frozen=True)
class Gate:
    """How much may be inside: `in_flight` batches of at most `batch` rows, for each outer stamp or, `shared`, for all of them.

    Two batches in flight are enough to work on while a straggler finishes; one is the least memory (FAUCET-16).
    With `batch="auto"` the driver finds the size (`flow.plateau`) and gives its batcher gates of fixed size.
    """

    in_flight: int = 2
    batch: int | str = 1000
    shared: bool = False

    def __post_init__(self) -> None:
        for name in ("in_flight", "batch"):
            value = getattr(self, name)
            if name == "batch" and value == AUTO:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise ConfigError(
                    f"{name}={value!r} is not a whole number{OR_AUTO if name == 'batch' else ''}"
                )
            if value < 1:
                raise ConfigError(f"{name}={value} is below 1, so nothing could ever pass the gate")

    @property
    def size(self) -> int:
        """Rows of a batch, where that is fixed."""
        if isinstance(self.batch, str):
            raise ConfigError(f"batch={self.batch!r} has to become a number before a batcher can use it")
        return self.batch

    @property
    def rows(self) -> int:
        """The most rows in flight."""
        return self.in_flight * self.size


BY_ITSELF = Gate(in_flight=2, batch=AUTO)
"""Two batches, of the size that turns out to be large enough."""


@dataclass(frozen=True)
class Batch:
    """What enters together: its stamp, what the sources gave, and how many rows that stands for."""

    stamp: Stamp
    items: tuple[Any, ...]
    rows: int


@dataclass
class _Input:
    """One outer stamp: what is left of it, and the number of the next batch."""

    sources: deque[Source] = field(default_factory=deque)
    next: int = 0
    closed: bool = False
    open: bool = True
    """Whether more batches may come: a capability is held for the next one."""

    def cut(self, room: int) -> tuple[tuple[Any, ...], int]:
        """Up to so many rows from the first sources; those that are at their end go."""
        items: list[Any] = []
        rows = 0
        while self.sources and rows < room:
            taken, count = self.sources[0].take(room - rows)
            items += taken
            rows += count
            if not count:
                self.sources.popleft()
        return tuple(items), rows


class Batcher:
    """The state of one gate; see the head of this file for its use and its laws.

    >>> from headgate.flow.sources import Rows
    >>> batcher = Batcher(Gate(in_flight=2, batch=2))
    >>> batcher.offer((), Rows("abcde"))
    >>> batcher.close(())
    >>> [(batch.stamp, batch.items) for batch in batcher.admit()]
    [((0,), ('a', 'b')), ((1,), ('c', 'd'))]
    >>> batcher.done((1,))
    >>> list(batcher.admit())  # batch 0 still stands before it
    []
    >>> batcher.done((0,))
    >>> [batch.stamp for batch in batcher.admit()]
    [(2,)]
    """

    def __init__(self, gate: Gate, outer: Batcher | None = None) -> None:
        self.gate = gate
        self.progress = Progress()
        self._outer = outer
        self._inputs: dict[Stamp, _Input] = {}
        self._released: set[Stamp] = set()

    def offer(self, stamp: Stamp, *sources: Source) -> None:
        """Take in input at an outer stamp; without sources this only says that some may come.

        An outer stamp that has been closed and finished must not come again: its batches would have the same stamps.
        """
        one = self._inputs.get(stamp)
        if one is None:
            if self._outer is not None:
                self._outer.update(stamp, +1)
            one = self._inputs[stamp] = _Input()
            self.progress.update(enter(stamp), +1)
        elif one.closed:
            raise ConfigError(f"the input at {stamp} is closed; offer all of it before close")
        one.sources.extend(sources)

    def close(self, stamp: Stamp) -> None:
        """Say that nothing more comes at an outer stamp."""
        one = self._inputs.get(stamp)
        if one is None or one.closed:
            raise ConfigError(f"there is no open input at {stamp}; offer it first, and close it once")
        one.closed = True
        self._settle(stamp)

    def admit(self) -> Iterator[Batch]:
        """Release what may enter now, the least outer stamp first; each batch is drawn when it is asked for."""
        while (stamp := self._ready()) is not None:
            one = self._inputs[stamp]
            items, rows = one.cut(self.gate.size)
            if rows:
                batch = Batch(enter(stamp, one.next), items, rows)
                one.next += 1
                self._released.add(batch.stamp)
                self.progress.update(
                    enter(stamp, one.next), +1
                )  # the capability; what it was is now the batch's
            self._settle(stamp)
            if rows:
                yield batch

    def done(self, stamp: Stamp) -> None:
        """Say that a batch is through, or handed in where the driver counts tuples."""
        if stamp not in self._released:
            raise ConfigError(f"batch {stamp} is not in flight: it was done before, or never released")
        self._released.remove(stamp)
        self.update(stamp, -1)

    def update(self, stamp: Stamp, change: int) -> None:
        """Count work at a stamp inside: add what was made before taking away what it was made from."""
        if change > 0 and self.complete(stamp):
            raise ConfigError(
                f"{stamp} is complete and can get no more work; add the new before taking away the old"
            )
        self.progress.update(stamp, change)
        self._settle(leave(stamp))

    def complete(self, stamp: Stamp) -> bool:
        """Whether no work at a batch, or at one before it of the same outer stamp, is left or can come."""
        return self.progress.passed(stamp, within=leave(stamp))

    def finished(self, stamp: Stamp) -> bool:
        """Whether an outer stamp is closed, drawn to its end, and all of its batches are through."""
        return stamp not in self._inputs

    def in_flight(self, stamp: Stamp) -> int:
        """The batches of an outer stamp that are incomplete: from the oldest that is out to the newest."""
        one = self._inputs.get(stamp)
        return 0 if one is None else one.next - min(self._counters(stamp), default=one.next)

    def _counters(self, stamp: Stamp) -> list[int]:
        """The last coordinates of what is outstanding for an outer stamp, its capability included."""
        return [held[-1] for held in self.progress.outstanding if held[:-1] == stamp]

    def _ready(self) -> Stamp | None:
        """The least outer stamp with something to draw and leave to release it."""
        waiting = sorted(stamp for stamp, one in self._inputs.items() if one.sources)
        if self.gate.shared:
            room = sum(map(self.in_flight, self._inputs)) < self.gate.in_flight
            return waiting[0] if waiting and room else None
        return next((stamp for stamp in waiting if self._has_room(stamp)), None)

    def _has_room(self, stamp: Stamp) -> bool:
        before = self._inputs[stamp].next - self.gate.in_flight
        return before < 0 or self.complete(enter(stamp, before))

    def _settle(self, stamp: Stamp) -> None:
        """Give up the capability of an outer stamp that is drawn to its end, and the stamp when nothing of it is left."""
        one = self._inputs.get(stamp)
        if one is None or not one.closed or one.sources:
            return
        if one.open:
            one.open = False
            self.progress.update(enter(stamp, one.next), -1)
        if not self._counters(stamp):
            del self._inputs[stamp]
            if self._outer is not None:
                self._outer.update(stamp, -1)
