"""What tenants and admins do with tenants and their tokens.

Admins do it for everyone. A tenant does it with its own tokens, by a token that has all of the tenant's role; other
tenants do not exist to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headgate.errors import AccessDenied, ConfigError, NotFound
from headgate.service.tenants import (
    ACTIVE,
    ADMIN,
    DISABLED,
    READER,
    REMOVED,
    ROLES,
    WRITER,
    Account,
    Tenant,
    checked_role,
)
from headgate.service.tokens import Token

if TYPE_CHECKING:
    from headgate.service.lock import RegistryLock
    from headgate.service.service import Service


class Accounts:
    """The tenants of a service. Every change is durable when its method returns."""

    def __init__(self, service: Service, lock: RegistryLock) -> None:
        self._service, self._lock = service, lock

    # -- tenants

    def add(self, caller: Tenant, name: str, role: str = WRITER) -> str:
        """Add a tenant; returns its first token, which cannot be looked up later."""
        _need_admin(caller)
        return self._service.add_tenant(name, role=role)

    def add_of_provider(self, name: str) -> None:
        """Add a tenant that an identity provider vouches for, if there is none: a writer without a token of ours."""
        with self._lock:
            if not self._service.tenants.known(name):
                self._service.tenants.add_without_token(name)

    def listed(self, caller: Tenant, after: str = "", limit: int = 1000) -> tuple[list[dict[str, Any]], int]:
        """The tenants by name, from behind a name on, and their number; a tenant sees itself."""
        with self._lock:
            known = self._service.tenants.listed()
            if not caller.admin:
                known = [account for account in known if account.name == caller.name]
            owners = Counter(source.tenant for source in self._service.sources.by_name.values())
            shown = [account for account in known if account.name > after][:limit]
            return [self._described(account, owners) for account in shown], len(known)

    def get(self, caller: Tenant, name: str) -> dict[str, Any]:
        """A tenant, with how much it has."""
        with self._lock:
            return self._described(self._visible(caller, name))

    def disable(self, caller: Tenant, name: str) -> dict[str, Any]:
        """Refuse a tenant's tokens until it is enabled. Its queries are paused; what others read of its sources goes on."""
        with self._lock:
            account = self._other(caller, name)
            self._service.queries.pause_all(name)
            if account.state == ACTIVE:
                account = self._service.tenants.set_state(name, DISABLED)
            return self._described(account)

    def enable(self, caller: Tenant, name: str) -> dict[str, Any]:
        """Accept a tenant's tokens again. It resumes the queries that it still wants."""
        with self._lock:
            account = self._other(caller, name)
            if account.state == DISABLED:
                account = self._service.tenants.set_state(name, ACTIVE)
            return self._described(account)

    def remove(self, caller: Tenant, name: str) -> None:
        """Remove a tenant: its tokens are revoked and its queries removed, and nobody but admins reads its sources any
        more, so the queries of others over them stop and say why. The names of the tenant and of its sources stay taken.
        """
        service = self._service
        with self._lock:
            self._other(caller, name)
            service.tenants.set_state(name, REMOVED)  # first: from here on it can register nothing
            service.queries.remove_all(name)
            service.deliveries.remove_all(name)
            for source in service.sources.of_tenant(name):
                for reader in service.grants.of(source.name):
                    service.grants.remove(source.name, reader)
                service.stop_readers(source, service.queries.tenants, "its owner was removed")

    # -- tokens

    def create_token(
        self, caller: Tenant, name: str, *, role: str = "", label: str = "", expires_s: float | None = None
    ) -> tuple[Token, str]:
        """Make a token of a tenant; returns it and its text. Its role is the tenant's, or a lower one."""
        with self._lock:
            account = self._manageable(caller, name)
            role = checked_role(role or account.role)
            if ROLES.index(role) > ROLES.index(account.role):
                raise AccessDenied(
                    f"tenant {name!r} is a {account.role}, so its tokens cannot have the role {role!r}"
                )
            return self._service.tenants.tokens.create(name, role, label=label, expires_s=expires_s)

    def tokens(self, caller: Tenant, name: str) -> list[Token]:
        """The tokens of a tenant, also those that were revoked or have expired."""
        with self._lock:
            return self._service.tenants.tokens.of(self._visible(caller, name).name)

    def rotate_token(self, caller: Tenant, name: str, number: str, grace_s: float = 0.0) -> tuple[Token, str]:
        """Make a token that takes the place of another, which stays valid for the grace period."""
        with self._lock:
            self._manageable(caller, name)
            tokens = self._service.tenants.tokens
            return tokens.rotate(tokens.get(name, number), grace_s)

    def revoke_token(self, caller: Tenant, name: str, number: str) -> None:
        """End a token at once."""
        with self._lock:
            self._manageable(caller, name)
            tokens = self._service.tenants.tokens
            tokens.revoke(tokens.get(name, number))

    def replace_admin_token(self, text: str, *, label: str) -> bool:
        """Give an admin a token in the place of those with this label: the admin that had them, or else the first one.
        Returns whether there is such an admin.
        """
        with self._lock:
            tenants = self._service.tenants
            labelled = [token for token in tenants.tokens if token.label == label]
            names = [token.tenant for token in labelled if tenants.is_active_admin(token.tenant)]
            names += [ADMIN] if tenants.is_active_admin(ADMIN) else []
            if not names:
                return False
            tenants.tokens.create(names[0], ADMIN, label=label, text=text)
            tenants.tokens.revoke(*(token for token in labelled if token.tenant == names[0]))
            return True

    def audit(
        self, caller: Tenant, of: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[dict[str, Any]]:
        """The latest entries of the audit log; a tenant reads its own."""
        if not caller.admin:
            if of not in (None, caller.name):
                raise NotFound(f"there is no tenant {of!r}")
            of = caller.name
        return self._service.audit.read(of, before, limit)

    # -- who may

    def _visible(self, caller: Tenant, name: str) -> Account:
        if not caller.admin and caller.name != name:
            raise NotFound(f"there is no tenant {name!r}")
        return self._service.tenants.get(name)

    def _manageable(self, caller: Tenant, name: str) -> Account:
        account = self._visible(caller, name)
        if caller.admin or (caller.role == account.role != READER):
            return account
        need = WRITER if account.role == READER else account.role
        raise AccessDenied(
            f"your token has the role {caller.role}: a token with the role {need} of this tenant is needed, or an admin"
        )

    def _other(self, caller: Tenant, name: str) -> Account:
        _need_admin(caller)
        if caller.name == name:
            raise ConfigError("an admin cannot disable or remove itself: ask another admin")
        return self._service.tenants.get(name)

    def _described(self, account: Account, owners: Mapping[str, int] | None = None) -> dict[str, Any]:
        service = self._service
        sources = (
            len(service.sources.of_tenant(account.name)) if owners is None else owners.get(account.name, 0)
        )
        return {**account.to_json(), "queries": service.queries.count(account.name), "sources": sources}


def _need_admin(caller: Tenant) -> None:
    if not caller.admin:
        raise AccessDenied(f"your token has the role {caller.role}, and this needs the role admin")
