# mypy: allow-untyped-calls
"""Queries on servers, one event at a time, by name: place, remove, add a server, lose one, repair.

`Host` is the mutable object of this package; everything it decides follows from its rule, its state and the
numbers that ``draw`` returns. Law: a call that raises changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from headgate.errors import ConfigError, NoRoom
from headgate.hosting.balance import Balance, server_sizes
from headgate.hosting.decision import Decision, HostStatus, Move
from headgate.hosting.events import PLACE, REMOVE, apply_events
from headgate.hosting.online.explain import Explanation, explain
from headgate.hosting.online.rules import (
    DEFAULT_RULE,
    LeastQT,
    RareFirst,
    Reserved,
    Rule,
    interval_ends,
    rule_of,
)
from headgate.hosting.placement.name_table import NameTable
from headgate.hosting.placement.reference_counts import enlarged
from headgate.hosting.placement.state import (
    COST,
    FALLBACKS,
    QUERIES,
    RATE_IN_USE,
    SERVERS,
    TRAFFIC,
    add_queries,
    copied,
    new_state,
    with_server,
    with_spare_pool,
    without_server,
)
from headgate.hosting.refinement.two_way import REFINED, most_opened, refine_if_due, refine_placement
from headgate.hosting.repair.budget import DEFAULT_REPAIR, NO_REPAIR, Repair
from headgate.hosting.repair.search import MoveLog, new_move_log, repair_placement
from headgate.hosting.settings import Settings, Shares, settings_of
from headgate.hosting.workload import Workload, checked_cost, checked_rate, source_numbers

Asked = tuple[str, Iterable[str], float]
"""A query's name, its sources and its cost."""


