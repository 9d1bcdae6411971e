"""A small cluster that runs the join tuple by tuple, behind nested gates or without any,
as a discrete-event model.

Workers own vertices and have one queue of messages each, first come first served. An operator
takes a message, works on each of its tuples, and sends what comes of them to the workers that go
on with them. The gates are the real ones (`headgate.flow`): gate k has the propose step to
vertex k + 1 inside, drawn lazily; between it and gate k + 1 are the intersections and the count.
Without control every batch is let in at once, so operators run ahead of those behind them, as in
the paper's naive schedule.

Memory is counted in tuples: prefixes that wait at a gate, and tuples in queues or under way. Not
modelled: bytes on the network, caches, allocation.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np

from headgate.flow import Batcher, Gate, Stamp, Wave, leave
from headgate_lab.graphs.edges import Ints
from headgate_lab.papers.faucet.join import Join, Proposals

MESSAGE_TUPLES = 1024
"""What the engine of the paper puts into one message."""
UNBOUNDED = 10**9


@dataclass(frozen=True)
class Machines:
    """The costs of operations. The defaults are common figures for such machines, fixed before the
    first run (docs/research/faucet.md).
    """

    workers: int = 8
    propose_us: float = 0.05
    count_us: float = 0.2
    intersect_us: float = 0.3
    message_us: float = 5.0
    """To activate an operator for a message."""
    network_us: float = 50.0
    progress_us: float = 200.0
    """The time from the end of a batch until the batcher knows of it."""
    pause_every_us: float = 20_000.0
    """Work between two pauses of a worker, on average: what makes stragglers. 0 for none."""
    pause_us: float = 1_000.0


@dataclass(frozen=True)
class ModelRun:
    """The time and memory of a run, and its results."""

    seconds: float
    peak_tuples: int
    cliques: int
    tuples: int
    """Proposals made."""
    batches: int
    fruitless: int
    """Batches of the last gate that gave no result."""
    most_batches: int
    """In flight for one outer stamp at once, at any gate."""
    most_rows: int
    busy: float
    """The part of the workers' time that was work."""


@dataclass(frozen=True)
class _Message:
    """Work for one operator; `tuples` of it are in memory until it is done."""

    operator: Callable[[_Message], None]
    stamp: Stamp
    rows: Ints
    proposer: Ints
    tuples: int
    step: int = 0
    nth: Ints | None = None


