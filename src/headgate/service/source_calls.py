"""The part of the service that is about sources: who declares them, pushes to them, grants them and sees them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headgate.errors import AccessDenied, HeadgateError, NotFound
from headgate.service.computations import Computations
from headgate.service.delivery.publications import Published
from headgate.service.grants import EVERYONE, Grants
from headgate.service.lock import RegistryLock
from headgate.service.push_log import PushLog
from headgate.service.queries import Queries
from headgate.service.row_rates import RowRates
from headgate.service.settings import Settings
from headgate.service.sources import Source, Sources, rows_in_slots
from headgate.service.tenant_limits import TenantLimits
from headgate.service.tenants import OPERATOR, Tenant, Tenants


class SourceCalls:
    """Methods of the service. They take the lock themselves."""

    settings: Settings
    tenants: Tenants
    sources: Sources
    grants: Grants
    computations: Computations
    queries: Queries
    tenant_limits: TenantLimits
    published: Published
    push_log: PushLog
    row_rates: RowRates
    _lock: RegistryLock

    def add_sources(self, tenant: Tenant, declarations: Sequence[Mapping[str, Any]]) -> list[Source]:
        """Declare sources that take pushed events, all or none."""
        with self._lock:
            self.tenants.check(tenant)
            if tenant != OPERATOR:
                limit = self.tenant_limits.of(tenant.name).sources
                self.sources.check_room(tenant.name, len(declarations), limit)
            added = self.sources.add(declarations, tenant.name)
            for source in added:
                self.computations.host.add_source(source.name, source.rate)
            return added

    def list_sources(self, tenant: Tenant, after: str = "", limit: int = 1000) -> tuple[list[Source], int]:
        """The sources that a tenant may read in the order of their names, from behind a name on, and their number."""
        with self._lock:
            names = sorted(self.grants.readable(tenant))
            following = names[bisect_right(names, after) :][:limit]
            return [self.sources.by_name[name] for name in following], len(names)

    def push_events(self, tenant: Tenant, name: str, events: Sequence[Mapping[str, Any]]) -> int:
        """Push events to a source; they are durable when this returns. Returns how many there were."""
        source = self._own_source(tenant, name, "push to it")
        rows = rows_in_slots(source, events)
        self.published.check_pushable(name)
        count = int(rows.num_rows)
        if count:
            self.row_rates.take(source.tenant, count)
            try:
                self.push_log.append(source.tenant, rows)
            except HeadgateError:
                self.row_rates.give_back(source.tenant, count)
                raise
        return count

    def check_push(self, tenant: Tenant, name: str, size: int) -> None:
        """Refuse events of about so many bytes before they are read, if there is no room for them."""
        owner = self._own_source(tenant, name, "push to it").tenant
        self.row_rates.check(owner)
        self.push_log.check_room(owner, size)

    def _own_source(self, tenant: Tenant, name: str, act: str) -> Source:
        """A source that a tenant may do this with, as its owner or as an admin."""
        source = self.sources.get(name)
        if tenant.admin or source.tenant == tenant.name:
            return source
        if not self.grants.allow(source, tenant):
            raise NotFound(f"there is no source {name!r}")
        raise AccessDenied(f"source {name!r} belongs to another tenant, and only its owner may {act}")

    def list_grants(self, tenant: Tenant, name: str) -> list[str]:
        """To whom a source is granted."""
        with self._lock:
            return self.grants.of(self._own_source(tenant, name, "see its grants").name)

    def grant(self, tenant: Tenant, name: str, to: str) -> None:
        """Let another tenant, or everyone (`*`), read a source."""
        with self._lock:
            self.grants.add(self._own_source(tenant, name, "grant it").name, to, self.settings.limits.grants)

    def revoke(self, tenant: Tenant, name: str, of: str) -> None:
        """Take a grant back. Queries that may no longer read the source stop."""
        with self._lock:
            source = self._own_source(tenant, name, "take grants back")
            self.grants.remove(source.name, of)
            readers = self.queries.tenants if of == EVERYONE else [of]
            self.stop_readers(source, readers, "its owner took the grant back")

    def stop_readers(self, source: Source, readers: Iterable[str], why: str) -> None:
        """Stop the queries of tenants that may no longer read a source. The caller holds the lock."""
        for reader in readers:
            if not self.grants.allow(source, self.tenants.by_name(reader)):
                why_not = f"source {source.name!r} can no longer be read: {why}"
                self.queries.fail_unreadable(reader, source.id, why_not)
