"""The gate: bounded work in flight through a part of a dataflow (Faucet, section 4),
without clock or engine.

`Gate` is the configuration, `Batcher` the state. This is how a driver uses
them, whatever its engine:

    batcher = Batcher(Gate(in_flight=2, batch=1000))
    batcher.offer((), Rows(rows))           # nothing is drawn yet; () is the stamp outside the gate
    batcher.close(())                       # no more input at this stamp
    while True:
        for wave in batcher.admit():        # draws and stamps what may enter now, wave by wave
            start(wave.stamp, wave.items)
        if batcher.finished(()):            # only a draw shows that a source is at its end
            break
        batcher.done(wait_for_any())        # waves end in any order, with or without output

A driver that knows when a whole wave has ended (a Spark job) calls `done`. A driver that only
sees single tuples counts them: it calls `batcher.update(stamp, +made)` and then `(stamp,
-taken)`, and calls `done` when all tuples of the wave have been handed in. The wave is complete
when its count is 0.

Gates nest: an inner `Batcher(gate, outer=batcher)` is offered its input at the stamps of the outer
waves, and each of these stamps stays outstanding in the outer scope until the inner batcher has
finished it. The driver offers the stamp inside before it calls `done` outside (add first, then
remove), and closes it inside when all of its input has been offered:

    for wave in outer.admit():
        inner.offer(wave.stamp, Rows(expand(wave.items)))
        inner.close(wave.stamp)
        outer.done(wave.stamp)              # the inner batcher holds the stamp from here on

It asks both to admit again until neither has anything: an inner input that turns out to be
empty makes room outside.

Laws. Wave n of an outer stamp is admitted if and only if wave n - in_flight is complete. So at
most `in_flight` waves of an outer stamp are incomplete at any time, each of at most `batch`
rows. Completion is judged by the frontier: while one straggler is in flight, later waves that
are done do not make room. It is judged within the outer stamp: an earlier outer stamp that waits
for input holds up no other. With `shared` the bound is on all outer stamps together, and the
least of those with input comes first. What is admitted depends on what was offered and done, not
on when the driver asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from headgate.errors import ConfigError
from headgate.flow.progress import Progress, Stamp, enter, leave
from headgate.flow.sources import RowSource

AUTO = "auto"


@dataclass(frozen=True)
class Gate:
    """How much may be in flight: `in_flight` waves of at most `batch` rows.

    The bound holds for each outer stamp, or with `shared` for all of them together. Two waves in
    flight are enough to keep working while a straggler finishes; one needs the least memory
    (FAUCET-16). With `batch="auto"` the driver finds the size (`flow.wave_size`) and gives its
    batcher gates of fixed size.
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
                or_auto = ', nor "auto"' if name == "batch" else ""
                raise ConfigError(f"{name}={value!r} is not a whole number{or_auto}")
            if value < 1:
                raise ConfigError(f"{name}={value} is below 1, so nothing could ever pass the gate")

    @property
    def size(self) -> int:
        """Rows of a wave; an error if the driver has yet to find that number."""
        if isinstance(self.batch, str):
            raise ConfigError(f"batch={self.batch!r} has to become a number before a batcher can use it")
        return self.batch

    @property
    def rows(self) -> int:
        """The most rows in flight."""
        return self.in_flight * self.size


AUTO_SIZED = Gate(in_flight=2, batch=AUTO)
"""Two waves in flight, of the smallest size at which the fixed cost of a wave does not matter."""


@dataclass(frozen=True)
class Wave:
    """What is admitted together: its stamp, the items that the sources gave, and how many
    rows these stand for.
    """

    stamp: Stamp
    items: tuple[Any, ...]
    rows: int


