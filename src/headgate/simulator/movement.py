"""Moving bins while the stream runs: quiesce, extract, transfer, install,
restart (Flux, section 5.2).

    controller -> both nodes      the donor broadcasts pause(bin) and goes on processing
    producers  -> donor           each stalls the bin, and sends an ack behind its last tuple
    donor                         has all acks: extracts the bin, hands it to its StateMover
    StateMover                    carries it in the background, within the bandwidth for moves
    receiver   -> all             installs it, and broadcasts restart(bin)

Law: a bin belongs to one node, or is being moved to one. None of its tuples are processed between
extraction and restart, and bins that do not move never wait for one that does.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headgate.ids import Bin, Channel
from headgate.routing.table import Move
from headgate.simulator.agenda import Action, Agenda
from headgate.simulator.node import Node
from headgate.simulator.plane import MOVES_AT_ONCE, Plane


@dataclass
class _Flight:
    pair: tuple[Channel, Channel]
    bits: float
    landed: Action


class StateMover:
    """Carries state between nodes: all transfers share one bandwidth, and those of a pair another."""

    def __init__(self, plane: Plane, agenda: Agenda) -> None:
        self._plane = plane
        self._agenda = agenda
        self._flights: list[_Flight] = []
        self._since = 0.0
        self._version = 0

    def send(self, source: Channel, target: Channel, size_bytes: int, landed: Action) -> None:
        """Transfer so many bytes, then call `landed`."""
        self._progress()
        self._flights.append(_Flight((source, target), 8.0 * size_bytes, landed))
        self._plan()

    def _rates(self) -> list[float]:
        cluster = self._plane.cluster
        pairs = Counter(flight.pair for flight in self._flights)
        fair = cluster.move_mbps / max(len(self._flights), 1)
        return [1e6 * min(fair, cluster.move_pair_mbps / pairs[flight.pair]) for flight in self._flights]

    def _progress(self) -> None:
        passed = self._plane.now - self._since
        self._since = self._plane.now
        for flight, rate in zip(self._flights, self._rates(), strict=True):
            flight.bits -= rate * passed

    def _plan(self) -> None:
        self._version += 1
        version = self._version
        if self._flights:
            rates = self._rates()
            soonest = min(flight.bits / rate for flight, rate in zip(self._flights, rates, strict=True))
            self._agenda.put(self._plane.now + max(soonest, 0.0), lambda: self._land(version))

    def _land(self, version: int) -> None:
        if version != self._version:
            return  # another transfer began in the meantime and made its own plan
        self._progress()
        landed = [flight for flight in self._flights if flight.bits <= 1.0]
        self._flights = [flight for flight in self._flights if flight.bits > 1.0]
        self._plan()
        for flight in landed:
            flight.landed()


class Movement:
    """Carries out the moves of a round."""

    def __init__(self, plane: Plane, agenda: Agenda, nodes: Sequence[Node]) -> None:
        self._plane = plane
        self._agenda = agenda
        self._nodes = nodes
        self._mover = StateMover(plane, agenda)
        self._waiting: dict[Channel, deque[Move]] = {node.number: deque() for node in nodes}
        self._under_way: dict[Bin, Move] = {}
        self._finished: Callable[[Move], None] = lambda move: None
        self.stalled_s: list[float] = []
        self._paused_at: dict[Bin, float] = {}

    @property
    def under_way(self) -> tuple[Move, ...]:
        """The moves that have begun and not ended."""
        return tuple(self._under_way.values())

    def start(self, moves: Sequence[Move], finished: Callable[[Move], None]) -> None:
        """Begin all moves; `finished` is called for each when the controller hears of its restart."""
        self._finished = finished
        for move in moves:
            self._waiting[move.source].append(move)
        for source in dict.fromkeys(move.source for move in moves):
            self._next(source)

    def quiesced(self, bin: Bin) -> None:
        """The donor has all acks of a bin."""
        move = self._under_way[bin]
        self._nodes[move.source].receive(lambda: self._extract(move))

    def _next(self, source: Channel) -> None:
        busy = sum(move.source == source for move in self._under_way.values())
        while self._waiting[source] and busy < MOVES_AT_ONCE:
            move = self._waiting[source].popleft()
            self._under_way[move.bin] = move
            busy += 1
            self._order(move)

    def _order(self, move: Move) -> None:
        donor = self._nodes[move.source]
        latency = self._plane.cluster.latency_s

        def begin() -> None:
            donor.leaving.add(move.bin)
            self._agenda.put(self._plane.now + latency, pause)

        def pause() -> None:
            self._paused_at[move.bin] = self._plane.now
            self._plane.pause(move.bin)
            if self._plane.cluster.drain_at_once:
                donor.tell(lambda: self._plane.drain(move.source))

        donor.tell(begin)

    def _extract(self, move: Move) -> None:
        self._plane.finish_run(move.source)
        if self._plane.cluster.drain_at_once:
            self._plane.settle(move.source, move.bin)
        donor, receiver = self._nodes[move.source], self._nodes[move.target]
        donor.give_up(move.bin)

        def landed() -> None:
            receiver.receive(lambda: self._install(move))

        def send() -> None:
            self._mover.send(move.source, move.target, self._plane.cluster.bin_bytes, landed)

        self._agenda.put(donor.free_at, send)

    def _install(self, move: Move) -> None:
        receiver = self._nodes[move.target]
        receiver.adopt(move.bin)
        self._agenda.put(receiver.free_at + self._plane.cluster.latency_s, lambda: self._restart(move))

    def _restart(self, move: Move) -> None:
        self._plane.restart(move.bin, move.target)
        self.stalled_s.append(self._plane.now - self._paused_at.pop(move.bin))
        del self._under_way[move.bin]
        self._next(move.source)
        self._finished(move)