class Host:
    """Hosts queries on servers.

    ``servers`` is their number, or a list of their sizes. ``repair`` is that of the rule if it is not given: the default
    rule moves a few queries after each event, and `NO_REPAIR` switches that off. ``draw`` returns numbers in [0, 1) for
    rules that choose at random.

    >>> host = Host({"road": 2.0, "rain": 1.0}, servers=2)
    >>> host.place("a", ["road", "rain"]).added_traffic, host.place("b", ["rain"]).added_traffic
    (3.0, 0.0)
    >>> host.remove("a"), host.status().traffic
    (2.0, 1.0)
    """

    def __init__(
        self,
        sources: Mapping[str, float],
        *,
        servers: int | Sequence[float],
        rule: Rule | str = DEFAULT_RULE,
        balance: Balance | None = None,
        repair: Repair | None = None,
        draw: Callable[[], float] | None = None,
    ) -> None:
        self.rule = rule_of(rule)
        self.balance = balance or Balance()
        self._repair = self.rule.repair if repair is None else repair
        if self.rule.draws and draw is None:
            raise ConfigError(
                f"rule {self.rule.name!r} needs random numbers: give draw=, "
                "for example numpy.random.default_rng(7).random"
            )
        self._draw = draw or (lambda: 0.0)
        self._names = NameTable()
        empty = Workload(np.zeros(0), np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0))
        self._state = new_state(
            empty,
            server_sizes(servers),
            count_types=False,
            list_readers=True,
            track_popularity=isinstance(self.rule, RareFirst),
        )
        if isinstance(self.rule, LeastQT):
            self._state = self._state._replace(hosted_types=enlarged(self._state.hosted_types, rows=1))
        for name, rate in sources.items():
            self.add_source(name, rate)
        self._shares = self._reserve()

    def _reserve(self) -> Shares:
        """Number the query types that have reserved shares before all others, and return these shares."""
        start, server, upto = [0], list[int](), list[float]()
        for names, by_server in (self.rule.shares if isinstance(self.rule, Reserved) else {}).items():
            numbers = source_numbers("(reserved)", names, self._names.sources)
            self._state, _ = self._names.with_type(self._state, numbers)
            for j in by_server:
                self._check_server(j)
            server += list(by_server)
            upto += interval_ends(by_server.values())
            start.append(len(server))
        self._names.reserved_types = len(start) - 1
        return start, server, upto

    def add_source(self, name: str, rate: float) -> None:
        """Add a source. Its rate cannot be changed later, because streams are charged by it."""
        if name in self._names.sources:
            raise ConfigError(f"source {name!r} is there already, and its rate is fixed: give another name")
        self._state = self._names.with_source(self._state, name, checked_rate(name, rate))

    def place(self, query: str, sources: Iterable[str], cost: float = 1.0) -> Decision:
        """Host a query until it is removed. The repair that follows may move it: `server_of` says where it is."""
        self._check_new(query)
        numbers = source_numbers(query, sources, self._names.sources)
        price = checked_cost(query, cost)
        state, query_type = self._names.with_type(self._state, numbers)
        self._state, slot = self._names.with_slot(state, query, query_type, price)
        try:
            return self._place_slot(query, slot)
        except NoRoom:
            self._names.free_slot(query)
            raise

    def place_many(self, queries: Sequence[Asked]) -> list[int]:
        """Host queries (name, sources, cost) as `place` does, one after the other, or none of them; return their servers.

        It is many times faster, except where rules draw numbers or servers can be full. Repair works as after single
        calls, and may examine queries in another order.
        """
        if self.rule.draws or not math.isinf(self.balance.capacity):
            placed = list[str]()
            try:
                for query, sources, cost in queries:
                    self.place(query, sources, cost)
                    placed.append(query)
            except BaseException:
                for query in placed:
                    self.remove(query)
                raise
            return [self.server_of(query) for query in placed]
        slots, settings = self._slots_for(queries), self._settings(self._repair)
        event, chance = np.full(len(queries), PLACE, np.int8), np.zeros(len(queries))
        servers, at = np.full(len(queries), -1, np.int64), 0
        while at < len(queries):
            self._state = with_spare_pool(self._state, most_opened(settings))
            at = apply_events(self._state, settings, event, slots, chance, servers, at)
        found: list[int] = self._state.server_of[slots].tolist()
        return found

    def adopt(self, query: str, sources: Iterable[str], server: int, cost: float = 1.0) -> None:
        """Host a query on the server where it ran before a restart, whatever the rule would choose now."""
        self.adopt_many([(query, sources, cost)], [server])

    def adopt_many(self, queries: Sequence[Asked], servers: Sequence[int]) -> None:
        """Host queries (name, sources, cost) on the servers where they ran before a restart: all of them or none."""
        for server in set(servers):
            self._check_server(server)
        slots = self._slots_for(queries)
        where = np.array(servers, np.int64)
        at = 0
        while at < len(queries):
            self._state = with_spare_pool(self._state, self._names.max_sources)
            at = add_queries(self._state, slots, where, self._names.max_sources, at)

    def _slots_for(self, queries: Sequence[Asked]) -> Any:
        """Slots for queries that are new."""
        known, names = self._names.sources, [query for query, _, _ in queries]
        new = set(names)
        if not self._names.slots.keys().isdisjoint(new):
            for query in names:
                self._check_new(query)
        if len(new) < len(queries):
            raise ConfigError("a query is listed twice: give each a name of its own")
        numbers = [source_numbers(query, sources, known) for query, sources, _ in queries]
        price = {cost: checked_cost(query, cost) for query, _, cost in reversed(queries)}
        costs = [price[cost] for _, _, cost in queries]
        types, state = list[int](), self._state
        for some in numbers:
            state, query_type = self._names.with_type(state, some)
            types.append(query_type)
        self._state, slots = self._names.with_slots(state, names, types, costs)
        return slots

    def remove(self, query: str) -> float:
        """Remove a query; return the traffic that this saves, including what the repair after it saves."""
        slot, before = self._slot_of(query), float(self._state.totals[TRAFFIC])
        self._apply(REMOVE, slot)
        self._names.free_slot(query)
        self._state = self._names.without_unused_types(self._state)
        self._mend()
        return before - float(self._state.totals[TRAFFIC])

    def add_server(self, size: float = 1.0) -> int:
        """Add a server; return its number."""
        self._state = with_server(self._state, float(server_sizes([size])[0]))
        return int(self._state.size.shape[0] - 1)

    def lose_server(self, server: int) -> list[Decision]:
        """Take a server away and place its queries again, in the order in which they arrived (MICE-26, MICE-E19)."""
        self._check_server(server)
        if len(self.servers) == 1:
            raise ConfigError(f"server {server} is the last one: add another before you take it away")
        before = None if math.isinf(self.balance.capacity) else copied(self._state)
        orphans = [
            (name, slot) for name, slot in self._names.slots.items() if self._state.server_of[slot] == server
        ]
        for _, slot in orphans:
            self._apply(REMOVE, slot)
        without_server(self._state, server)
        try:
            return [self._place_slot(name, slot) for name, slot in orphans]
        except NoRoom as error:
            assert before is not None
            self._state = before
            raise NoRoom(f"server {server} stays, since without it {error}") from None

    def repair(self, moves: int, examine: int | None = None) -> list[Move]:
        """Move at most so many queries. Before each move, examine so many hosted queries (default: all)."""
        budget = Repair(moves, len(self._names.slots) if examine is None else examine)
        return list(self._run_repair(budget.moves, budget.examine))

    def refine(self, moves: int, sample: int = DEFAULT_REPAIR.sample, *, seed: int) -> list[Move]:
        """Divide queries of two servers anew, and move at most so many of them (never more than 64). Traffic never rises.

        ``seed`` decides which servers are drawn, and which of their queries, if they host more than ``sample``: give
        another one each time.
        """
        settings = self._settings(Repair(moves, sample=sample, seed=seed))
        self._state = with_spare_pool(self._state, most_opened(settings))
        log = new_move_log(min(moves, REFINED))
        return list(self._by_name(log, refine_placement(self._state, settings, seed, moves, log)))

    def move(self, query: str, server: int) -> Move:
        """Have a query on a server, whatever rule and limits say."""
        self._check_server(server)
        slot, before = self._slot_of(query), float(self._state.totals[TRAFFIC])
        origin = self._apply(REMOVE, slot)
        self._state = with_spare_pool(self._state, self._names.max_sources)
        add_queries(self._state, np.array([slot]), np.array([server], np.int64), self._names.max_sources, 0)
        return Move((query,), origin, server, before - float(self._state.totals[TRAFFIC]))

    def explain(self, sources: Iterable[str], cost: float = 1.0) -> Explanation:
        """Say where a query of these sources would go now, and why: each server's room, added traffic and score."""
        numbers = source_numbers("(asked)", sources, self._names.sources)
        names = list(self._names.sources)
        return explain(
            self._state, self.rule, self._settings(), numbers, checked_cost("(asked)", cost), names
        )

    def server_of(self, query: str) -> int:
        """Return the server that hosts a query."""
        return int(self._state.server_of[self._slot_of(query)])

    @property
    def servers(self) -> tuple[int, ...]:
        """The numbers of the servers; those of lost servers are missing."""
        return tuple(int(j) for j in np.flatnonzero(self._state.size > 0))

    @property
    def queries(self) -> tuple[str, ...]:
        """The hosted queries, in the order in which they arrived."""
        return tuple(self._names.slots)

    def streams(self) -> dict[tuple[str, int], int]:
        """Return the open streams: (source, server) -> queries that read it there. Each is sent once (law 9)."""
        counts = self._state.streams
        return {
            (name, int(counts.server[at])): int(counts.count[at])
            for name, s in self._names.sources.items()
            for at in range(counts.start[s], counts.start[s] + counts.size[s])
        }

    def receivers(self) -> dict[str, list[int]]:
        """Return the servers that receive each source, in order. It costs the number of streams, not of queries."""
        counts = self._state.streams
        start, end = counts.start.tolist(), (counts.start + counts.size).tolist()
        return {
            name: sorted(counts.server[start[s] : end[s]].tolist()) for name, s in self._names.sources.items()
        }

    def status(self) -> HostStatus:
        """Return traffic, replication factor and loads as they are now."""
        totals = self._state.totals
        traffic, rate_in_use = float(totals[TRAFFIC]), float(totals[RATE_IN_USE])
        return HostStatus(
            queries=int(totals[QUERIES]),
            servers=int(totals[SERVERS]),
            traffic=traffic,
            rate_in_use=rate_in_use,
            replication=traffic / rate_in_use if rate_in_use else 1.0,
            loads={j: float(self._state.load[j]) for j in self.servers},
            fallbacks=int(totals[FALLBACKS]),
        )

    def limit_of(self, server: int) -> float:
        """Return what a server may hold by the balance limits, given the queries that are hosted now."""
        self._check_server(server)
        totals, size = self._state.totals, self._state.size
        limits = self.balance.online_limits(float(totals[COST]), int(totals[QUERIES]), size[size > 0])
        return float(limits[self.servers.index(server)])

    def _settings(self, repair: Repair = NO_REPAIR) -> Settings:
        """Return the settings of one event. Repair is a separate call here, because its moves are reported by name."""
        return settings_of(
            self.rule, self.balance, repair, max_sources=self._names.max_sources, shares=self._shares
        )

    def _apply(self, event: int, slot: int) -> int:
        """Carry out one event; return the server, or -1 if none could take the query."""
        self._state = with_spare_pool(self._state, self._names.max_sources)
        server = np.full(1, -1, np.int64)
        chance = np.array([self._draw() if event == PLACE and self.rule.draws else 0.0])
        apply_events(
            self._state, self._settings(), np.array([event], np.int8), np.array([slot]), chance, server, 0
        )
        return int(server[0])

    def _place_slot(self, query: str, slot: int) -> Decision:
        """Place a query that has a slot, then repair."""
        totals = self._state.totals
        traffic, fallbacks = float(totals[TRAFFIC]), float(totals[FALLBACKS])
        server = self._apply(PLACE, slot)
        totals = self._state.totals
        if server < 0:
            totals[FALLBACKS] = fallbacks
            raise NoRoom(
                f"query {query!r} of cost {self._state.cost[slot]:g} fits no server: {len(self.servers)} servers of "
                f"capacity {self.balance.capacity:g} hold {totals[COST]:g}; add a server or raise the capacity"
            )
        added, fallback = float(totals[TRAFFIC]) - traffic, bool(totals[FALLBACKS] > fallbacks)
        load, limit = float(self._state.load[server]), self.limit_of(server)
        return Decision(query, server, added, load, limit, fallback, self._mend())

    def _mend(self) -> tuple[Move, ...]:
        """Repair after an event, and refine if that is due."""
        made = self._run_repair(self._repair.moves, self._repair.examine)
        if self._repair.moves and self._repair.sample:
            settings = self._settings(self._repair)
            self._state = with_spare_pool(self._state, most_opened(settings))
            log = new_move_log(REFINED)
            made += self._by_name(log, refine_if_due(self._state, settings, log))
        return made

    def _run_repair(self, moves: int, examine: int) -> tuple[Move, ...]:
        """Repair within a budget; return the moves by name."""
        if not moves or not examine or not self._names.slots:
            return ()
        self._state = with_spare_pool(self._state, self._names.max_sources * (2 + 2 * moves))
        log = new_move_log(moves)
        return self._by_name(log, repair_placement(self._state, self._settings(), examine, log))

    def _by_name(self, log: MoveLog, moved: int) -> tuple[Move, ...]:
        """Return the moves of a log by name."""
        made = []
        for first in np.unique(log.first[:moved]):
            group = np.flatnonzero(log.first[:moved] == first)
            there, back = (
                tuple(self._names.name(int(slot)) for slot in log.query[group[log.server[group] == server]])
                for server in (log.server[first], log.origin[first])
            )
            saved = float(log.saved[first])
            made.append(Move(there, int(log.origin[first]), int(log.server[first]), saved, back))
        return tuple(made)

    def _slot_of(self, query: str) -> int:
        if query not in self._names.slots:
            raise ConfigError(f"query {query!r} is not hosted here")
        return self._names.slots[query]

    def _check_new(self, query: str) -> None:
        if query in self._names.slots:
            raise ConfigError(
                f"query {query!r} is hosted already, on server {self.server_of(query)}: remove it first"
            )

    def _check_server(self, server: int) -> None:
        if not 0 <= server < self._state.size.shape[0] or self._state.size[server] == 0:
            raise ConfigError(f"there is no server {server}: there are {', '.join(map(str, self.servers))}")