@dataclass
class _Input:
    """The input at one outer stamp: its sources, and the number of the next wave."""

    sources: deque[RowSource] = field(default_factory=deque)
    next: int = 0
    closed: bool = False
    open: bool = True
    """Whether more waves may come: then a capability is held for the next one."""

    def cut(self, room: int) -> tuple[tuple[Any, ...], int]:
        """Take up to `room` rows from the first sources, and drop the sources that are at their end."""
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
    """The state of one gate; the docstring of this module has its use and its laws.

    >>> from headgate.flow.sources import Rows
    >>> batcher = Batcher(Gate(in_flight=2, batch=2))
    >>> batcher.offer((), Rows("abcde"))
    >>> batcher.close(())
    >>> [(wave.stamp, wave.items) for wave in batcher.admit()]
    [((0,), ('a', 'b')), ((1,), ('c', 'd'))]
    >>> batcher.done((1,))
    >>> list(batcher.admit())  # wave 0 is still in flight before it
    []
    >>> batcher.done((0,))
    >>> [wave.stamp for wave in batcher.admit()]
    [(2,)]
    """

    def __init__(self, gate: Gate, outer: Batcher | None = None) -> None:
        self.gate = gate
        self.progress = Progress()
        self._outer = outer
        self._inputs: dict[Stamp, _Input] = {}
        self._admitted: set[Stamp] = set()

    def offer(self, stamp: Stamp, *sources: RowSource) -> None:
        """Add input at an outer stamp; without sources this only announces that input may come.

        An outer stamp that was closed and finished must not be offered again: its waves would get
        stamps that were used before.
        """
        pending = self._inputs.get(stamp)
        if pending is None:
            if self._outer is not None:
                self._outer.update(stamp, +1)
            pending = self._inputs[stamp] = _Input()
            self.progress.update(enter(stamp), +1)
        elif pending.closed:
            raise ConfigError(f"the input at {stamp} is closed; offer all of it before close")
        pending.sources.extend(sources)

    def close(self, stamp: Stamp) -> None:
        """Announce that no more input comes at an outer stamp."""
        pending = self._inputs.get(stamp)
        if pending is None or pending.closed:
            raise ConfigError(f"there is no open input at {stamp}; offer it first, and close it once")
        pending.closed = True
        self._settle(stamp)

    def admit(self) -> Iterator[Wave]:
        """Admit what may enter now, the least outer stamp first; each wave is drawn when it is asked for."""
        while (stamp := self._ready()) is not None:
            pending = self._inputs[stamp]
            items, rows = pending.cut(self.gate.size)
            if rows:
                wave = Wave(enter(stamp, pending.next), items, rows)
                pending.next += 1
                self._admitted.add(wave.stamp)
                # the capability for the next wave; the one held until now became the count of this
                # wave
                self.progress.update(enter(stamp, pending.next), +1)
            self._settle(stamp)
            if rows:
                yield wave

    def done(self, stamp: Stamp) -> None:
        """Report that a wave has ended, or has been handed in where the driver counts tuples."""
        if stamp not in self._admitted:
            raise ConfigError(f"wave {stamp} is not in flight: it was done before, or never admitted")
        self._admitted.remove(stamp)
        self.update(stamp, -1)

    def update(self, stamp: Stamp, change: int) -> None:
        """Count work at a stamp inside: add what was made before removing what it was made from."""
        if change > 0 and self.complete(stamp):
            raise ConfigError(
                f"{stamp} is complete and can get no more work; add the new before removing the old"
            )
        self.progress.update(stamp, change)
        self._settle(leave(stamp))

    def complete(self, stamp: Stamp) -> bool:
        """Whether no work is left, or can come, at a wave and at those before it of the same outer stamp."""
        return self.progress.passed(stamp, within=leave(stamp))

    def finished(self, stamp: Stamp) -> bool:
        """Whether an outer stamp is closed, its sources are at their end, and all of
        its waves are complete.
        """
        return stamp not in self._inputs

    def in_flight(self, stamp: Stamp) -> int:
        """The number of incomplete waves of an outer stamp: from the oldest in flight to the newest."""
        pending = self._inputs.get(stamp)
        return 0 if pending is None else pending.next - min(self._counters(stamp), default=pending.next)

    def _counters(self, stamp: Stamp) -> list[int]:
        """The wave numbers that are outstanding for an outer stamp, its capability included."""
        return [held[-1] for held in self.progress.outstanding if held[:-1] == stamp]

    def _ready(self) -> Stamp | None:
        """The least outer stamp that has input and room for one more wave."""
        waiting = sorted(stamp for stamp, pending in self._inputs.items() if pending.sources)
        if self.gate.shared:
            room = sum(map(self.in_flight, self._inputs)) < self.gate.in_flight
            return waiting[0] if waiting and room else None
        return next((stamp for stamp in waiting if self._has_room(stamp)), None)

    def _has_room(self, stamp: Stamp) -> bool:
        before = self._inputs[stamp].next - self.gate.in_flight
        return before < 0 or self.complete(enter(stamp, before))

    def _settle(self, stamp: Stamp) -> None:
        """Give up the capability of an outer stamp whose sources are at their end, and the stamp
        once it is complete.
        """
        pending = self._inputs.get(stamp)
        if pending is None or not pending.closed or pending.sources:
            return
        if pending.open:
            pending.open = False
            self.progress.update(enter(stamp, pending.next), -1)
        if not self._counters(stamp):
            del self._inputs[stamp]
            if self._outer is not None:
                self._outer.update(stamp, -1)
