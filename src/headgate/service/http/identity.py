"""Who asks: the tenant whose token the headers carry, and how often it may ask."""

from __future__ import annotations

import math
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Scope

from headgate.errors import AccessDenied, BadToken
from headgate.service.access import Access
from headgate.service.audit import Entry
from headgate.service.edge_limits import EdgeLimits
from headgate.service.http.oidc import Oidc, looks_like_jwt
from headgate.service.rates import Buckets, network_of
from headgate.service.service import Service
from headgate.service.tenants import READER, WRITER, Tenant

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
READING = frozenset({"/explain"})
"""Paths that change nothing whatever the method."""


class TooOften(Exception):
    """Somebody asks too often."""

    def __init__(self, who: str, wait_s: float) -> None:
        self.retry_after = str(max(1, math.ceil(wait_s)))
        super().__init__(f"{who} asks too often: try again in {self.retry_after} s")


class Identity:
    """Finds tenants by the headers of requests."""

    def __init__(self, service: Service, limits: EdgeLimits, access: Access) -> None:
        self._service = service
        self._oidc = Oidc(access.oidc, service) if access.oidc else None
        self._tenants = Buckets(limits.requests_s, limits.requests_burst)
        self._strangers = Buckets(limits.strangers_s, limits.strangers_burst)

    async def tenant(self, scope: Scope, headers: Headers) -> Tenant:
        """The tenant who asks; a failure counts for the address that it comes from."""
        text = bearer_of(headers)
        try:
            tenant = await self._found(text)
        except AccessDenied as error:
            self.count_stranger(scope)
            refused_401 = isinstance(error, BadToken)
            self._service.audit.count(self._failure(scope, text, 401 if refused_401 else 403))
            raise
        wait_s = self._tenants.take(tenant.name)
        if wait_s:
            raise TooOften(f"tenant {tenant.name!r}", wait_s)
        return tenant

    async def tenant_or_none(self, scope: Scope, headers: Headers) -> Tenant | None:
        """The same where no token is needed. Every request counts for its address."""
        self.count_stranger(scope)
        try:
            return await self._found(bearer_of(headers))
        except AccessDenied:
            return None

    def count_stranger(self, scope: Scope) -> None:
        """Count a request without a valid token, or raise TooOften."""
        address = address_of(scope)
        wait_s = self._strangers.take(network_of(address))
        if wait_s:
            self._service.audit.count(Entry("", "", "too many requests", "", 429, address))
            raise TooOften("this address", wait_s)

    async def _found(self, text: str | None) -> Tenant:
        if self._oidc is not None and text is not None and looks_like_jwt(text):
            return await self._oidc.tenant(text)
        return self._service.authenticate(text)

    def _failure(self, scope: Scope, text: str | None, outcome: int) -> Entry:
        known = self._service.tenants.tokens.find(text) if text else None
        tenant, token = (known.tenant, known.id) if known else ("", "")
        return Entry(tenant, token, "authenticate", "", outcome, address_of(scope))


def check_role(tenant: Tenant, method: str, path: str) -> None:
    """Refuse changes by a reader, whatever the route."""
    if tenant.reader and method not in SAFE and path not in READING:
        raise AccessDenied(f"your token has the role {READER}, and this needs the role {WRITER}")


def bearer_of(headers: Headers) -> str | None:
    """The token that headers carry."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def address_of(scope: Scope) -> str:
    """Where a request comes from."""
    client: Any = scope.get("client")
    return str(client[0]) if client else ""


def audited(scope: Scope, status: int, service: Service) -> None:
    """Record a tenant's request that changes something, once, before it is answered. What may come often is counted:
    pushed events, and what was refused.
    """
    tenant: Tenant | None = scope["state"].pop("asking", None)
    if tenant is None or scope["method"] in SAFE or scope["path"] in READING:
        return
    endpoint = scope.get("endpoint")
    action = str(getattr(endpoint, "__name__", scope["method"]))
    route = getattr(scope.get("route"), "path", "(unknown)")
    about = (
        route if status >= 400 else scope["state"].get("object") or scope["path"]
    )  # refusals have few kinds
    entry = Entry(tenant.name, tenant.token, action, about, status, address_of(scope))
    if status >= 400 or action == "push":
        service.audit.count(entry)
    else:
        service.audit.record(entry)
