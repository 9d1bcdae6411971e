"""Tenants and their roles. A tenant has tokens (`tokens`), each with a role that is not above the tenant's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headgate.errors import AccessDenied, AlreadyExists, BadToken, ConfigError, NotFound
from headgate.service.registry import Registry
from headgate.service.tokens import Token, Tokens, moment, now_us
from headgate.sql.source_schema import NAME

READER, WRITER, ADMIN = "reader", "writer", "admin"
ROLES = (READER, WRITER, ADMIN)
"""Each may do what those before it may."""
ACTIVE, DISABLED, REMOVED = "active", "disabled", "removed"


@dataclass(frozen=True)
class Tenant:
    """Whoever asks: a tenant, with the role of the token that it showed.

    A reader reads what is the tenant's and changes nothing. An admin may also change servers and tenants, and read,
    grant and push to any source.
    """

    name: str
    admin: bool
    reader: bool = False
    token: str = field(default="", compare=False)
    """The id of the token."""
    expires_us: int | None = field(default=None, compare=False)
    """When somebody else's token ends; None for ours, which are looked up."""

    @property
    def role(self) -> str:
        """The role as a word."""
        return ADMIN if self.admin else READER if self.reader else WRITER


OPERATOR = Tenant("operator", admin=True)
"""Whoever runs the service: it owns the sources that the configuration declares. It has no token."""


@dataclass(frozen=True, slots=True)
class Account:
    """A tenant as it is registered."""

    name: str
    role: str
    state: str
    created_us: int

    def to_json(self) -> dict[str, Any]:
        """Plain data, as the HTTP API shows it."""
        return {
            "name": self.name,
            "role": self.role,
            "state": self.state,
            "created": moment(self.created_us),
        }


class Tenants:
    """The tenants, found by their tokens or by name. Every change is durable when its method returns."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        rows = registry.read("SELECT name, role, state, created_us FROM tenants ORDER BY name")
        self._accounts = {row[0]: Account(*row) for row in rows}
        self.tokens = Tokens(registry)

    def __len__(self) -> int:
        return len(self._accounts)

    def add(self, name: str, *, role: str = WRITER, token: str | None = None, label: str = "first") -> str:
        """Add a tenant; returns its first token, which cannot be looked up later."""
        account = self._new(name, role)
        _, text = self.tokens.create(name, role, label=label, text=token, also=((_INSERT, [_row(account)]),))
        self._accounts[name] = account
        return text

    def add_without_token(self, name: str) -> None:
        """Add a tenant, a writer, who is known by somebody else's tokens."""
        account = self._new(name, WRITER)
        self._registry.write((_INSERT, [_row(account)]))
        self._accounts[name] = account

    def _new(self, name: str, role: str) -> Account:
        checked_role(role)
        if not NAME.fullmatch(name):
            raise ConfigError(f"tenant name {name!r}: use lower-case letters, digits and _")
        if name == OPERATOR.name or name in self._accounts:
            raise AlreadyExists(f"tenant {name!r} already exists, or did: choose another name")
        return Account(name, role, ACTIVE, now_us())

    def listed(self) -> list[Account]:
        """The tenants by name, without those that were removed."""
        known = sorted(self._accounts.values(), key=lambda account: account.name)
        return [account for account in known if account.state != REMOVED]

    def get(self, name: str) -> Account:
        """Find a tenant by name."""
        account = self._accounts.get(name)
        if account is None or account.state == REMOVED:
            raise NotFound(f"there is no tenant {name!r}")
        return account

    def set_state(self, name: str, state: str) -> Account:
        """Enable, disable or remove a tenant. One that is removed loses its tokens, and its name is never given again:
        its sources keep it.
        """
        was = self.get(name)
        account = Account(name, was.role, state, was.created_us)
        change = ("UPDATE tenants SET state = ? WHERE name = ?", [(state, name)])
        self.tokens.revoke(*(self.tokens.of(name) if state == REMOVED else ()), also=(change,))
        self._accounts[name] = account
        return account

    def by_name(self, name: str) -> Tenant:
        """Find a tenant by name; one that is not known, or no longer, is nobody special."""
        if name == OPERATOR.name:
            return OPERATOR
        account = self._accounts.get(name)
        return Tenant(name, admin=account is not None and account.state != REMOVED and account.role == ADMIN)

    def by_token(self, text: str | None) -> Tenant:
        """Find the tenant of a token. BadToken: nobody is. AccessDenied: the tenant is disabled."""
        token = self.tokens.valid(text)
        return self.acting(token.tenant, token.role, token.id)

    def known(self, name: str) -> bool:
        """Whether there is, or was, a tenant of this name."""
        return name in self._accounts

    def acting(self, name: str, role: str, token: str, *, expires_us: int | None = None) -> Tenant:
        """A tenant that acts in a role, which is at most its own."""
        account = self._accounts.get(name)
        if account is None or account.state == REMOVED:
            raise BadToken(f"there is no tenant {name!r}: ask your admin")
        if account.state == DISABLED:
            raise AccessDenied(f"tenant {name!r} is disabled: ask an admin of the service")
        role = ROLES[min(ROLES.index(role), ROLES.index(account.role))]
        return Tenant(name, role == ADMIN, role == READER, token, expires_us)

    def check(self, tenant: Tenant) -> None:
        """Raise AccessDenied if a tenant that was found earlier may no longer act."""
        if tenant.name not in self._accounts:
            return  # the operator
        if tenant.expires_us is not None and tenant.expires_us <= now_us():
            raise BadToken("the token has expired: get a new one from your identity provider")
        if tenant.token and tenant.expires_us is None:
            self.tokens.check(tenant.name, tenant.token)
        self.acting(tenant.name, tenant.role, tenant.token)

    def has_admin(self) -> bool:
        """Whether anybody has a valid token of an admin."""
        return any(self._is_admin(token) for token in self.tokens)

    def is_active_admin(self, name: str) -> bool:
        """Whether there is a tenant of this name who may act as an admin."""
        account = self._accounts.get(name)
        return account is not None and account.state == ACTIVE and account.role == ADMIN

    def _is_admin(self, token: Token) -> bool:
        valid = token.role == ADMIN and token.state(now_us()) == "active"
        return valid and self.is_active_admin(token.tenant)


def checked_role(role: str) -> str:
    """A role, or ConfigError."""
    if role not in ROLES:
        raise ConfigError(f"role {role!r} is not known; the roles are {', '.join(ROLES)}")
    return role


_INSERT = "INSERT INTO tenants VALUES (?, ?, ?, ?)"


def _row(account: Account) -> tuple[Any, ...]:
    return account.name, account.role, account.state, account.created_us
