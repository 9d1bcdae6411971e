"""Tokens: what a tenant shows to say who it is. A token is shown once; its id and its hash are kept."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from headgate.errors import BadToken, ConfigError, NotFound, QuotaExceeded
from headgate.service.registry import Change, Registry
from headgate.service.sources import is_text

MOST_LIVE, MOST_DEAD = 100, 100
"""How many tokens of a tenant may be valid at once, and how many that are not are remembered."""
LONGEST_S = 10 * 365 * 86_400
"""The longest time after which a token expires: ten years."""
LABEL = 100
LABEL_PATTERN = r"^[^\x00-\x1f\x7f-\x9f]*$"
_TEXT = re.compile(r"hg_([0-9a-f]{10})_[A-Za-z0-9_-]{20,}")
SECRET = re.compile(r"hg_[A-Za-z0-9_-]{12,}|eyJ[A-Za-z0-9_.-]{20,}")
"""What looks like a token, ours or a JWT: it is never written anywhere."""


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token. Times are microseconds since 1970; None is never."""

    id: str
    tenant: str
    hash: str
    role: str
    label: str
    created_us: int
    expires_us: int | None = None
    revoked_us: int | None = None
    used_us: int | None = None

    def state(self, at_us: int) -> str:
        """`active`, `expired` or `revoked`."""
        if self.revoked_us is not None:
            return "revoked"
        return "expired" if self.expires_us is not None and self.expires_us <= at_us else "active"

    def to_json(self) -> dict[str, Any]:
        """Plain data, as the HTTP API shows it: never the token, nor its hash."""
        return {
            "id": self.id,
            "tenant": self.tenant,
            "role": self.role,
            "label": self.label,
            "state": self.state(now_us()),
            "created": moment(self.created_us),
            "expires": moment(self.expires_us),
            "revoked": moment(self.revoked_us),
            "used": moment(self.used_us),
        }


