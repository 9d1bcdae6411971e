"""Computations: the distinct things that queries ask for, which server hosts each, and the snapshot that a batch gets.

Equal queries share one computation, which is placed once, so placement counts the cost that remains after sharing. A
computation is *born* at the first batch whose rows it sees. It moves when its server is lost, and when repair finds a
better server for it (`moves`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headgate.errors import HeadgateError
from headgate.hosting import NO_REPAIR, Host
from headgate.service.hosted_constants import Computation, HostedConstants
from headgate.service.moves import Moves
from headgate.service.registry import Changes, Registry, damaged
from headgate.service.snapshot import HostingSnapshot, ServerTemplate, Version
from headgate.service.sources import Sources
from headgate.sql.prepare import Prepared
from headgate.sql.template import Template

COST_UNIT = 20.0
"""The cost of a plain query, which weighs 1 in a placement."""
UNPLACED = -1
"""Takes a server's place while a computation has none."""
_INSERT = "INSERT INTO computations VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT_TEMPLATE = "INSERT INTO templates VALUES (?, ?, ?)"
_DELETE = "DELETE FROM computations WHERE id = ?"
_DELETE_TEMPLATE = "DELETE FROM templates WHERE id = ?"
_UPDATE_BORN = "UPDATE computations SET born = ?, here = ? WHERE id = ?"


