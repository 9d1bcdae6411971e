"""The edge: every request passes it before the application sees it.

It knows the tenant by the headers alone (`identity`), so nobody without a token gets a body read. Bodies are bounded
in size, in time and together. Answers carry headers that keep a browser from loading anything from elsewhere. What
changes something is recorded.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.errors import AccessDenied, Backlogged, BadToken
from headgate.service.access import Access
from headgate.service.edge_limits import EdgeLimits
from headgate.service.http.bodies import Bodies, BodyRefused
from headgate.service.http.errors import error_json
from headgate.service.http.identity import Identity, TooOften, audited, check_role
from headgate.service.http.page_files import page_files
from headgate.service.http.push_room import PushRoom
from headgate.service.http.turns import Openings, Turns
from headgate.service.service import Service
from headgate.service.tenants import Tenant

PUBLIC = frozenset({"/", "/docs", "/openapi.json", "/health", "/ready", "/metrics", *page_files()})
"""What needs no token. None of these routes reads a body."""
ALIVE = "/health"
"""What is answered however often it is asked."""
STRICT_TRANSPORT = "max-age=31536000"
DRAINED_BYTES, DRAINED_S = 1 << 20, 2.0
"""How much of a refused body is read, so that the client gets to read the answer."""
STRICT = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
"""Headers of every answer that does not set them itself."""


class _Refused(Exception):
    """A request that the edge answers itself."""

    def __init__(self, status: int, error: str, message: str, **headers: str) -> None:
        super().__init__(message)
        body = {"error": error, "message": message}
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answer = JSONResponse(body, status, {"connection": "close", **names})
        self.more = True
        """Whether the rest of the body may still come."""


class Edge:
    """Wraps the application."""

    def __init__(
        self, app: ASGIApp, service: Service, limits: EdgeLimits, access: Access, identity: Identity
    ) -> None:
        self._app, self._service, self._limits, self._identity = app, service, limits, identity
        self._public = PUBLIC - {"/metrics"} if access.metrics_token else PUBLIC
        self._bodies = Bodies(limits)
        self._room = PushRoom(service, limits)
        self._turns, self._openings = Turns(), Openings()
        self._asking: Counter[str] = Counter()
        """By tenant: how many requests are under way."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        public = scope["path"] in self._public
        unread = public and ("transfer-encoding" in headers or headers.get("content-length", "0") != "0")

        state = scope.setdefault("state", {})

        async def strict_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                audited(scope, message["status"], self._service)
                answered = MutableHeaders(scope=message)
                if scope.get("scheme") == "https":
                    answered.setdefault("strict-transport-security", STRICT_TRANSPORT)
                for name, value in STRICT.items():
                    answered.setdefault(name, value)
                if unread:
                    answered["connection"] = "close"
            await send(message)

        try:
            if public:
                await self._answer_anyone(scope, receive, strict_send, headers)
                return
            state["tenant"] = await self._known(scope, headers)
            await self._answer_tenant(scope, receive, strict_send, headers)
        except _Refused as refused:
            if (
                refused.more and not public and "expect" not in headers
            ):  # whoever waits to be asked sends nothing
                await drain(receive)
            await refused.answer(scope, receive, strict_send)
        except BaseException:
            audited(scope, 500, self._service)
            raise

    async def _answer_anyone(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        if scope["path"] != ALIVE:
            try:
                scope["state"]["tenant"] = await self._identity.tenant_or_none(scope, headers)
            except TooOften as error:
                raise _too_often(error) from error
        await self._app(scope, receive, send)

    async def _answer_tenant(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        tenant: Tenant = scope["state"]["tenant"]
        most = self._bodies.most(scope["method"], scope["path"])
        with self._under_way(tenant), _refusals():
            size = headers.get("content-length", "0")
            self._bodies.check_size(size, most)
            await self._room.wait(tenant, scope["method"], scope["path"], int(size))
            async with self._bodies.read(receive, most, tenant.name) as body:
                self._still_valid(tenant)  # a body may take a minute to come
                if str(scope["path"]).endswith("/stream"):  # it waits for batches, and has threads of its own
                    await self._openings.run(tenant.name, self._app, scope, _after(body, receive), send)
                    return
                async with self._turns.turn(tenant.name):
                    await self._app(scope, _after(body, receive), send)

    @contextmanager
    def _under_way(self, tenant: Tenant) -> Iterator[None]:
        """Count a request of a tenant while it lasts: nobody takes all connections."""
        most = max(1, self._limits.connections // 2)
        if self._asking[tenant.name] >= most:
            why = f"tenant {tenant.name!r} has {most} requests under way, and no more are allowed: send this one again in a moment"
            raise _Refused(429, "busy", why, retry_after="1")
        self._asking[tenant.name] += 1
        try:
            yield
        finally:
            self._asking[tenant.name] -= 1
            if not self._asking[tenant.name]:
                del self._asking[tenant.name]

    async def _known(self, scope: Scope, headers: Headers) -> Tenant:
        """The tenant who asks, if it may do what it asks for at all."""
        try:
            with _denials():
                tenant = await self._identity.tenant(scope, headers)
                scope["state"]["asking"] = tenant
                check_role(tenant, scope["method"], scope["path"])
                return tenant
        except TooOften as error:
            raise _too_often(error) from error

    def _still_valid(self, tenant: Tenant) -> None:
        """Refuse a tenant whose token was revoked, or who was disabled, since the headers came."""
        with _denials():
            self._service.tenants.check(tenant)


def _too_often(error: TooOften) -> _Refused:
    return _Refused(429, "too-often", str(error), retry_after=error.retry_after)


@contextmanager
def _denials() -> Iterator[None]:
    """Who may not act is refused by the edge itself."""
    try:
        yield
    except BadToken as error:
        raise _Refused(401, **error_json(error), www_authenticate="Bearer") from error
    except AccessDenied as error:
        raise _Refused(403, **error_json(error)) from error


@contextmanager
def _refusals() -> Iterator[None]:
    """Bodies that are not taken are answered by the edge itself."""
    try:
        yield
    except BodyRefused as error:
        again = {"retry_after": "1"} if error.error == "busy" else {}
        refused = _Refused(error.status, error.error, str(error), **again)
        refused.more = error.more
        raise refused from error
    except Backlogged as error:
        raise _Refused(429, **error_json(error), retry_after=f"{math.ceil(error.retry_after_s)}") from error


def _after(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body first."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def drain(receive: Receive) -> None:
    """Read what is left of a refused body, within bounds."""
    left, more = DRAINED_BYTES, True
    try:
        async with asyncio.timeout(DRAINED_S):
            while more and left > 0:
                message = await receive()
                more = message.get("more_body", False)
                left -= len(message.get("body", b""))
    except TimeoutError:
        pass