class Tokens:
    """The tokens of all tenants. Every change is durable when its method returns, except when a token was last used."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._by_hash: dict[str, Token] = {}
        self._of_tenant: dict[str, dict[str, Token]] = {}
        self._used: dict[str, int] = {}
        for row in registry.read(
            "SELECT id, tenant, hash, role, label, created_us, expires_us, revoked_us, used_us FROM tokens"
            " ORDER BY created_us, id"
        ):
            self._keep(Token(*row))

    def __iter__(self) -> Iterator[Token]:
        return iter(list(self._by_hash.values()))

    def find(self, text: str) -> Token | None:
        """What is known of a token, valid or not. Its hash is looked up, so the time that takes reveals nothing."""
        return self._by_hash.get(hash_of(text))

    def valid(self, text: str | None) -> Token:
        """The token of a request; BadToken says why it is not valid. That it was used is remembered."""
        token = self.find(text) if text else None
        if token is None:
            raise BadToken("a valid token is needed: send the header Authorization: Bearer TOKEN")
        self._check(token)
        self._used[token.id] = now_us()
        return token

    def check(self, tenant: str, number: str) -> None:
        """Raise BadToken if a token that was valid no longer is."""
        token = self._of_tenant.get(tenant, {}).get(number)
        if token is None:
            raise BadToken(f"token {number} is no longer known: ask your admin for another")
        self._check(token)

    def _check(self, token: Token) -> None:
        state = token.state(now_us())
        if state != "active":
            raise BadToken(f"token {token.id} is {state}: ask your admin for another")

    def of(self, tenant: str) -> list[Token]:
        """The tokens of a tenant in the order in which they were made."""
        known = list(self._of_tenant.get(tenant, {}).values())
        return [replace(token, used_us=self._used.get(token.id, token.used_us)) for token in known]

    def get(self, tenant: str, number: str) -> Token:
        """Find a token of a tenant by its id."""
        token = self._of_tenant.get(tenant, {}).get(number)
        if token is None:
            raise NotFound(f"tenant {tenant!r} has no token with the id {redacted(number)!r}")
        return token

    def create(
        self, tenant: str, role: str, *, label: str = "", expires_s: float | None = None, text: str | None = None,
        also: tuple[Change, ...] = (),
    ) -> tuple[Token, str]:  # fmt: skip
        """Make a token, in one transaction with other changes; returns it and its text, which is not kept."""
        if expires_s is not None and not 0 < expires_s <= LONGEST_S:
            raise ConfigError(f"a token expires after more than 0 and at most {LONGEST_S} seconds")
        token, text = self._new(tenant, role, label, expires_s, text)
        dead = self._forgotten(tenant)
        self._registry.write(*also, (_INSERT, [_row(token)]), (_DELETE, [(one.id,) for one in dead]))
        for one in dead:
            self._drop(one)
        self._keep(token)
        return token, text

    def rotate(self, token: Token, grace_s: float) -> tuple[Token, str]:
        """Make a token like another one, which stays valid for a while; it is valid as long as the other was made for."""
        if token.state(now_us()) != "active":
            raise ConfigError(f"token {token.id} is {token.state(now_us())}: create a new one")
        if not 0 <= grace_s <= LONGEST_S:
            raise ConfigError(f"the grace period is 0 to {LONGEST_S} seconds")
        lasts = None if token.expires_us is None else (token.expires_us - token.created_us) / 1e6
        ends = now_us() + int(grace_s * 1e6)
        old = replace(token, expires_us=ends if token.expires_us is None else min(ends, token.expires_us))
        change = (_UPDATE, [(old.expires_us, old.revoked_us, self._used.get(old.id, old.used_us), old.id)])
        made = self.create(token.tenant, token.role, label=token.label, expires_s=lasts, also=(change,))
        self._keep(old)
        return made

    def revoke(self, *tokens: Token, also: tuple[Change, ...] = ()) -> None:
        """End tokens at once, in one transaction with other changes."""
        now = now_us()
        ended = [replace(token, revoked_us=now) for token in tokens if token.revoked_us is None]
        self._registry.write(
            *also, (_UPDATE, [(t.expires_us, now, self._used.get(t.id, t.used_us), t.id) for t in ended])
        )
        for token in ended:
            self._keep(token)

    def save_used(self) -> None:
        """Write when tokens were last used."""
        rows = [(used, number) for number, used in list(self._used.items())]
        if rows:
            self._registry.write(("UPDATE tokens SET used_us = ? WHERE id = ?", rows))

    def _new(
        self, tenant: str, role: str, label: str, expires_s: float | None, text: str | None
    ) -> tuple[Token, str]:
        if len(label) > LABEL or not re.match(LABEL_PATTERN, label) or not is_text(label):
            raise ConfigError(f"a label has at most {LABEL} characters, and no control characters")
        known = self._of_tenant.get(tenant, {}).values()
        now = now_us()
        if sum(token.state(now) == "active" for token in known) >= MOST_LIVE:
            raise QuotaExceeded(
                f"tenant {tenant!r} already has {MOST_LIVE} tokens, and no more are allowed: revoke some"
            )
        text = text or f"hg_{secrets.token_hex(5)}_{secrets.token_urlsafe(24)}"
        own = _TEXT.fullmatch(text)
        number = own[1] if own else id_of_hash(hash_of(text))
        expires = None if expires_s is None else now + int(expires_s * 1e6)
        return Token(number, tenant, hash_of(text), role, label, now, expires), text

    def _forgotten(self, tenant: str) -> list[Token]:
        """The oldest of the tokens that are no longer valid, if there are too many. Those of admins are all remembered,
        so that a token which was revoked is never taken for one that a lost registry forgot.
        """
        now = now_us()
        known = self._of_tenant.get(tenant, {}).values()
        dead = [token for token in known if token.state(now) != "active" and token.role != "admin"]
        return dead[: max(0, len(dead) - MOST_DEAD)]

    def _keep(self, token: Token) -> None:
        self._by_hash[token.hash] = token
        self._of_tenant.setdefault(token.tenant, {})[token.id] = token

    def _drop(self, token: Token) -> None:
        del self._by_hash[token.hash]
        del self._of_tenant[token.tenant][token.id]
        self._used.pop(token.id, None)


_INSERT = "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UPDATE = "UPDATE tokens SET expires_us = ?, revoked_us = ?, used_us = ? WHERE id = ?"
_DELETE = "DELETE FROM tokens WHERE id = ?"


def _row(token: Token) -> tuple[Any, ...]:
    return (
        token.id,
        token.tenant,
        token.hash,
        token.role,
        token.label,
        token.created_us,
        token.expires_us,
        token.revoked_us,
        token.used_us,
    )


def now_us() -> int:
    """The time, in microseconds since 1970."""
    return time.time_ns() // 1000


def moment(us: int | None) -> str | None:
    """A time as the HTTP API shows it."""
    return None if us is None else datetime.fromtimestamp(us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def hash_of(text: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()


def id_of_hash(digest: str) -> str:
    """The id of a token that does not carry one."""
    return digest[:10]


def redacted(text: str) -> str:
    """A text without what looks like a token."""
    return SECRET.sub("[token]", text)
