"""Which sources have the results of a query, as the registry keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.errors import ConfigError
from headgate.service.registry import Registry

_INSERT = (
    "INSERT INTO published VALUES (?, ?, ?, ?) ON CONFLICT (source) DO UPDATE SET tenant = excluded.tenant,"
    " query = excluded.query, since = excluded.since"
)


@dataclass(frozen=True)
class Publication:
    """A source whose rows are the results of a query."""

    source: str
    tenant: str
    query: int
    since: int
    """The first batch whose results are rows of the source."""


class Published:
    """The published sources, by name. Every change is durable when its method returns."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        rows = registry.read("SELECT source, tenant, query, since FROM published")
        self.by_source = {row[0]: Publication(*row) for row in rows}
        self.misfits: dict[str, str] = {}
        """By source: why some results could not become rows of it, since this process began."""

    def add(self, one: Publication) -> None:
        """Record that a source is published."""
        self._registry.write((_INSERT, [(one.source, one.tenant, one.query, one.since)]))
        self.by_source[one.source] = one

    def remove(self, source: str) -> None:
        """Take it back, if the source could not be declared."""
        self._registry.write(("DELETE FROM published WHERE source = ?", [(source,)]))
        self.by_source.pop(source, None)

    def check_pushable(self, source: str) -> None:
        """Refuse events for a source that has the results of a query."""
        if source in self.by_source:
            query = self.by_source[source].query
            raise ConfigError(f"source {source!r} has the results of query {query}: nobody can push to it")