class Computations:
    """The computations that run, and the servers that host them.

    A method that takes `changes` adds the registry's part of the change to it; the caller writes it before it
    acknowledges anything.
    """

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
        self._template_ids: dict[str, int] = {}
        self._uses: Counter[int] = Counter()
        """By template: how many computations have it."""
        self.by_id: dict[int, Computation] = {}
        self._id_of_definition: dict[tuple[Any, ...], int] = {}
        self._private: dict[int, tuple[Any, ...]] = {}
        """Computations that one tenant has alone, and their definitions with its name."""
        self._unused: set[int] = set()
        """Templates that no computation has."""
        self._hosted: dict[ServerTemplate, HostedConstants] = {}
        self._servers_of_source: list[list[int]] | None = None
        self._added: list[int] = []
        """New computations that are not placed yet."""
        self.owner_of: Callable[[int], int] = lambda number: 0
        """Gives the number of the tenant who pays for a computation."""
        self.unfit: dict[int, str] = {}
        """Computations that the last snapshots left out, and why; the service stops their queries."""
        self.version = version
        """The last version given to a table of constants; no two tables share one."""
        self.next_batch = 0
        """The next batch that takes a snapshot: changes made now have effect from it on."""
        self._load(servers, host)
        self.moves = Moves(self, registry)

    def _load(self, servers: int, host: Callable[..., Host]) -> None:
        known_servers = self._registry.read("SELECT id, alive FROM servers ORDER BY id")
        if not known_servers:
            known_servers = [(number, 1) for number in range(servers)]
            self._registry.write(("INSERT INTO servers VALUES (?, ?)", known_servers))
        for number, text in self._registry.read("SELECT id, template FROM templates"):
            template = self.templates[number] = Template.from_json(json.loads(text))
            self._template_ids[template.key] = (
                number  # not as it was stored: an older version may have written it
            )
        self._newest = max(self.templates, default=-1)
        self._unused = set(self.templates)
        rows = self._registry.read(
            "SELECT id, template, sources, constants, server, born, here FROM computations ORDER BY id"
        )
        once: dict[str, tuple[Any, ...]] = {}  # few texts differ

        def values(text: str) -> tuple[Any, ...]:
            found = once.get(text)
            if found is None:
                found = once[text] = tuple(json.loads(text))
            return found

        computations = [
            Computation(r[0], r[1], values(r[2]), values(r[3]), r[4], r[5], r[6], r[6]) for r in rows
        ]
        del rows
        self._next_id = max((computation.id for computation in computations), default=-1) + 1
        self.alive = {number for number, alive in known_servers if alive}
        # A host numbers its servers from 0 without gaps, so it begins with the lost ones too, and loses them at once.
        self.host = host({}, servers=max(number for number, _ in known_servers) + 1, repair=NO_REPAIR)
        for source in self._sources.by_name.values():
            self.host.add_source(source.name, source.rate)
        for number, alive in known_servers:
            if not alive:
                self.host.lose_server(number)
        known = {number for number, _ in known_servers}
        for computation in computations:
            self._check(computation, known)
        self.host.adopt_many(list(map(self._asked, computations)), [c.server for c in computations])
        for computation in computations:
            self._insert(computation)

    def _check(self, computation: Computation, servers: set[int]) -> None:
        """Refuse a computation that names what the other tables lack."""
        who, sources = f"computation {computation.id}", len(self._sources)
        if computation.template not in self.templates:
            raise damaged(f"{who} has template {computation.template}, which is not in its table")
        if not all(0 <= source < sources for source in computation.sources):
            raise damaged(f"{who} reads sources {list(computation.sources)}, and there are {sources}")
        if computation.server not in servers:
            raise damaged(f"{who} is on server {computation.server}, which is not in its table")

    def _cost(self, template: int) -> float:
        return self.templates[template].cost / COST_UNIT

    def _insert(self, computation: Computation) -> None:
        key = (computation.server, computation.template)
        self._servers_of_source = None
        self.by_id[computation.id] = computation
        if not self.templates[computation.template].remembers:
            self._id_of_definition[computation.definition] = computation.id
        hosted = self._hosted.get(key)
        if hosted is None:
            hosted = self._hosted[key] = HostedConstants(self.templates[computation.template])
        hosted.add(computation)
        self._uses[computation.template] += 1
        self._unused.discard(computation.template)

    def _pop(self, number: int) -> Computation:
        computation = self.by_id.pop(number)
        key = (computation.server, computation.template)
        self._servers_of_source = None
        self._id_of_definition.pop(self._private.pop(number, computation.definition), None)
        self._uses[computation.template] -= 1
        if not self._uses[computation.template]:
            self._unused.add(computation.template)
        self._hosted[key].remove(number)
        if not len(self._hosted[key]):
            del self._hosted[key]
        return computation

    def refresh(self, number: int) -> None:
        """Take note that another tenant pays for a computation."""
        computation = self.by_id[number]
        self._hosted[computation.server, computation.template].refresh(number)

    # -- changes

    def find_or_place(self, prepared: Prepared, changes: Changes, tenant: str = "") -> int:
        """Return the computation of a tenant's query: an equal one if there is one, else a new one, placed now."""
        number = self.find_or_add(prepared, changes, tenant)
        self.place_added(changes)
        return number

    def belongs(self, number: int, tenant: str) -> None:
        """Take note whose a computation is. One that remembers is shared by the queries of one tenant only: another's
        would see that it was there before, and what came then.
        """
        computation = self.by_id[number]
        if number not in self._private and self.templates[computation.template].remembers:
            key = self._private[number] = (*computation.definition, tenant)
            self._id_of_definition.setdefault(key, number)

    def find_or_add(self, prepared: Prepared, changes: Changes, tenant: str = "") -> int:
        """Return the computation of a tenant's query: an equal one if there is one, else a new one, which `place_added`
        places with all others that were added since.
        """
        template = self._template_id(prepared.template, changes)
        by_name = self._sources.by_name
        sources = tuple([by_name[name].id for name in prepared.sources])
        definition: tuple[Any, ...] = (template, sources, prepared.constants)
        if prepared.template.remembers:
            definition = (*definition, tenant)
        equal = self._id_of_definition.get(definition)
        if equal is not None:
            return equal
        number = self._next_id
        self._next_id += 1
        self._id_of_definition[definition] = number
        self.by_id[number] = Computation(
            number, template, sources, prepared.constants, UNPLACED, *3 * (self.next_batch,)
        )
        self._added.append(number)
        return number

    def place_added(self, changes: Changes) -> None:
        """Place the computations that were added."""
        added, self._added = self._added, []
        if not added:
            return
        try:
            servers = self.host.place_many([self._asked(self.by_id[number]) for number in added])
        except HeadgateError:
            self._registry.in_doubt = True  # memory has what the registry will not have
            raise
        rows = changes.setdefault(_INSERT, [])
        for number, server in zip(added, servers, strict=True):
            _, template, sources, constants, _, born, here, since = self.by_id[number]
            computation = Computation(number, template, sources, constants, server, born, here, since)
            self._insert(computation)
            rows.append(computation.row())

    def _asked(self, computation: Computation) -> tuple[str, list[str], float]:
        """What the host has to know of a computation."""
        names = self._sources.names
        read = [names[number] for number in computation.sources]
        return str(computation.id), read, self._cost(computation.template)

    def _template_id(self, template: Template, changes: Changes) -> int:
        key = template.key
        known = self._template_ids.get(key)
        if known is not None:
            return known
        self._newest += 1
        number = self._newest
        self._unused.add(number)
        self._template_ids[key] = number
        self.templates[number] = template
        changes.setdefault(_INSERT_TEMPLATE, []).append((number, key, json.dumps(template.to_json())))
        return number

    def known_template(self, template: Template) -> int | None:
        """The number of a template, if there is an equal one."""
        return self._template_ids.get(template.key)

    def reads(self, number: int, source: int) -> bool:
        """Whether a computation reads a source."""
        return source in self.by_id[number].sources

    def born_by(self, number: int, batch: int, changes: Changes) -> tuple[int, ...]:
        """Have a computation see the rows of this batch, if it was to be born later; returns its sources."""
        computation = self.by_id[number]
        if computation.born > batch:
            self.by_id[number] = computation = computation._replace(born=batch, here=batch, since=batch)
            self._hosted[computation.server, computation.template].replace(computation)
            changes.setdefault(_UPDATE_BORN, []).append((batch, batch, number))
        return computation.sources

    def begins(self, number: int) -> int:
        """The first batch whose results a query of a computation may see, if it is registered now. A computation
        that was registered while a batch failed is born later than the batch that is tried again.
        """
        return max(self.next_batch, self.by_id[number].born)

    def remove(self, number: int, changes: Changes) -> None:
        """Remove a computation that no query needs any more, and templates that no computation needs. The newest
        template stays, so that no number is given twice: state is stored by it.
        """
        self._pop(number)
        self.moves.forget(number)
        for template in sorted(self._unused):
            if template != self._newest:
                self._unused.discard(template)
                del self._template_ids[self.templates.pop(template).key]
                changes.setdefault(_DELETE_TEMPLATE, []).append((template,))
        self.host.remove(str(number))
        changes.setdefault(_DELETE, []).append((number,))

    def add_server(self) -> int:
        """Add a server; queries registered from now on may be placed there."""
        server = self.host.add_server()
        self._registry.write(("INSERT INTO servers VALUES (?, 1)", [(server,)]))
        self.alive.add(server)
        return server

    def lose_server(self, server: int) -> list[int]:
        """Remove a server; returns its computations, which move to other servers and keep their state."""
        changes: Changes = {}
        decisions = self.host.lose_server(server)
        for decision in decisions:
            self.put(int(decision.query), decision.server)
        self.moves.lost(server, (int(decision.query) for decision in decisions), changes)
        changes["UPDATE servers SET alive = 0 WHERE id = ?"] = [(server,)]
        self._registry.write(*changes.items())
        self.alive.discard(server)
        return [int(decision.query) for decision in decisions]

    def put(self, number: int, server: int, *, here: int | None = None, since: int | None = None) -> None:
        """Have a computation on a server, as the host has it already."""
        private, c = self._private.get(number), self._pop(number)
        here, since = c.here if here is None else here, c.since if since is None else since
        self._insert(c._replace(server=server, here=here, since=since))
        if private is not None:
            self._private[number] = private
            self._id_of_definition.setdefault(private, number)

    # -- batches

    def snapshot(self, batch: int) -> HostingSnapshot:
        """What the servers host in a batch; later changes have effect from the next batch on."""
        self.next_batch = batch + 1
        constants = {key: self._constants_table(key) for key in self._hosted}
        used = {template for _, template in constants}
        return HostingSnapshot(
            servers=max(self.alive) + 1,
            alive=frozenset(self.alive),
            servers_of_source=self.servers_of_source(),
            templates={number: template for number, template in self.templates.items() if number in used},
            constants=constants,
            delay_us=self._sources.delays_us(),
            moving=self.moves.origins(),
            moves=self.moves.targets(),
        )

    def servers_of_source(self) -> list[list[int]]:
        """By source number: the servers that host a computation over it."""
        if self._servers_of_source is None or len(self._servers_of_source) != len(self._sources):
            receiving = self.host.receivers()
            self._servers_of_source = [receiving[name] for name in self._sources.names]
        return self._servers_of_source

    def rows_of(self, key: ServerTemplate) -> int:
        """How many computations of a template a server hosts."""
        return len(self._hosted.get(key, ()))

    def count_on_server(self, server: int) -> int:
        """How many computations a server hosts."""
        return sum(len(hosted) for (where, _), hosted in self._hosted.items() if where == server)

    def count_of_template(self, template: int) -> int:
        """How many computations share a template."""
        return sum(len(hosted) for (_, which), hosted in self._hosted.items() if which == template)

    def _constants_table(self, key: ServerTemplate) -> tuple[Version, pa.Table]:
        hosted = self._hosted[key]
        if hosted.changed:
            self.unfit |= hosted.build(self.owner_of)
            self.version += 1
            hosted.version = self.version
        return (hosted.version,), hosted.table