class Model:
    """One run. The same join, machines, gate and seed give the same run."""

    def __init__(self, join: Join, machines: Machines, gate: Gate | None, *, seed: int = 1) -> None:
        self.join, self.machines = join, machines
        gate = gate or Gate(UNBOUNDED, MESSAGE_TUPLES * machines.workers**2)
        self.gates: list[Batcher] = []
        for _ in range(join.size - 1):
            self.gates.append(Batcher(gate, outer=self.gates[-1] if self.gates else None))
        self._sources: list[dict[Stamp, Proposals]] = [{} for _ in self.gates]
        self._messages: Counter[Stamp] = Counter()
        self._flying: dict[Stamp, int] = {}
        self._fruitful: set[Stamp] = set()
        self._rng = np.random.default_rng([seed, 21])
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = count()
        self._now = self._work_us = 0.0
        self._free_at = [0.0] * machines.workers
        self._to_pause = [self._gap_us() for _ in range(machines.workers)]
        self._queued = self._peak = self._cliques = self._tuples = 0
        self._batches = [0] * len(self.gates)
        self._most_batches = self._most_rows = 0

    def run(self) -> ModelRun:
        """Offer all vertices to the outer gate, and run until everything is complete."""
        self._open(0, ())
        self._wait_at(0, (), self.join.inputs)
        self.gates[0].close(())
        self._admit()
        while self._events:
            self._now, _, action = heapq.heappop(self._events)
            action()
        if not self.gates[0].finished(()):
            raise AssertionError("the gates hold work that nobody does")
        seconds = self._now / 1e6
        return ModelRun(
            seconds=seconds,
            peak_tuples=self._peak,
            cliques=self._cliques,
            tuples=self._tuples,
            batches=sum(self._batches),
            fruitless=self._batches[-1] - len(self._fruitful),
            most_batches=self._most_batches,
            most_rows=self._most_rows,
            busy=self._work_us / 1e6 / max(seconds * self.machines.workers, 1e-12),
        )

    # the gates

    def _open(self, level: int, stamp: Stamp) -> None:
        source = self._sources[level][stamp] = Proposals(self.machines.workers)
        self.gates[level].offer(stamp, source)

    def _wait_at(self, level: int, stamp: Stamp, prefixes: Ints) -> None:
        """Prefixes arrive at a gate, each at the worker that owns its proposer."""
        source = self._sources[level][stamp]
        proposer, counts = self.join.count(prefixes)
        owner = prefixes[np.arange(len(prefixes)), proposer] % self.machines.workers
        before = source.waiting
        for worker in np.unique(owner):
            at = owner == worker
            source.add(int(worker), prefixes[at], proposer[at], counts[at])
        if level:  # the input itself is the graph, which is there anyway
            self._hold(source.waiting - before)
        if source.idle:
            source.idle = False
            self.gates[level].offer(stamp, source)

    def _admit(self) -> None:
        """Admit from the inside out, because what ends inside makes room outside."""
        for level in reversed(range(len(self.gates))):
            for wave in self.gates[level].admit():
                self._release(level, wave)

    def _release(self, level: int, wave: Wave) -> None:
        stamp = wave.stamp
        self._batches[level] += 1
        if level + 1 < len(self.gates):
            self._open(level + 1, stamp)
        gate = self.gates[level]
        if gate.gate.in_flight < UNBOUNDED:
            self._flying[stamp] = wave.rows
            self._flying = {s: n for s, n in self._flying.items() if not self.gates[len(s) - 1].complete(s)}
            rows = [n for s, n in self._flying.items() if leave(s) == leave(stamp)]
            self._most_batches = max(self._most_batches, len(rows))
            self._most_rows = max(self._most_rows, sum(rows))
        for drawn in wave.items:
            if level:
                self._hold(-drawn.finished)
            message = _Message(
                self._propose, stamp, drawn.prefixes, drawn.proposer, drawn.sources, nth=drawn.nth
            )
            self._send(drawn.worker, message, self.machines.propose_us)

    def _through(self, stamp: Stamp) -> None:
        """No message of a batch is left; the gates learn of it after a delay."""

        def known() -> None:
            level = len(stamp) - 1
            if level + 1 < len(self.gates):
                self.gates[level + 1].close(stamp)
            self.gates[level].done(stamp)
            self._admit()

        self._at(self._now + self.machines.progress_us, known)

    # the workers

    def _send(self, worker: int, message: _Message, tuple_us: float) -> None:
        """Every message takes as long to arrive, so workers serve them in the order in
        which they were sent.
        """
        work = self.machines.message_us + tuple_us * len(message.rows)
        self._work_us += work
        begin = max(self._now + self.machines.network_us, self._free_at[worker])
        end = self._free_at[worker] = begin + work + self._pauses_us(worker, work)
        self._messages[message.stamp] += 1
        self._hold(message.tuples)

        def finish() -> None:
            message.operator(message)
            self._hold(-message.tuples)
            self._messages[message.stamp] -= 1
            if not self._messages[message.stamp]:
                del self._messages[message.stamp]
                self._through(message.stamp)

        self._at(end, finish)

    def _spread(
        self, message: _Message, rows: Ints, proposer: Ints, vertex: Ints, *, step: int, tuple_us: float
    ) -> None:
        """Send rows to the workers that own a vertex each."""
        operator = self._count if step < 0 else self._intersect
        owner = vertex % self.machines.workers
        order = np.argsort(owner, kind="stable")
        ends = np.searchsorted(owner[order], np.arange(self.machines.workers + 1))
        for worker in range(self.machines.workers):
            at = order[ends[worker] : ends[worker + 1]]
            if at.size:
                new = _Message(operator, message.stamp, rows[at], proposer[at], at.size, step)
                self._send(worker, new, tuple_us)

    def _propose(self, message: _Message) -> None:
        assert message.nth is not None
        rows = self.join.propose(message.rows, message.proposer, message.nth)
        self._tuples += len(rows)
        self._next(message, rows, message.proposer, 0)

    def _intersect(self, message: _Message) -> None:
        other = self.join.other(message.rows, message.proposer, message.step)
        kept = self.join.joined(other, message.rows[:, -1])
        self._next(message, message.rows[kept], message.proposer[kept], message.step + 1)

    def _next(self, message: _Message, rows: Ints, proposer: Ints, step: int) -> None:
        """Proposals that came through so many intersections: the next one, the count before the
        next gate, or the end.
        """
        if not len(rows):
            return
        if step < rows.shape[1] - 2:
            other = self.join.other(rows, proposer, step)
            self._spread(message, rows, proposer, other, step=step, tuple_us=self.machines.intersect_us)
        elif rows.shape[1] < self.join.size:
            self._spread(message, rows, proposer, rows[:, -1], step=-1, tuple_us=self.machines.count_us)
        else:
            self._cliques += len(rows)
            self._fruitful.add(message.stamp)

    def _count(self, message: _Message) -> None:
        self._wait_at(len(message.stamp), message.stamp, message.rows)
        self._admit()

    # time and memory

    def _at(self, time_us: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time_us, next(self._serial), action))

    def _hold(self, tuples: int) -> None:
        self._queued += tuples
        self._peak = max(self._peak, self._queued)

    def _gap_us(self) -> float:
        every = self.machines.pause_every_us
        return float(self._rng.exponential(every)) if every else float("inf")

    def _pauses_us(self, worker: int, work_us: float) -> float:
        """The pauses that happen during the work of a worker."""
        paused = 0.0
        self._to_pause[worker] -= work_us
        while self._to_pause[worker] <= 0:
            paused += float(self._rng.exponential(self.machines.pause_us))
            self._to_pause[worker] += self._gap_us()
        return paused
