"""The controller: rounds of collecting and moving, damped (Flux, section 5.3), around the same
control loop as on Spark.

    collect(delta) -> all reports in -> decide -> no moves: delta = max(delta / 2, delta_min), collect
                                               -> moves, all restarted: delta = max(their time, delta_min), collect

A node's window begins when it hears of the round and ends `delta` later, or when it next has
control: a node that is busy with disk I/O makes all others wait (FLUX-E14). Law: no move phase is
longer than the collecting that follows it, so at most half of the time goes into moving.

With a `tuner`, delta_min depends on what the moves achieved; see `control.tuning`. The rule is that of
`control.damping`, which stages follow too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headgate.control.damping import next_delta
from headgate.control.loop import Decision, Loop
from headgate.control.report import BatchReport, BinReport, ChannelReport
from headgate.control.tuning import Tuner
from headgate.control.view import LoadView
from headgate.routing.table import Move, Table
from headgate.simulator.agenda import Agenda
from headgate.simulator.movement import Movement
from headgate.simulator.node import Node
from headgate.simulator.plane import Plane


@dataclass(frozen=True)
class Round:
    """One round: when it began, how long it collected and moved, and the moves."""

    began_s: float
    delta_s: float
    collect_s: float
    move_s: float
    moves: tuple[Move, ...]


class Controller:
    """Runs rounds for as long as the simulation lasts."""

    def __init__(
        self,
        plane: Plane,
        agenda: Agenda,
        nodes: Sequence[Node],
        movement: Movement,
        loop: Loop,
        *,
        delta_min_s: float,
        tuner: Tuner | None = None,
        record: Callable[[BatchReport, Decision], None] | None = None,
    ) -> None:
        self.rounds: list[Round] = []
        self.loop = loop
        self.delta_min_s = delta_min_s
        self._plane, self._agenda, self._nodes, self._movement = plane, agenda, nodes, movement
        self._tuner = tuner
        self._record = record
        self._delta = delta_min_s
        self._began = 0.0
        n = len(nodes)
        self._opened, self._idle = np.zeros(n), np.zeros(n)
        self._used, self._rows = np.zeros(n), np.zeros(plane.cluster.bins, np.int64)
        self._cost_ms = np.zeros(n)
        self._missing = 0
        self._sizes = dict.fromkeys(range(plane.cluster.bins), plane.cluster.bin_bytes)

    def begin(self) -> None:
        """Start a round: every node opens its window as soon as it hears of it."""
        self._began = self._plane.now
        self._missing = self.loop.table.channels
        self._agenda.put(self._plane.now + self._plane.cluster.latency_s, self._announce)

    def _announce(self) -> None:
        self._each(np.arange(self._missing), self._open)

    def _each(self, nodes: np.ndarray, action: Callable[[np.ndarray], None]) -> None:
        """Run an action on nodes: at once on those that have control, and on the others as soon
        as they have it.
        """
        free = self._plane.are_free(nodes)
        for node in nodes[~free]:
            alone = np.array([node])
            self._nodes[int(node)].receive(lambda alone=alone: action(alone))  # type: ignore[misc]
        if free.any():
            action(nodes[free])

    def _open(self, nodes: np.ndarray) -> None:
        a = self._plane.arrays
        self._opened[nodes] = self._plane.now
        self._idle[nodes] = a.idle[nodes]
        a.counts[self._bins_on(nodes)] = 0
        self._agenda.put(self._plane.now + self._delta, lambda: self._each(nodes, self._close))

    def _close(self, nodes: np.ndarray) -> None:
        a = self._plane.arrays
        length = np.maximum(self._plane.now - self._opened[nodes], self._plane.cluster.tick_s)
        self._used[nodes] = np.clip(1 - (a.idle[nodes] - self._idle[nodes]) / length, 0.0, 1.0)
        mine = self._bins_on(nodes)
        self._rows[mine] = a.counts[mine]
        self._missing -= len(nodes)
        if self._missing == 0:
            self._agenda.put(self._plane.now + self._plane.cluster.latency_s, self._decide)

    def _bins_on(self, nodes: np.ndarray) -> np.ndarray | slice:
        if len(nodes) == self.loop.table.channels:
            return slice(None)
        return np.isin(self._plane.arrays.route, nodes)

    def _decide(self) -> None:
        number, table = len(self.rounds), self.loop.table
        busy_ms = self._used * self._delta * 1e3
        work = np.bincount(self._plane.arrays.route, self._rows, minlength=len(self._nodes))
        self._cost_ms = np.where(work > 0, busy_ms / np.maximum(work, 1), self._cost_ms)
        if self._tuner is not None:
            self._tuner = self._tuner.saw(int(work.sum()), self._delta)
        if self.loop.view.alpha < 1 or self._record is not None:
            report = self._report(number, table, busy_ms, work)
            decision = self.loop.step(report)
            if self._record is not None:
                self._record(report, decision)
        else:  # without earlier reports to fold in, the view can be built directly
            decision = self.loop.decide(self._view(table), number)
        self._carry_out(_moves(decision) if decision.changed else ())

    def _carry_out(self, moves: tuple[Move, ...]) -> None:
        collected = self._plane.now - self._began
        started = self._plane.now
        left = len(moves)

        def end(move: Move | None = None) -> None:
            nonlocal left
            left -= move is not None
            if left:
                return
            moving = self._plane.now - started if moves else 0.0
            self.rounds.append(Round(self._began, self._delta, collected, moving, moves))
            if self._tuner is not None:
                self._tuner = self._tuner.moved(len(moves))
                self.delta_min_s = self._tuner.delta_min_s
            self._delta = next_delta(self._delta, moving, self.delta_min_s)
            self.begin()

        if moves:
            self._movement.start(moves, end)
        else:
            end()

    def _view(self, table: Table) -> LoadView:
        channels = range(table.channels)
        bins = range(len(self._rows))
        return LoadView(
            alpha=1.0,
            reports=len(self.rounds) + 1,
            bin_work=dict(zip(bins, self._rows.astype(float).tolist(), strict=True)),
            bin_bytes=self._sizes,
            channel_cost_ms={c: float(self._cost_ms[c]) for c in channels if self._cost_ms[c] > 0},
            utilization={c: float(self._used[c]) for c in channels},
            period_ms=self._delta * 1e3,
            memory_limit={c: int(limit) for c in channels if (limit := self._nodes[c].limit) is not None},
            on_disk=frozenset(np.flatnonzero(self._plane.arrays.on_disk).tolist()),
        )

    def _report(self, number: int, table: Table, busy_ms: np.ndarray, work: np.ndarray) -> BatchReport:
        a, cluster = self._plane.arrays, self._plane.cluster
        spooled = np.bincount(a.route, a.spooled, minlength=len(self._nodes)).astype(int)
        channels = tuple(
            ChannelReport(
                channel=c,
                rows=int(work[c]),
                out_rows=int(work[c]),
                busy_ms=float(busy_ms[c]),
                idle_ms=self._delta * 1e3 - float(busy_ms[c]),
                state_bytes=node.resident_bytes + node.disk_bytes,
                memory_limit=int(node.limit or 0),
                resident_bytes=node.resident_bytes,
                disk_bytes=node.disk_bytes,
                backlog_rows=int(spooled[c]),
                backlog_bytes=int(spooled[c]) * cluster.tuple_bytes,
            )
            for c, node in enumerate(self._nodes[: table.channels])
        )
        per_row = self._cost_ms[a.route]
        bins = tuple(
            BinReport(b, rows, rows * cost, cluster.bin_bytes, disk, waiting, waiting * cluster.tuple_bytes)
            for b, (rows, cost, disk, waiting) in enumerate(
                zip(
                    self._rows.tolist(), per_row.tolist(), a.on_disk.tolist(), a.spooled.tolist(), strict=True
                )
            )
        )
        return BatchReport(number, table.version, int(work.sum()), self._delta * 1e3, channels, bins)


def _moves(decision: Decision) -> tuple[Move, ...]:
    after = decision.table.assignment
    pairs = zip(decision.base.items(), after, strict=True)
    return tuple(Move(bin, source, target) for (bin, source), target in pairs if source != target)
