"""GenericJoin for cliques (section 2), over arrays: count the extensions of a prefix,
propose them, intersect them.

A prefix is a row of vertices that are all joined. Each of its vertices v proposes the successors of
v as the next one; the vertex with fewest extends it (ties: the first), and every other one drops
what it is not joined to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headgate_lab.graphs import Adjacency
from headgate_lab.graphs.edges import Ints


class Join:
    """The edge relation and what is asked of it. Prefixes are arrays of one row each, proposals
    have the new vertex last.
    """

    def __init__(self, graph: Adjacency, size: int, first: Ints | None = None) -> None:
        """`first` are the vertices to begin with, all of them if not given: a limited input
        over the whole relation.
        """
        self.graph = graph
        self.size = size
        self.inputs: Ints = (np.arange(graph.vertices) if first is None else first)[:, None]
        self.degrees = graph.degrees
        sources = np.repeat(np.arange(graph.vertices), self.degrees)
        self._keys = sources * graph.vertices + graph.targets

    def count(self, prefixes: Ints) -> tuple[Ints, Ints]:
        """Who proposes for each prefix, as a column, and how many."""
        counts = self.degrees[prefixes]
        proposer = counts.argmin(axis=1)
        return proposer, counts[np.arange(len(prefixes)), proposer]

    def propose(self, prefixes: Ints, proposer: Ints, nth: Ints) -> Ints:
        """The nth extension of each prefix."""
        vertex = prefixes[np.arange(len(prefixes)), proposer]
        candidate: Ints = self.graph.targets[self.graph.offsets[vertex] + nth]
        return np.concatenate((prefixes, candidate[:, None]), axis=1)

    def other(self, rows: Ints, proposer: Ints, step: int) -> Ints:
        """The vertex that intersects proposals in a step: the columns in order, without the proposer's."""
        vertices: Ints = rows[np.arange(len(rows)), step + (step >= proposer)]
        return vertices

    def joined(self, vertex: Ints, candidate: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether there is an edge."""
        if not self._keys.size:
            return np.zeros(len(vertex), dtype=np.bool_)
        key = vertex * self.graph.vertices + candidate
        place = np.minimum(np.searchsorted(self._keys, key), self._keys.size - 1)
        return np.asarray(self._keys[place] == key)


@dataclass(frozen=True)
class Drawn:
    """The nth extensions of some prefixes, to be proposed by one worker."""

    worker: int
    prefixes: Ints
    proposer: Ints
    nth: Ints
    sources: int
    """How many prefixes there are, without repetition."""
    finished: int
    """How many of them are drawn to their end."""


class Proposals:
    """The lazy propose step of one outer stamp (a `flow.RowSource`): prefixes by worker, expanded
    no further than asked.

    Each worker gives the same share of a batch (FAUCET-E1), and those that have less leave the rest
    to the others. A worker takes its prefixes in mixed order: in that of arrival, those that one
    worker has counted come together, and the next step of them all is often at that same worker.
    """

    def __init__(self, workers: int) -> None:
        self._queues = [_Queue() for _ in range(workers)]
        self.idle = False
        """Whether it had nothing to give when it was last asked, and was dropped by the batcher."""

    @property
    def waiting(self) -> int:
        """Prefixes that are not drawn to their end."""
        return sum(queue.waiting for queue in self._queues)

    def add(self, worker: int, prefixes: Ints, proposer: Ints, counts: Ints) -> None:
        """More prefixes at a worker; those without extensions end here."""
        extensible = counts > 0
        if extensible.any():
            self._queues[worker].add(prefixes[extensible], proposer[extensible], counts[extensible])

    def take(self, room: int) -> tuple[Sequence[Drawn], int]:
        """Up to so many proposals, evenly from all workers that have some."""
        taken: list[Drawn] = []
        rest = room
        busy = sorted((queue.left, worker) for worker, queue in enumerate(self._queues) if queue.left)
        for position, (left, worker) in enumerate(busy):
            share = min(left, -(-rest // (len(busy) - position)))
            if share:
                rest -= share
                taken.append(self._queues[worker].draw(worker, share))
        self.idle = not taken
        return taken, room - rest


class _Queue:
    """The prefixes at one worker: `done` of their extensions are drawn, `ends` sums up those that are not."""

    def __init__(self) -> None:
        self.left = self.waiting = self._drawn = 0
        self._held: tuple[Ints, ...] = ()
        self._ends = np.zeros(0, np.int64)
        self._new: list[tuple[Ints, ...]] = []

    def add(self, prefixes: Ints, proposer: Ints, counts: Ints) -> None:
        self._new.append((prefixes, proposer, np.zeros(len(counts), np.int64), counts))
        self.left += int(counts.sum())
        self.waiting += len(counts)

    def draw(self, worker: int, rows: int) -> Drawn:
        if self._new:
            self._mix()
        prefixes, proposer, done, _ = self._held
        ends, begin = self._ends, self._drawn
        end = self._drawn = begin + rows
        number = np.arange(begin, end)
        index = np.searchsorted(ends, number, side="right")
        first, last = int(index[0]), int(index[-1])
        nth = done[index] + number - np.where(index > 0, ends[index - 1], 0)
        finished = last - first + int(end == ends[last])
        self.left -= rows
        self.waiting -= finished
        return Drawn(worker, prefixes[index], proposer[index], nth, last - first + 1, finished)

    def _mix(self) -> None:
        """Merge the prefixes that came since the last draw with those that are left, by a
        hash of the prefix.
        """
        parts = (
            [*self._new, self._rest()] if self.waiting > sum(len(new[0]) for new in self._new) else self._new
        )
        prefixes, proposer, done, counts = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        hashed = (prefixes.astype(np.uint64) @ _ODD[: prefixes.shape[1]]) * _ODD[-1]
        order = np.argsort(hashed, kind="stable")
        self._held = (prefixes[order], proposer[order], done[order], counts[order])
        self._ends = np.cumsum(counts[order])
        self._drawn = 0
        self._new = []

    def _rest(self) -> tuple[Ints, ...]:
        prefixes, proposer, done, counts = self._held
        first = int(np.searchsorted(self._ends, self._drawn, side="right"))
        gone = self._drawn - (int(self._ends[first - 1]) if first else 0)
        done, counts = done[first:].copy(), counts[first:].copy()
        done[0] += gone
        counts[0] -= gone
        return prefixes[first:], proposer[first:], done, counts


_ODD = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93], np.uint64)
