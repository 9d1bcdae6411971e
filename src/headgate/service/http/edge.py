"""The edge: every request passes it before the application sees it.

It knows the tenant by the headers alone (`identity`), so nobody without a token gets a body read. Bodies are bounded
in size, in time and together. Answers carry headers that keep a browser from loading anything from elsewhere. What
changes something is recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.errors import AccessDenied, BadToken
from headgate.service.access import Access
from headgate.service.edge_limits import EdgeLimits
from headgate.service.http.errors import error_json
from headgate.service.http.identity import Identity, TooOften, audited, check_role
from headgate.service.http.page_files import page_files
from headgate.service.service import Service
from headgate.service.tenants import Tenant

PUBLIC = frozenset({"/", "/docs", "/openapi.json", "/health", "/ready", "/metrics", *page_files()})
"""What needs no token. None of these routes reads a body."""
ALIVE = "/health"
"""What is answered however often it is asked."""
STRICT_TRANSPORT = "max-age=31536000"
BULK = ("/bulk", "/events")
"""How the paths end that take large bodies."""
BUSY = "the service holds as many requests as it can: send this one again in a moment"
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
        self._held = 0
        """Bytes of the bodies that are held now."""

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
            self._check_size(headers, scope["path"])
            async with self._body(receive, self._most(scope["path"])) as body:
                await self._app(scope, _after(body, receive), strict_send)
        except _Refused as refused:
            if refused.more and not public:
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

    async def _known(self, scope: Scope, headers: Headers) -> Tenant:
        """The tenant who asks, if it may do what it asks for at all."""
        try:
            tenant = await self._identity.tenant(scope, headers)
            scope["state"]["asking"] = tenant
            check_role(tenant, scope["method"], scope["path"])
            return tenant
        except TooOften as error:
            raise _too_often(error) from error
        except BadToken as error:
            raise _Refused(401, **error_json(error), www_authenticate="Bearer") from error
        except AccessDenied as error:
            raise _Refused(403, **error_json(error)) from error

    def _most(self, path: str) -> int:
        return self._limits.bulk_bytes if path.endswith(BULK) else self._limits.body_bytes

    def _check_size(self, headers: Headers, path: str) -> None:
        """Refuse a body that says that it is too large."""
        size = headers.get("content-length", "0")
        if not size.isdecimal() or len(size) > 20 or int(size) > self._most(path):
            raise _too_large(self._most(path))

    @asynccontextmanager
    async def _body(self, receive: Receive, most: int) -> AsyncIterator[bytes]:
        """Read a body; its bytes count as held until the block ends."""
        parts = list[bytes]()
        size, more = 0, True
        try:
            async with asyncio.timeout(self._limits.body_s) as patience:
                while more:
                    message = await receive()
                    more = message.get("more_body", False)
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    self._held += len(parts[-1])
                    if size > most:
                        raise _too_large(most)
                    if self._held > self._limits.bodies_bytes:
                        raise _Refused(503, "busy", BUSY, retry_after="1")
                patience.reschedule(None)
                yield b"".join(parts)
        except _Refused as refused:
            refused.more = more
            raise
        except TimeoutError as error:
            if not patience.expired():
                raise
            why = f"the body did not come within {self._limits.body_s:g} s: send it faster, or in parts"
            raise _Refused(408, "too-slow", why) from error
        finally:
            self._held -= size


def _too_often(error: TooOften) -> _Refused:
    return _Refused(429, "too-often", str(error), retry_after=error.retry_after)


def _too_large(most: int) -> _Refused:
    return _Refused(413, "too-large", f"a request here may have at most {most} bytes: send it in parts")


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
