"""Computations: the distinct things that queries ask for, where they live, and what a batch is told about them.

Equal queries are one computation, placed once: placement sees the cost that sharing leaves. A computation is *born* at the batch from
which it sees rows; it is *here* on its server since a batch, which is later if it came from an *origin*.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from headgate.hosting import Host
from headgate.service.batch.hosted import Hosted, Keyed
from headgate.service.registry import Registry
from headgate.service.sources import Sources
from headgate.sql.prepare import Prepared
from headgate.sql.template import RUN_COLUMNS, Template


@dataclass(frozen=True, slots=True)
class Computation:
    """A template with constants, on a server."""

    id: int
    template: int
    sources: tuple[int, ...]
    constants: tuple[Any, ...]
    server: int
    born: int
    here: int
    origin: int | None = None

    def row(self) -> tuple[Any, ...]:
        """For the registry."""
        kept = (self.id, self.template, json.dumps(self.sources), json.dumps(self.constants))
        return (*kept, self.server, self.born, self.here, self.origin)


class Computations:
    """What runs. Changes return the registry's part of them; the caller writes it before it acknowledges anything."""

    def __init__(
        self,
        registry: Registry,
        sources: Sources,
        *,
        servers: int,
        host: Callable[..., Host] = Host,
        version: int = 0,
    ) -> None:
        self._registry, self._sources = registry, sources
        self.templates: dict[int, Template] = {}
        self._numbers: dict[str, int] = {}
        self.all: dict[int, Computation] = {}
        self._equal: dict[tuple[Any, ...], int] = {}
        self._tables: dict[Keyed, dict[int, Computation]] = {}
        self._built: dict[Keyed, tuple[int, pa.Table]] = {}
        self._wanted: list[list[int]] | None = None
        self._moved: set[int] = set()
        self.version = version
        """Of the tables of constants: one that was told never comes again for others."""
        self.upcoming = 0
        """The next batch that asks what is hosted: what changes now takes effect in it."""
        self._load(servers, host)

    def _load(self, servers: int, host: Callable[..., Host]) -> None:
        found = self._registry.read("SELECT id, alive FROM servers ORDER BY id")
        if not found:
            found = [(i, 1) for i in range(servers)]
            self._registry.write(("INSERT INTO servers VALUES (?, ?)", found))
        for number, key, text in self._registry.read("SELECT id, key, template FROM templates"):
            self.templates[number] = Template.from_json(json.loads(text))
            self._numbers[key] = number
        rows = self._registry.read(
            "SELECT id, template, sources, constants, server, born, here, origin FROM computations ORDER BY id"
        )
        kept = [
            Computation(r[0], r[1], tuple(json.loads(r[2])), tuple(json.loads(r[3])), *r[4:]) for r in rows
        ]
        self.next_id = max((one.id for one in kept), default=-1) + 1
        self.alive = {number for number, alive in found if alive}
        # The host begins with its servers in order, so those that are gone are there until they are taken away.
        self.host = host({}, servers=max(number for number, _ in found) + 1)
        for source in self._sources.by_name.values():
            self.host.add_source(source.name, source.rate)
        for number, alive in found:
            if not alive:
                self.host.lose_server(number)
        for one in kept:
            self.host.adopt(str(one.id), self._names(one.sources), one.server, self._cost(one.template))
            self._put(one)
            if one.origin is not None:
                self._moved.add(one.id)

    def _cost(self, template: int) -> float:
        return self.templates[template].cost / COST_UNIT

    def _names(self, numbers: Iterable[int]) -> list[str]:
        return [self._sources.names[n] for n in dict.fromkeys(numbers)]

    def _put(self, one: Computation) -> None:
        self._wanted = None
        self.all[one.id] = one
        self._equal[one.template, one.sources, one.constants] = one.id
        self._tables.setdefault((one.server, one.template), {})[one.id] = one
        self._built.pop((one.server, one.template), None)

    def _take(self, number: int) -> Computation:
        self._wanted = None
        one = self.all.pop(number)
        self._equal.pop((one.template, one.sources, one.constants), None)
        table = self._tables[one.server, one.template]
        del table[one.id]
        if not table:
            del self._tables[one.server, one.template]
        self._built.pop((one.server, one.template), None)
        return one

    # -- changes

    def need(self, prepared: Prepared, changes: dict[str, list[Sequence[Any]]]) -> int:
        """The computation of a query: an equal one if there is one, else a new one, placed now."""
        number = self._number(prepared.template, changes)
        sources = tuple(self._sources.by_name[name].id for name in prepared.sources)
        found = self._equal.get((number, sources, prepared.constants))
        if found is not None:
            return found
        fresh = self.next_id
        decision = self.host.place(str(fresh), self._names(sources), self._cost(number))
        self.next_id += 1
        one = Computation(
            fresh, number, sources, prepared.constants, decision.server, self.upcoming, self.upcoming
        )
        self._put(one)
        changes.setdefault(ADD, []).append(one.row())
        for move in decision.moves:
            for query in move.queries:
                self._move(int(query), move.server, changes)
        return fresh

    def _number(self, template: Template, changes: dict[str, list[Sequence[Any]]]) -> int:
        key = template.key
        if key not in self._numbers:
            number = len(self._numbers)
            self._numbers[key] = number
            self.templates[number] = template
            changes.setdefault(ADD_TEMPLATE, []).append((number, key, json.dumps(template.to_json())))
        return self._numbers[key]

    def drop(self, number: int, changes: dict[str, list[Sequence[Any]]]) -> None:
        """Let a computation go that no query needs."""
        self._take(number)
        self.host.remove(str(number))
        changes.setdefault(DROP, []).append((number,))

    def add_server(self) -> int:
        """Add a server; queries that come may go there."""
        server = self.host.add_server()
        self._registry.write(("INSERT INTO servers VALUES (?, 1)", [(server,)]))
        self.alive.add(server)
        return server

    def lose_server(self, server: int) -> list[int]:
        """Take a server away; its computations, which are returned, go elsewhere and keep their state."""
        changes: dict[str, list[Sequence[Any]]] = {}
        decisions = self.host.lose_server(server)
        for decision in decisions:
            self._move(int(decision.query), decision.server, changes)
        changes["UPDATE servers SET alive = 0 WHERE id = ?"] = [(server,)]
        self._registry.write(*changes.items())
        self.alive.discard(server)
        return [int(decision.query) for decision in decisions]

    def _move(self, number: int, server: int, changes: dict[str, list[Sequence[Any]]]) -> None:
        """From the next batch on elsewhere. Its state is where the last batch left it, however often it moves before the next."""
        one = self._take(number)
        unborn = one.born >= self.upcoming
        waiting = one.here >= self.upcoming
        origin = None if unborn else one.origin if waiting else one.server
        moved = replace(one, server=server, here=self.upcoming, origin=origin)
        self._put(moved)
        self._moved.add(number)
        changes.setdefault(MOVE, []).append((moved.server, moved.here, moved.origin, moved.id))

    # -- batches

    def hosted(self, batch: int) -> Hosted:
        """What is hosted where in a batch; later changes take effect in the next one."""
        self.upcoming = batch + 1
        constants: dict[Keyed, tuple[int, pa.Table]] = {}
        gained: dict[Keyed, dict[int, list[int]]] = {}
        for key, table in self._tables.items():
            constants[key] = self._table(key, table)
        for number in self._moved:
            one = self.all.get(number)
            if one and one.here == batch and one.origin is not None and one.origin != one.server:
                gained.setdefault((one.server, one.template), {}).setdefault(one.origin, []).append(one.id)
        used = {template for _, template in constants}
        return Hosted(
            servers=max(self.alive) + 1,
            alive=frozenset(self.alive),
            wanted=self.wanted(),
            templates={number: one for number, one in self.templates.items() if number in used},
            constants=constants,
            gained=gained,
            delay=self._sources.delays(),
        )

    def wanted(self) -> list[list[int]]:
        """By source: the servers that want its rows."""
        if self._wanted is None or len(self._wanted) != len(self._sources):
            servers: list[set[int]] = [set() for _ in range(len(self._sources))]
            for one in self.all.values():
                for source in one.sources:
                    servers[source].add(one.server)
            self._wanted = [sorted(found) for found in servers]
        return self._wanted

    def on(self, server: int) -> int:
        """How many are on a server."""
        return sum(len(table) for (where, _), table in self._tables.items() if where == server)

    def sharing(self, template: int) -> int:
        """How many have a template."""
        return sum(len(table) for (_, which), table in self._tables.items() if which == template)

    def settled(self, batch: int) -> None:
        """A batch is committed: what moved in it has arrived."""
        self._moved = {
            number for number in self._moved if number in self.all and self.all[number].here > batch
        }

    def _table(self, key: Keyed, table: dict[int, Computation]) -> tuple[int, pa.Table]:
        if key not in self._built:
            template = self.templates[key[1]]
            schema = pa.schema([f for f in template.constants_schema if f.name not in RUN_COLUMNS[2:]])
            many = list(table.values())
            columns: list[list[Any]] = [[one.id for one in many]]
            columns += [[one.sources[i] for one in many] for i in range(template.sources)]
            columns += [[one.constants[i] for one in many] for i in range(len(template.constants))]
            columns += [[one.born for one in many], [one.here for one in many]]
            arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
            self.version += 1
            self._built[key] = (self.version, pa.Table.from_arrays(arrays, schema=schema))
        return self._built[key]


COST_UNIT = 20.0
"""Cost of a plain query, which weighs 1 in a placement."""
ADD = "INSERT INTO computations VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
ADD_TEMPLATE = "INSERT INTO templates VALUES (?, ?, ?)"
DROP = "DELETE FROM computations WHERE id = ?"
MOVE = "UPDATE computations SET server = ?, here = ?, origin = ? WHERE id = ?"
