"""Who may read which source. A source is private: its owner and admins read it, and whoever it was granted to.

To everyone else a source does not exist: not in a list, not in an error, not in a query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headgate.errors import ConfigError, QuotaExceeded
from headgate.service.registry import Registry
from headgate.service.sources import Source, Sources
from headgate.service.tenants import Tenant
from headgate.sql.source_schema import NAME, SourceSchema

EVERYONE = "*"
"""Takes a tenant's place in a grant to all tenants."""
_INSERT = "INSERT INTO grants VALUES (?, ?) ON CONFLICT (source, tenant) DO NOTHING"
_DELETE = "DELETE FROM grants WHERE source = ? AND tenant = ?"


class Grants:
    """The grants, by source. Every change is durable when its method returns."""

    def __init__(self, registry: Registry, sources: Sources) -> None:
        self._registry, self._sources = registry, sources
        self._tenants: dict[str, set[str]] = {}
        for source, tenant in registry.read("SELECT source, tenant FROM grants"):
            self._tenants.setdefault(source, set()).add(tenant)

    def allow(self, source: Source, tenant: Tenant) -> bool:
        """Whether a tenant may read a source."""
        if tenant.admin or tenant.name == source.tenant:
            return True
        return not self._tenants.get(source.name, set()).isdisjoint((tenant.name, EVERYONE))

    def of(self, source: str) -> list[str]:
        """The tenants to whom a source is granted."""
        return sorted(self._tenants.get(source, ()))

    def granting(self, tenant: str) -> bool:
        """Whether a source of a tenant is granted to anybody."""
        granted = [name for name, to in list(self._tenants.items()) if to]
        return any(
            self._sources.by_name[name].tenant == tenant for name in granted if name in self._sources.by_name
        )

    def add(self, source: str, tenant: str, most: int = 1_000) -> None:
        """Grant a source to a tenant, or to everyone. The tenant may be one that is yet to come."""
        _check_reader(tenant)
        known = self._tenants.get(source, set())
        if tenant in known:
            return
        if len(known) >= most:
            raise QuotaExceeded(
                f"source {source!r} is granted to {most} tenants, and no more are allowed (the limit is grants): take some "
                f"grants back, or grant it to everyone ({EVERYONE!r})"
            )
        self._registry.write((_INSERT, [(source, tenant)]))
        self._tenants.setdefault(source, set()).add(tenant)

    def remove(self, source: str, tenant: str) -> None:
        """Take a grant back."""
        _check_reader(tenant)
        self._registry.write((_DELETE, [(source, tenant)]))
        self._tenants.get(source, set()).discard(tenant)

    def readable(self, tenant: Tenant) -> Readable:
        """The sources that a tenant may read."""
        return Readable(self, self._sources, tenant)


def _check_reader(tenant: str) -> None:
    if tenant != EVERYONE and not NAME.fullmatch(tenant):
        raise ConfigError(
            f"a source is granted to a tenant by its name, or to {EVERYONE!r}, not to {tenant!r}"
        )


class Readable(Mapping[str, SourceSchema]):
    """The columns of the sources that a tenant may read, by name. What was found once is not looked up again, so this is
    for one request.
    """

    def __init__(self, grants: Grants, sources: Sources, tenant: Tenant) -> None:
        self._grants, self._sources, self._tenant = grants, sources, tenant
        self._found: dict[str, SourceSchema] = {}

    def __getitem__(self, name: str) -> SourceSchema:
        found = self._found.get(name)
        if found is not None:
            return found
        source = self._sources.by_name[name]
        if not self._grants.allow(source, self._tenant):
            raise KeyError(name)
        self._found[name] = source.kind
        return source.kind

    def __iter__(self) -> Iterator[str]:
        sources = list(self._sources.by_name.items())  # texts are read while sources are declared
        return (name for name, source in sources if self._grants.allow(source, self._tenant))

    def __len__(self) -> int:
        return sum(1 for _ in self)
