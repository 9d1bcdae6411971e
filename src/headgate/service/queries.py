"""Queries: what tenants registered. A query reads the results of its computation from the batch on in which it began."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterable
from itertools import islice
from typing import Any, NamedTuple

from headgate.errors import HeadgateError, NotFound, QueryRefused
from headgate.service.computations import Computations
from headgate.service.registry import Change, Changes, Registry, damaged
from headgate.service.sharing import Sharing
from headgate.service.tenant_use import COMMON, number_of
from headgate.sql.limits import Limits
from headgate.sql.prepare import Prepared
from headgate.sql.template import Template
from headgate.sql.wording import in_users_words

FORGET_AFTER = 100
"""How many batches pass before starts that nobody needs are forgotten."""
ACTIVE, PAUSED, FAILED = "active", "paused", "failed"
Request = tuple[str, str, Prepared | HeadgateError]
"""Text, name, and what the text was read as, or why it was refused."""


class Query(NamedTuple):
    """A registered query, as its row in the registry. `since` is the first batch whose results it sees; `why` says why
    it failed.
    """

    id: int
    tenant: str
    name: str
    text: str
    computation: int | None
    """None while the query is paused or failed."""
    since: int
    state: str = ACTIVE
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data, as the HTTP API shows it."""
        return {
            "id": self.id,
            "name": self.name,
            "sql": self.text,
            "state": self.state,
            "why": self.why,
            "since": self.since,
        }


