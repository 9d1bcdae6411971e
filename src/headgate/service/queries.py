"""Queries: what tenants registered. A query reads the results of its computation from the batch on in which it began."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headgate.errors import HeadgateError, NotFound, QueryRefused
from headgate.service.computations import Computations
from headgate.service.registry import Registry
from headgate.service.sources import Sources
from headgate.sql.prepare import Preparer

ACTIVE, PAUSED, FAILED = "active", "paused", "failed"
Changes = dict[str, list[Sequence[Any]]]


@dataclass(frozen=True, slots=True)
class Query:
    """A registered query. ``since`` is the batch from which it sees results; ``why`` says why it failed."""

    id: int
    tenant: str
    name: str
    text: str
    computation: int | None
    since: int
    state: str = ACTIVE
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """For people and clients."""
        return {
            "id": self.id,
            "name": self.name,
            "sql": self.text,
            "state": self.state,
            "why": self.why,
            "since": self.since,
        }


class Queries:
    """Queries by number."""

    def __init__(
        self, registry: Registry, sources: Sources, computations: Computations, preparer: Preparer
    ) -> None:
        self._registry, self._sources = registry, sources
        self._computations, self._preparer = computations, preparer
        rows = registry.read(
            "SELECT id, tenant, name, text, computation, since, state, why FROM queries ORDER BY id"
        )
        self.all = {row[0]: Query(*row) for row in rows}
        self._of: dict[str, dict[int, None]] = {}
        self._users: dict[int, set[int]] = {}
        for one in self.all.values():
            self._of.setdefault(one.tenant, {})[one.id] = None
            if one.computation is not None:
                self._users.setdefault(one.computation, set()).add(one.id)
        self._next = max(self.all, default=-1) + 1

    def register(self, tenant: str, wishes: Iterable[tuple[str, str]]) -> list[Query | HeadgateError]:
        """Register (text, name) pairs; each becomes a query or the reason why not. All are durable when this returns."""
        answers = list[Query | HeadgateError]()
        changes: Changes = {}
        made = list[Query]()
        for text, name in wishes:
            try:
                self._check_room(tenant, len(made))
                prepared = self._preparer.prepare(text, self._sources.kinds)
                computation = self._computations.need(prepared, changes)
            except HeadgateError as error:
                answers.append(error)
                continue
            one = Query(
                self._next, tenant, name or f"q{self._next}", text, computation, self._computations.upcoming
            )
            self._next += 1
            self._users.setdefault(computation, set()).add(one.id)
            made.append(one)
            answers.append(one)
        changes[_ADD] = [_row(one) for one in made]
        self._registry.write(*changes.items())
        for one in made:
            self.all[one.id] = one
            self._of.setdefault(tenant, {})[one.id] = None
        return answers

    def _check_room(self, tenant: str, more: int) -> None:
        most = self._preparer.limits.queries
        if len(self._of.get(tenant, ())) + more >= most:
            raise QueryRefused(
                f"tenant {tenant!r} has {most} queries, which is the most: remove some", "too-many-queries"
            )

    def get(self, tenant: str, number: int) -> Query:
        """A query of a tenant's own; anyone else's is not there."""
        one = self.all.get(number)
        if one is None or one.tenant != tenant:
            raise NotFound(f"there is no query {number}")
        return one

    def of(self, tenant: str, after: int = -1, limit: int = 100) -> list[Query]:
        """A tenant's queries in the order in which they came."""
        return [self.all[i] for i in self._of.get(tenant, ()) if i > after][:limit]

    def count(self, tenant: str | None = None) -> int:
        """How many there are."""
        return len(self.all) if tenant is None else len(self._of.get(tenant, ()))

    def sharing(self, computation: int) -> int:
        """How many queries are one computation."""
        return len(self._users.get(computation, ()))

    def remove(self, tenant: str, number: int) -> None:
        """Forget a query and its results."""
        one = self.get(tenant, number)
        changes: Changes = {_DROP: [(number,)]}
        self._leave(one, changes)
        self._registry.write(*changes.items())
        del self.all[number]
        del self._of[tenant][number]

    def pause(self, tenant: str, number: int) -> Query:
        """Let a query rest: it costs nothing, and its results until now stay readable no longer."""
        return self._become(self.get(tenant, number), PAUSED, "")

    def resume(self, tenant: str, number: int) -> Query:
        """Begin anew from the next batch on."""
        one = self.get(tenant, number)
        if one.state == ACTIVE:
            return one
        changes: Changes = {}
        prepared = self._preparer.prepare(one.text, self._sources.kinds)
        computation = self._computations.need(prepared, changes)
        self._users.setdefault(computation, set()).add(number)
        resumed = replace(
            one, computation=computation, since=self._computations.upcoming, state=ACTIVE, why=""
        )
        return self._save(resumed, changes)

    def fail(self, computation: int, why: str) -> list[Query]:
        """Stop the queries of a computation that could not be computed."""
        users = sorted(self._users.get(computation, ()))
        return [self._become(self.all[number], FAILED, why) for number in users]

    def _become(self, one: Query, state: str, why: str) -> Query:
        changes: Changes = {}
        self._leave(one, changes)
        return self._save(replace(one, computation=None, state=state, why=why), changes)

    def _save(self, one: Query, changes: Changes) -> Query:
        changes[_CHANGE] = [(one.computation, one.since, one.state, one.why, one.id)]
        self._registry.write(*changes.items())
        self.all[one.id] = one
        return one

    def _leave(self, one: Query, changes: Changes) -> None:
        if one.computation is None:
            return
        users = self._users[one.computation]
        users.discard(one.id)
        if not users:
            del self._users[one.computation]
            self._computations.drop(one.computation, changes)


_ADD = "INSERT INTO queries VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_DROP = "DELETE FROM queries WHERE id = ?"
_CHANGE = "UPDATE queries SET computation = ?, since = ?, state = ?, why = ? WHERE id = ?"


def _row(one: Query) -> tuple[Any, ...]:
    return (one.id, one.tenant, one.name, one.text, one.computation, one.since, one.state, one.why)
