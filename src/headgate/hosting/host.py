# mypy: allow-untyped-calls
"""Queries on servers, one event at a time, by name: place, remove, add a server, lose one, repair.

`Host` is the mutable object of this layer; all it decides comes from its rule, its books and the numbers that ``draw``
gives. Law: a call that raises leaves everything as it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headgate.errors import ConfigError, NoRoom
from headgate.hosting.balance import Balance
from headgate.hosting.events import PLACE, REMOVE, play
from headgate.hosting.online.explain import Explanation, explained
from headgate.hosting.online.rules import DEFAULT, LeastQT, RareFirst, Reserved, Rule, rule_of, spread_of
from headgate.hosting.online.select_server import Frame
from headgate.hosting.placement import state as book
from headgate.hosting.placement.name_table import Roster
from headgate.hosting.placement.reference_counts import widened
from headgate.hosting.placement.state import COST, FALLBACKS, NEEDED, QUERIES, SERVERS, TRAFFIC
from headgate.hosting.repair.search import new_log, repair
from headgate.hosting.workload import Floats, Workload, checked_cost, checked_rate, known_sources


@dataclass(frozen=True)
class Move:
    """Queries moved together to another server, and the traffic that this saved: 0 where it only readies a stream to be closed."""

    queries: tuple[str, ...]
    origin: int
    server: int
    saved_traffic: float


@dataclass(frozen=True)
class Decision:
    """Where a query went, the traffic that added, and the server's load and limit at that moment.

    ``fallback`` says that no server was within the balance limit, so the least filled took it (MICE-E1); ``moves`` what the
    repair after it did.
    """

    query: str
    server: int
    added_traffic: float
    load: float
    limit: float
    fallback: bool = False
    moves: tuple[Move, ...] = ()


@dataclass(frozen=True)
class Repair:
    """After each event move at most ``moves`` queries, each time the best for ``look`` hosted ones, which are looked at in turn.

    A query moves alone, or with those on its server that share a rare source with it. Best is what lowers the smoothed
    traffic most for each query moved; no move raises the real one.
    """

    moves: int = 8
    look: int = 8

    def __post_init__(self) -> None:
        if self.moves < 0 or self.look < 0:
            raise ConfigError(f"moves={self.moves}, look={self.look}: numbers of queries, 0 or more")


@dataclass(frozen=True)
class Standing:
    """How a placement stands: replication factor = traffic / rate of the sources in use (MICE-31, MICE-E16)."""

    queries: int
    servers: int
    traffic: float
    needed: float
    replication: float
    loads: Mapping[int, float]
    fallbacks: int


class Host:
    """Hosts queries on servers.

    ``servers`` is how many, or their sizes. ``draw`` gives numbers in [0, 1) to rules that need chance.

    >>> host = Host({"road": 2.0, "rain": 1.0}, servers=2)
    >>> host.place("a", ["road", "rain"]).added_traffic, host.place("b", ["rain"]).added_traffic
    (3.0, 0.0)
    >>> host.remove("a"), host.standing().traffic
    (2.0, 1.0)
    """

    def __init__(
        self,
        sources: Mapping[str, float],
        *,
        servers: int | Sequence[float],
        rule: Rule | str = DEFAULT,
        balance: Balance | None = None,
        repair: Repair | None = None,
        draw: Callable[[], float] | None = None,
    ) -> None:
        self.rule = rule_of(rule)
        self.balance = balance or Balance()
        self._repair = repair or Repair(moves=0)
        if self.rule.draws and draw is None:
            raise ConfigError(
                f"rule {self.rule.name!r} needs chance: give draw=, for example numpy.random.default_rng(7).random"
            )
        self._draw = draw or (lambda: 0.0)
        self._roster = Roster()
        nothing = Workload(np.zeros(0), np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0))
        self._books = book.open_books(
            nothing,
            sizes_of(servers),
            count_types=False,
            repairs=True,
            reaches=isinstance(self.rule, RareFirst),
        )
        if isinstance(self.rule, LeastQT):
            self._books = self._books._replace(hosted=widened(self._books.hosted, rows=1))
        for name, rate in sources.items():
            self.add_source(name, rate)
        self._shares = self._reserve()

    def _reserve(self) -> tuple[list[int], list[int], list[float]]:
        """Number the reserved types first, and return their shares."""
        start, server, upto = [0], list[int](), list[float]()
        for names, by_server in (self.rule.shares if isinstance(self.rule, Reserved) else {}).items():
            members = known_sources("(reserved)", names, self._roster.sources)
            self._books, _ = self._roster.with_type(self._books, members)
            for j in by_server:
                self._live(j)
            server += list(by_server)
            upto += spread_of(by_server.values())
            start.append(len(server))
        self._roster.kept = len(start) - 1
        return start, server, upto

    def add_source(self, name: str, rate: float) -> None:
        """Make a source known. Its rate stays: streams are charged by it."""
        if name in self._roster.sources:
            raise ConfigError(f"source {name!r} is there already, with its rate: give another name")
        self._books = self._roster.with_source(self._books, name, checked_rate(name, rate))

    def place(self, query: str, sources: Iterable[str], cost: float = 1.0) -> Decision:
        """Host a query for as long as it lives."""
        if query in self._roster.slots:
            raise ConfigError(
                f"query {query!r} is hosted already, on server {self.server_of(query)}: remove it first"
            )
        members = known_sources(query, sources, self._roster.sources)
        price = checked_cost(query, cost)
        books, kind = self._roster.with_type(self._books, members)
        self._books, slot = self._roster.with_slot(books, query, kind, price)
        try:
            return self._settle(query, slot)
        except NoRoom:
            self._roster.let_go(query)
            raise

    def adopt(self, query: str, sources: Iterable[str], server: int, cost: float = 1.0) -> None:
        """Host a query on the server that it was placed on before, whatever the rule would say now: for a restart."""
        if query in self._roster.slots:
            raise ConfigError(
                f"query {query!r} is hosted already, on server {self.server_of(query)}: remove it first"
            )
        self._live(server)
        members = known_sources(query, sources, self._roster.sources)
        books, kind = self._roster.with_type(self._books, members)
        books, slot = self._roster.with_slot(books, query, kind, checked_cost(query, cost))
        self._books = book.with_room(books, self._roster.widest)
        book.enter(self._books, slot, server)

    def remove(self, query: str) -> float:
        """Let a query go; return the traffic that this saves, repair included."""
        slot, before = self._known(query), float(self._books.totals[TRAFFIC])
        self._event(REMOVE, slot)
        self._roster.let_go(query)
        self._books = self._roster.tidied(self._books)
        self._mend(self._repair.moves, self._repair.look)
        return before - float(self._books.totals[TRAFFIC])

    def add_server(self, size: float = 1.0) -> int:
        """Add a server; return its number."""
        self._books = book.with_server(self._books, float(sizes_of([size])[0]))
        return int(self._books.size.shape[0] - 1)

    def lose_server(self, server: int) -> list[Decision]:
        """Take a server away and place its queries again, in the order in which they came (MICE-26, MICE-E19)."""
        self._live(server)
        if len(self.servers) == 1:
            raise ConfigError(f"server {server} is the last one: add another before this one goes")
        before = None if math.isinf(self.balance.capacity) else book.copied(self._books)
        orphans = [
            (name, slot) for name, slot in self._roster.slots.items() if self._books.server_of[slot] == server
        ]
        for _, slot in orphans:
            self._event(REMOVE, slot)
        book.without_server(self._books, server)
        try:
            return [self._settle(name, slot) for name, slot in orphans]
        except NoRoom as error:
            assert before is not None
            self._books = before
            raise NoRoom(f"server {server} stays, since without it {error}") from None

    def repair(self, moves: int, look: int | None = None) -> list[Move]:
        """Move at most so many queries, each time the best for so many hosted ones (all of them, if not said)."""
        wanted = Repair(moves, len(self._roster.slots) if look is None else look)
        return list(self._mend(wanted.moves, wanted.look))

    def explain(self, sources: Iterable[str], cost: float = 1.0) -> Explanation:
        """Say where a query of these sources would go now, and why: every server with its room, added traffic and score."""
        members = known_sources("(asked)", sources, self._roster.sources)
        names = list(self._roster.sources)
        return explained(self._books, self.rule, self._frame(), members, checked_cost("(asked)", cost), names)

    def server_of(self, query: str) -> int:
        """Return the server that hosts a query."""
        return int(self._books.server_of[self._known(query)])

    @property
    def servers(self) -> tuple[int, ...]:
        """The servers that are there."""
        return tuple(int(j) for j in np.flatnonzero(self._books.size > 0))

    @property
    def queries(self) -> tuple[str, ...]:
        """The queries that are hosted, in the order in which they came."""
        return tuple(self._roster.slots)

    def streams(self) -> dict[tuple[str, int], int]:
        """Return the streams in being: (source, server) -> queries that read it there. Each is sent once (law 9)."""
        pairs = self._books.streams
        return {
            (name, int(pairs.server[at])): int(pairs.count[at])
            for name, s in self._roster.sources.items()
            for at in range(pairs.start[s], pairs.start[s] + pairs.size[s])
        }

    def standing(self) -> Standing:
        """Return traffic, replication factor and loads as they are now."""
        totals = self._books.totals
        traffic, needed = float(totals[TRAFFIC]), float(totals[NEEDED])
        return Standing(
            queries=int(totals[QUERIES]),
            servers=int(totals[SERVERS]),
            traffic=traffic,
            needed=needed,
            replication=traffic / needed if needed else 1.0,
            loads={j: float(self._books.load[j]) for j in self.servers},
            fallbacks=int(totals[FALLBACKS]),
        )

    def limit_of(self, server: int) -> float:
        """Return the most that a server may hold by the balance limits, with the queries that are here now."""
        self._live(server)
        totals, size = self._books.totals, self._books.size
        limits = self.balance.limits(float(totals[COST]), int(totals[QUERIES]), size[size > 0])
        return float(limits[self.servers.index(server)])

    def _frame(self, moves: int = 0) -> Frame:
        start, server, upto = self._shares
        limits = self.balance
        return Frame(
            self.rule.code, self.rule.parameter, limits.relative, limits.absolute, limits.capacity,
            moves, self._repair.look, self._roster.widest,
            np.array(start, np.int64), np.array(server, np.int32), np.array(upto, np.float64),
        )  # fmt: skip

    def _event(self, act: int, slot: int) -> int:
        """Carry out one event; return the server, or -1 if none could take the query."""
        self._books = book.with_room(self._books, self._roster.widest)
        server = np.full(1, -1, np.int64)
        chance = np.array([self._draw() if act == PLACE and self.rule.draws else 0.0])
        play(self._books, self._frame(), np.array([act], np.int8), np.array([slot]), chance, server, 0)
        return int(server[0])

    def _settle(self, query: str, slot: int) -> Decision:
        """Find a server for a query that has a slot."""
        totals = self._books.totals
        traffic, fallbacks = float(totals[TRAFFIC]), float(totals[FALLBACKS])
        server = self._event(PLACE, slot)
        totals = self._books.totals
        if server < 0:
            totals[FALLBACKS] = fallbacks
            raise NoRoom(
                f"query {query!r} of cost {self._books.cost[slot]:g} fits no server: {len(self.servers)} servers of capacity "
                f"{self.balance.capacity:g} hold {totals[COST]:g}; add a server or raise the capacity"
            )
        added, fell = float(totals[TRAFFIC]) - traffic, bool(totals[FALLBACKS] > fallbacks)
        load, limit = float(self._books.load[server]), self.limit_of(server)
        return Decision(
            query, server, added, load, limit, fell, self._mend(self._repair.moves, self._repair.look)
        )

    def _mend(self, moves: int, look: int) -> tuple[Move, ...]:
        if not moves or not look:
            return ()
        self._books = book.with_room(self._books, self._roster.widest * moves)
        log = new_log(moves)
        done = repair(self._books, self._frame(), look, log)
        moves_made = []
        for first in np.unique(log.first[:done]):
            together = np.flatnonzero(log.first[:done] == first)
            names = tuple(self._roster.name(int(q)) for q in log.query[together])
            moves_made.append(
                Move(names, int(log.origin[first]), int(log.server[first]), float(log.saved[first]))
            )
        return tuple(moves_made)

    def _known(self, query: str) -> int:
        if query not in self._roster.slots:
            raise ConfigError(f"query {query!r} is not hosted here")
        return self._roster.slots[query]

    def _live(self, server: int) -> None:
        if not 0 <= server < self._books.size.shape[0] or self._books.size[server] == 0:
            raise ConfigError(f"there is no server {server}: there are {', '.join(map(str, self.servers))}")


def sizes_of(servers: int | Sequence[float]) -> Floats:
    """Return the sizes of servers, given how many or given them."""
    sizes = np.ones(max(servers, 0)) if isinstance(servers, int) else np.array(servers, dtype=np.float64)
    if sizes.shape[0] == 0:
        raise ConfigError(f"servers={servers!r}: there must be at least one")
    if not np.all(np.isfinite(sizes)) or sizes.min() <= 0:
        raise ConfigError(f"servers={servers!r}: a size is a number above 0")
    return sizes
