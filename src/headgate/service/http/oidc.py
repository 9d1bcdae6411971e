"""Tokens of an identity provider (OIDC): JWTs, checked against its public keys.

The keys are fetched in a thread, once for all who wait for them, and no more often than the configuration says: a
stranger who invents names of keys costs nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx

from headgate import logs
from headgate.errors import BadToken, ConfigError, HeadgateError, required
from headgate.service.access import OidcConfig
from headgate.service.service import Service
from headgate.service.tenants import ROLES, Tenant

log = logs.logger("headgate.service.oidc")
LONGEST = 16_384
"""Characters of a token."""
LARGEST = 1 << 20
"""Bytes of a set of keys."""
FETCH_S = 5.0
STALE_S = 3600.0
"""After this time the keys are fetched again, so that one which the provider withdrew is no longer accepted."""
EXPIRES = ["exp", "iss", "aud"]


def looks_like_jwt(text: str | None) -> bool:
    """Whether a token may be a JWT; ours have no dots."""
    return text is not None and text.count(".") == 2


class Oidc:
    """Finds the tenants of JWTs."""

    def __init__(self, config: OidcConfig, service: Service) -> None:
        self._jwt = required("jwt", "[oidc]")
        self._config, self._service = config, service
        self._keys: dict[str, Any] = {}
        self._fetched = self._tried = -1e9
        self._fetching: asyncio.Task[None] | None = None
        self.fetches = 0
        """How often the keys were fetched."""
        if "://" not in config.jwks:
            try:
                self._take(self._read())
            except (OSError, ValueError, self._jwt.PyJWTError) as error:
                raise ConfigError(f"[oidc] jwks {config.jwks} cannot be read: {error}") from error

    async def tenant(self, text: str) -> Tenant:
        """The tenant of a token. BadToken says why there is none."""
        header = self._header(text)
        key = self._key(header)
        now = time.monotonic()
        if (key is None or now - self._fetched > STALE_S) and now - self._tried >= self._config.refresh_s:
            self._tried = now
            self._fetching = asyncio.create_task(anyio.to_thread.run_sync(self._fetch))
        if key is None and self._fetching is not None:
            await asyncio.shield(self._fetching)
            key = self._key(header)
        if key is None:
            raise BadToken("the token is signed with a key that is not known")
        return await self._tenant_of(self._claims(text, header, key))

    def _header(self, text: str) -> Mapping[str, Any]:
        if len(text) > LONGEST:
            raise BadToken(f"a token has at most {LONGEST} characters")
        try:
            header: Mapping[str, Any] = self._jwt.get_unverified_header(text)
        except Exception as error:  # whatever a stranger's text does to the parser, it is no token
            raise BadToken("the token cannot be read as a JWT") from error
        if header.get("alg") not in self._config.algorithms:
            raise BadToken("the token is signed in a way that is not accepted")
        return header

    def _key(self, header: Mapping[str, Any]) -> Any:
        """The key that a token names; one that names none has the only one there is."""
        kid = header.get("kid")
        if kid is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(kid) if isinstance(kid, str) else None

    def _claims(self, text: str, header: Mapping[str, Any], key: Any) -> Mapping[str, Any]:
        config = self._config
        try:
            claims: Mapping[str, Any] = self._jwt.decode(
                text, key.key, algorithms=[header["alg"]], audience=config.audience, issuer=config.issuer,
                leeway=config.leeway_s, options={"require": EXPIRES, "strict_aud": False},
            )  # fmt: skip
        except self._jwt.PyJWTError as error:
            raise BadToken(f"the token is not valid: {error}") from error
        except Exception as error:
            raise BadToken("the token is not valid") from error
        return claims

    async def _tenant_of(self, claims: Mapping[str, Any]) -> Tenant:
        config, tenants = self._config, self._service.tenants
        name, expires = _claim(claims, config.tenant_claim), claims["exp"]
        if not isinstance(name, str) or not name:
            raise BadToken(f"the token lacks the claim {config.tenant_claim!r}, which names the tenant")
        if config.create and not tenants.known(name):
            try:
                await anyio.to_thread.run_sync(self._service.accounts.add_of_provider, name)
            except ConfigError as error:
                raise BadToken(f"the token names a tenant that cannot be: {error}") from error
        subject = str(claims.get("sub", name))[:64]
        ends = int((float(expires) + config.leeway_s) * 1e6)
        return tenants.acting(name, self._role(claims), f"jwt:{subject}", expires_us=ends)

    def _role(self, claims: Mapping[str, Any]) -> str:
        """The highest role that a token has."""
        if not self._config.role_claim:
            return self._config.role
        found = _claim(claims, self._config.role_claim)
        names = found if isinstance(found, list) else [found]
        roles = [role for role in ROLES if role in names]
        if not roles:
            raise BadToken(
                f"the token's claim {self._config.role_claim!r} names none of the roles {', '.join(ROLES)}"
            )
        return roles[-1]

    def _fetch(self) -> None:
        """Fetch the keys; if that fails, those from before stay."""
        self.fetches += 1
        try:
            self._take(self._read())
        except (OSError, ValueError, httpx.HTTPError, HeadgateError, self._jwt.PyJWTError) as error:
            log.warning("the keys of %s cannot be fetched: %s", self._config.issuer, error)

    def _take(self, text: bytes) -> None:
        keys = self._jwt.PyJWKSet.from_json(text.decode()).keys
        signing = [key for key in keys if key.public_key_use in (None, "sig")]
        self._keys = {key.key_id or f"({number})": key for number, key in enumerate(signing)}
        self._fetched = time.monotonic()

    def _read(self) -> bytes:
        where = self._config.jwks
        if "://" not in where:
            return Path(where).read_bytes()
        body = b""
        with httpx.stream("GET", where, timeout=FETCH_S, follow_redirects=False) as answer:
            if answer.status_code != 200:
                raise ValueError(f"{where} answers {answer.status_code}")
            for part in answer.iter_bytes():
                body += part
                if len(body) > LARGEST:
                    raise ValueError(f"{where} sends more than {LARGEST} bytes")
        return body


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by its name, or by its path: realm_access.roles."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found