class Queries:
    """The queries of all tenants. Every change is durable when its method returns."""

    def __init__(self, registry: Registry, computations: Computations, limits: Limits) -> None:
        self._registry, self._computations = registry, computations
        self.limits_of: Callable[[str], Limits] = lambda tenant: limits
        rows = registry.read(
            "SELECT id, tenant, name, text, computation, since, state, why FROM queries ORDER BY id"
        )
        self.by_id = {row[0]: Query(*row) for row in rows}
        self.failed = {query.id: None for query in self.by_id.values() if query.state == FAILED}
        """The queries that failed, those that failed last at the end."""
        self._ids_of_tenant: dict[str, list[int]] = {}
        """In order."""
        self._begun = Counter(query.since for query in self.by_id.values())
        """By batch: how many queries began with it."""
        self._sharing = Sharing()
        self._templates_of_tenant: dict[str, Counter[int]] = {}
        """By tenant and template: how many queries run."""
        self._beginning: dict[int, set[int]] = {}
        """By batch: the sources of the queries that begin with it."""
        for query in self.by_id.values():
            self._ids_of_tenant.setdefault(query.tenant, []).append(query.id)
            if query.computation is not None:
                if query.computation not in computations.by_id:
                    raise damaged(
                        f"query {query.id} has computation {query.computation}, which is not in its table"
                    )
                self._join_computation(query)
        self._tenant_numbers: dict[str, int] = {}
        computations.owner_of = self._owner
        self._next_id = max(self.by_id, default=-1) + 1

    def register(
        self, tenant: str, requests: Iterable[Request], readable: Container[str]
    ) -> list[Query | HeadgateError]:
        """Register requests over the sources that the tenant may read now; each becomes a query, or the error that
        says why it was refused.
        """
        answers = list[Query | HeadgateError]()
        changes: Changes = {}
        added = list[Query]()
        computations, checked, running = self._computations, set[str](), set[str]()
        room = self.limits_of(tenant).queries - len(self._ids_of_tenant.get(tenant, ()))
        for text, name, prepared in requests:
            try:
                if isinstance(prepared, HeadgateError):
                    raise prepared
                if len(added) >= room:
                    raise self._too_many(tenant)
                if not checked.issuperset(prepared.sources):
                    _check_readable(prepared, readable)
                    checked.update(prepared.sources)
                if prepared.template.key not in running:
                    self._check_templates(tenant, prepared.template)
                    running.add(prepared.template.key)
                computation = computations.find_or_add(prepared, changes, tenant)
            except HeadgateError as error:
                answers.append(error)
                continue
            number, since = self._next_id, computations.begins(computation)
            query = Query(number, tenant, name or f"q{number}", text, computation, since)
            self._next_id += 1
            self._join_computation(query)
            added.append(query)
            answers.append(query)
        computations.place_added(changes)
        changes[_INSERT] = [*added]
        self._registry.write(*changes.items())
        if added:
            self.by_id.update((query.id, query) for query in added)
            self._ids_of_tenant.setdefault(tenant, []).extend(query.id for query in added)
            self._begun.update(query.since for query in added)
        return answers

    def _too_many(self, tenant: str) -> QueryRefused:
        limit = self.limits_of(tenant).queries
        return QueryRefused(
            f"tenant {tenant!r} already has {limit} queries, and no more are allowed (the limit is queries): remove some",
            "too-many-queries",
        )

    def _check_templates(self, tenant: str, template: Template) -> None:
        limit = self.limits_of(tenant).templates
        running = self._templates_of_tenant.get(tenant)
        if (
            running is not None
            and len(running) >= limit
            and self._computations.known_template(template) not in running
        ):
            raise QueryRefused(
                f"tenant {tenant!r} already has {limit} templates, and no more are allowed (the limit is templates): "
                "queries that differ only in their constants and sources share one; remove or pause some of the others",
                "too-many-templates",
            )

    def get(self, tenant: str, number: int) -> Query:
        """Find a tenant's own query; to a tenant, the queries of others do not exist."""
        query = self.by_id.get(number)
        if query is None or query.tenant != tenant:
            raise NotFound(f"there is no query {number}")
        return query

    def of_tenant(self, tenant: str, after: int = -1, limit: int = 100) -> list[Query]:
        """List a tenant's queries in the order of their registration."""
        ids = self._ids_of_tenant.get(tenant, [])
        begin = bisect_right(ids, after)
        return [self.by_id[i] for i in ids[begin : begin + limit]]

    def count(self, tenant: str | None = None) -> int:
        """How many queries a tenant has, or all tenants together."""
        return len(self.by_id) if tenant is None else len(self._ids_of_tenant.get(tenant, ()))

    def count_sharing(self, computation: int, tenant: str | None = None) -> int:
        """How many queries share a computation, of a tenant or of all."""
        sharing = self._sharing.of(computation)
        return len(sharing) if tenant is None else sum(self.by_id[i].tenant == tenant for i in sharing)

    @property
    def tenants(self) -> list[str]:
        """The tenants that have queries."""
        return sorted(self._ids_of_tenant)

    def remove(self, tenant: str, number: int) -> None:
        """Remove a query; its results can no longer be read."""
        query = self.get(tenant, number)
        changes: Changes = {_DELETE: [(number,)]}
        self._leave_computation(query, changes)
        self._registry.write(*changes.items())
        del self.by_id[number]
        self.failed.pop(number, None)
        ids = self._ids_of_tenant[tenant]
        del ids[bisect_left(ids, number)]
        self._forget_begun(query.since)

    def pause(self, tenant: str, number: int) -> Query:
        """Pause a query: it costs nothing, and its results so far can no longer be read."""
        return self._stop(self.get(tenant, number), PAUSED, "")

    def pause_all(self, tenant: str) -> None:
        """Pause all queries of a tenant that run, in one transaction."""
        changes: Changes = {_UPDATE: []}
        paused = list[Query]()
        for number in self._ids_of_tenant.get(tenant, ()):
            query = self.by_id[number]
            if query.state == ACTIVE:
                self._leave_computation(query, changes)
                paused.append(query._replace(computation=None, state=PAUSED))
        changes[_UPDATE] += [(None, query.since, PAUSED, query.why, query.id) for query in paused]
        self._registry.write(*changes.items())
        self.by_id |= {query.id: query for query in paused}

    def remove_all(self, tenant: str) -> None:
        """Remove all queries of a tenant, in one transaction."""
        numbers = list(self._ids_of_tenant.get(tenant, ()))
        changes: Changes = {_DELETE: [(number,) for number in numbers]}
        for number in numbers:
            self._leave_computation(self.by_id[number], changes)
        self._registry.write(*changes.items())
        for number in numbers:
            del self.by_id[number]
            self.failed.pop(number, None)
        self._ids_of_tenant.pop(tenant, None)

    def resume(self, tenant: str, number: int, prepared: Prepared, readable: Container[str]) -> Query:
        """Start a paused or failed query afresh from the next batch on; `prepared` is its text, read again."""
        query = self.get(tenant, number)
        if query.state == ACTIVE:
            return query
        changes: Changes = {}
        _check_readable(prepared, readable)
        self._check_templates(tenant, prepared.template)
        computation = self._computations.find_or_place(prepared, changes, tenant)
        since = self._computations.begins(computation)
        resumed = query._replace(computation=computation, since=since, state=ACTIVE, why="")
        self._join_computation(resumed)
        return self._save(resumed, changes)

    def fail(self, computation: int, why: str) -> list[Query]:
        """Stop all queries of a computation that failed, and record why."""
        numbers = sorted(self._sharing.of(computation))
        return [self._stop(self.by_id[number], FAILED, _storable(in_users_words(why))) for number in numbers]

    def _owner(self, computation: int) -> int:
        """The tenant who pays for a computation, as a number; if several share it, nobody does alone."""
        tenant = ""
        for number in self._sharing.of(computation):
            whose = self.by_id[number].tenant
            if tenant and whose != tenant:
                return COMMON
            tenant = whose
        if tenant not in self._tenant_numbers:
            self._tenant_numbers[tenant] = number_of(tenant)
        return self._tenant_numbers[tenant]

    def is_owned(self, computation: int, template: int, owner: int) -> bool:
        """Whether a computation is there, has this template, and is paid for by this tenant."""
        found = self._computations.by_id.get(computation)
        return found is not None and found.template == template and self._owner(computation) == owner

    def count_templates(self, tenant: str) -> int:
        """How many templates the running queries of a tenant have."""
        return len(self._templates_of_tenant.get(tenant, ()))

    def failed_last(self, most: int) -> list[Query]:
        """The queries that failed last, the latest first."""
        return [self.by_id[number] for number in islice(reversed(self.failed), most)]

    def fail_unreadable(self, tenant: str, source: int, why: str) -> list[Query]:
        """Stop all queries of a tenant that read a source."""
        own = [self.by_id[number] for number in self._ids_of_tenant.get(tenant, ())]
        reading = [
            q for q in own if q.computation is not None and self._computations.reads(q.computation, source)
        ]
        return [self._stop(query, FAILED, why) for query in reading]

    def begin_by(self, batch: int) -> None:
        """Have every query begin with this batch at the latest: all were registered before it takes its snapshot. Some
        were to begin later, because a batch was under way that has failed, or died with its process.
        """
        if max(self._begun, default=-1) <= batch:
            return
        changes: Changes = {_UPDATE: []}
        for query in [query for query in self.by_id.values() if query.since > batch]:
            changes[_UPDATE].append((query.computation, batch, query.state, query.why, query.id))
            if query.computation is not None:
                sources = self._computations.born_by(query.computation, batch, changes)
                self._beginning.setdefault(batch, set()).update(sources)
            self.by_id[query.id] = query._replace(since=batch)
            self._forget_begun(query.since)
            self._begun[batch] += 1
        self._beginning = {number: sources for number, sources in self._beginning.items() if number <= batch}
        self._registry.write(*changes.items())

    def sources_beginning(self, batch: int) -> set[int]:
        """The sources of the queries that begin with a batch. What came before it is forgotten."""
        for earlier in [number for number in self._beginning if number < batch]:
            del self._beginning[earlier]
        return self._beginning.get(batch, set())

    def starts_to_forget(self, batch: int) -> list[Change]:
        """Now and then: the starts with which no query began, or none that is left."""
        if batch % FORGET_AFTER:
            return []
        known = [row[0] for row in self._registry.read("SELECT batch FROM starts")]
        forgotten = [(number,) for number in known if number < batch and number not in self._begun]
        return [("DELETE FROM starts WHERE batch = ?", forgotten)]

    def _forget_begun(self, batch: int) -> None:
        """One query fewer began with a batch."""
        self._begun[batch] -= 1
        if not self._begun[batch]:
            del self._begun[batch]

    def _stop(self, query: Query, state: str, why: str) -> Query:
        changes: Changes = {}
        self._leave_computation(query, changes)
        return self._save(query._replace(computation=None, state=state, why=why), changes)

    def _save(self, query: Query, changes: Changes) -> Query:
        changes[_UPDATE] = [(query.computation, query.since, query.state, query.why, query.id)]
        self._registry.write(*changes.items())
        self._forget_begun(self.by_id[query.id].since)
        self._begun[query.since] += 1
        self.by_id[query.id] = query
        self.failed.pop(query.id, None)
        if query.state == FAILED:
            self.failed[query.id] = None
        return query

    def _join_computation(self, query: Query) -> None:
        assert query.computation is not None
        computation = self._computations.by_id[query.computation]
        self._computations.belongs(query.computation, query.tenant)
        sharing = self._sharing.add(query.computation, query.id)
        if sharing is not None:
            other = self.by_id.get(sharing)
            if other is not None and other.tenant != query.tenant:
                self._computations.refresh(query.computation)
        running = self._templates_of_tenant.get(query.tenant)
        if running is None:
            running = self._templates_of_tenant[query.tenant] = Counter()
        running[computation.template] += 1
        begun = self._beginning.get(query.since)
        if begun is None:
            begun = self._beginning[query.since] = set()
        begun.update(computation.sources)

    def _leave_computation(self, query: Query, changes: Changes) -> None:
        """Detach a query from its computation, and remove the computation if no other query shares it."""
        if query.computation is None:
            return
        sharing = self._sharing.remove(query.computation, query.id)
        template = self._computations.by_id[query.computation].template
        running = self._templates_of_tenant[query.tenant]
        running[template] -= 1
        if not running[template]:
            del running[template]
        if sharing is None:
            self._computations.remove(query.computation, changes)
        elif self.by_id[sharing].tenant != query.tenant:
            self._computations.refresh(query.computation)  # perhaps a single tenant pays for it now


_INSERT = "INSERT INTO queries VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_DELETE = "DELETE FROM queries WHERE id = ?"
_UPDATE = "UPDATE queries SET computation = ?, since = ?, state = ?, why = ? WHERE id = ?"


def _check_readable(prepared: Prepared, readable: Container[str]) -> None:
    """Refuse a query over a source whose grant was taken back after the text was read."""
    for name in prepared.sources:
        if name not in readable:
            raise QueryRefused(f"there is no source {name!r}", "unknown-source")


def _storable(text: str) -> str:
    """A reason without the characters that a database may refuse: it may quote a row."""
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()
