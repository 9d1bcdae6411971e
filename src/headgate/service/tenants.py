"""Tenants and their tokens. Only the hash of a token is stored."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

from headgate.errors import AccessDenied, ConfigError
from headgate.service.registry import Registry
from headgate.sql.source_schema import NAME


@dataclass(frozen=True)
class Tenant:
    """A user of the service. An admin may also change servers and tenants, and read, grant and push to any source."""

    name: str
    admin: bool


OPERATOR = Tenant("operator", admin=True)
"""Whoever runs the service: it owns the sources that the configuration declares. It has no token."""


class Tenants:
    """The tenants, found by their tokens."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        rows = registry.read("SELECT name, token_hash, admin FROM tenants")
        self._by_hash = {token_hash: Tenant(name, bool(admin)) for name, token_hash, admin in rows}

    def __len__(self) -> int:
        return len(self._by_hash)

    def add(self, name: str, *, admin: bool = False, token: str | None = None) -> str:
        """Add a tenant; returns its token, which cannot be looked up later."""
        if not NAME.fullmatch(name):
            raise ConfigError(f"tenant name {name!r}: use lower-case letters, digits and _")
        if name == OPERATOR.name or any(tenant.name == name for tenant in self._by_hash.values()):
            raise ConfigError(f"tenant {name!r} already exists: choose another name")
        token = token or f"hg_{secrets.token_urlsafe(24)}"
        self._registry.write(("INSERT INTO tenants VALUES (?, ?, ?)", [(name, _hash(token), int(admin))]))
        self._by_hash[_hash(token)] = Tenant(name, admin)
        return token

    def by_name(self, name: str) -> Tenant:
        """Find a tenant by name; one that is not known is nobody special."""
        found = (tenant for tenant in self._by_hash.values() if tenant.name == name)
        return OPERATOR if name == OPERATOR.name else next(found, Tenant(name, admin=False))

    def by_token(self, token: str | None) -> Tenant:
        """Find the tenant of a token. Its hash is looked up, so the time that takes reveals nothing about tokens."""
        tenant = self._by_hash.get(_hash(token)) if token else None
        if tenant is None:
            raise AccessDenied("a valid token is needed: send the header Authorization: Bearer TOKEN")
        return tenant


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
