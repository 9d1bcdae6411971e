"""Who may do what: a tenant is known by its token, of which only a hash is kept."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

from headgate.errors import AccessDenied, ConfigError
from headgate.service.registry import Registry
from headgate.sql.source_schema import NAME


@dataclass(frozen=True)
class Tenant:
    """A user of the service. An admin may also change servers, tenants, and anyone's sources."""

    name: str
    admin: bool


class Tenants:
    """Tenants by their tokens."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        rows = registry.read("SELECT name, token_hash, admin FROM tenants")
        self._by_hash = {token: Tenant(name, bool(admin)) for name, token, admin in rows}

    def __len__(self) -> int:
        return len(self._by_hash)

    def add(self, name: str, *, admin: bool = False, token: str | None = None) -> str:
        """Make a tenant; returns its token, which cannot be read again."""
        if not NAME.fullmatch(name):
            raise ConfigError(f"tenant {name!r}: a name is lower-case letters, digits and _")
        if any(one.name == name for one in self._by_hash.values()):
            raise ConfigError(f"tenant {name!r} is there already: give another name")
        token = token or f"hg_{secrets.token_urlsafe(24)}"
        self._registry.write(("INSERT INTO tenants VALUES (?, ?, ?)", [(name, _hash(token), int(admin))]))
        self._by_hash[_hash(token)] = Tenant(name, admin)
        return token

    def of(self, token: str | None) -> Tenant:
        """The tenant of a token. The hash is looked up, so that the time it takes tells nothing about tokens."""
        found = self._by_hash.get(_hash(token)) if token else None
        if found is None:
            raise AccessDenied("a token is needed: send the header Authorization: Bearer TOKEN")
        return found


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
