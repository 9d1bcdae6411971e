"""What a process answers before it leads a service and while it stops: it is alive, but not ready.

A load balancer that asks `/ready` may point to the leader and its standbys alike.
"""

from __future__ import annotations

import time
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.service.http.edge import STRICT, drain

STARTING, STANDBY, SERVING, DRAINING, SUPERSEDED = "starting", "standby", "serving", "draining", "superseded"
MESSAGES = {
    STARTING: "the service is starting: send this again in a moment",
    STANDBY: "this process stands by for another, which leads: ask that one, or send this again in a moment",
    DRAINING: "the service is about to stop, and takes nothing more: send this again in a moment, or to another",
    SUPERSEDED: "another process has taken the service over, and this one stops: ask that one",
}
RETRY_AFTER = {"retry-after": "1", "connection": "close"}
READING = ("GET", "HEAD", "OPTIONS")


class Front:
    """The application of a process. It hands requests on while the process serves; when it drains, those that read."""

    def __init__(self) -> None:
        self.phase = STARTING
        self._app: ASGIApp | None = None

    def serve(self, app: ASGIApp) -> None:
        """Hand requests on to this application from now on."""
        self._app, self.phase = app, SERVING

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        phase, app = self.phase, self._app
        if scope["type"] != "http":
            return
        if phase == SERVING and app is not None:
            await app(scope, receive, send)
        elif scope["path"] == "/health":
            await _answer({"ok": True, "at": time.time(), "phase": phase}, 200)(scope, receive, send)
        elif scope["path"] == "/ready":
            body = {"ready": False, "why": phase, "failed": {"count": 0, "latest": []}}
            await _answer(body, 503)(scope, receive, send)
        elif phase == DRAINING and app is not None and _reads(scope):
            await app(scope, receive, _closing(send))
        else:
            await drain(receive)  # so that the client gets to read the answer
            body = {"error": phase, "message": MESSAGES[phase]}
            await _answer(body, 503)(scope, receive, send)


def _reads(scope: Scope) -> bool:
    """Whether a request reads, and ends by itself."""
    return scope["method"] in READING and not str(scope["path"]).endswith("/stream")


def _answer(body: dict[str, Any], status: int) -> JSONResponse:
    headers = STRICT if status == 200 else STRICT | RETRY_AFTER
    return JSONResponse(body, status, headers)


def _closing(send: Send) -> Send:
    """A `send` that asks the client to connect anew, perhaps to another process."""

    async def closing(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["connection"] = "close"
        await send(message)

    return closing
