"""The HTTP server: uvicorn, with a bound on connections and on the time that headers may take."""

from __future__ import annotations

import asyncio
import resource
import socket
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from headgate.service.access import Access
from headgate.service.edge_limits import EdgeLimits
from headgate.service.http.app import create_app
from headgate.service.http.front import Front
from headgate.service.http.tls import Certificate
from headgate.service.service import Service

SPARE_FILES = 512
"""File descriptors that connections leave to the rest of the process."""


class ServerConfig(uvicorn.Config):
    """A configuration that the connections share, with those of them that wait for a request, the longest first."""

    def __init__(
        self, service: Service | Front, limits: EdgeLimits, access: Access | None = None, **options: Any
    ) -> None:
        self.access = access = access or Access()
        self._certificate = Certificate(access.certificate, access.key) if access.certificate else None
        if self._certificate:
            options |= {"ssl_certfile": access.certificate, "ssl_keyfile": access.key}
        options |= {"proxy_headers": bool(access.proxies), "forwarded_allow_ips": list(access.proxies)}
        app = service if isinstance(service, Front) else create_app(service, limits, access)
        super().__init__(app, http=PatientProtocol, ws="none", **options)
        self.edge, self.most = limits, most_connections(limits)
        self.waiting: dict[PatientProtocol, asyncio.TimerHandle] = {}
        self.slow: dict[PatientProtocol, None] = {}
        """Connections whose bodies or readers are on their way, the longest first."""

    def load(self) -> None:
        """Load everything; with TLS, the certificate is one that may change."""
        super().load()
        if self._certificate:
            self.ssl = self._certificate.context()


class PatientServer(uvicorn.Server):
    """A server that also waits for a TLS handshake no longer than for headers."""

    config: ServerConfig

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        loop: Any = asyncio.get_running_loop()
        if self.config.is_ssl:  # uvicorn has no option for it
            loop.create_server = partial(loop.create_server, ssl_handshake_timeout=self.config.edge.header_s)
        await super().startup(sockets)


class PatientProtocol(H11Protocol):
    """A connection. It is closed if it waits too long for a request, if its peer takes nothing of an answer, or if its
    place is needed meanwhile.
    """

    config: ServerConfig
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for the connection, or refuse it."""
        super().connection_made(transport)
        if len(self.connections) > self.config.most:
            longest = next(iter(self.config.waiting), None) or next(iter(self.config.slow), self)
            longest.give_up()
        if not transport.is_closing():
            self._wait()

    def data_received(self, data: bytes) -> None:
        """Stop the clock when the headers are complete."""
        super().data_received(data)
        self._mark()
        if self._busy:
            self._stop_waiting()
        elif self not in self.config.waiting and not self.transport.is_closing():
            self._wait()

    def on_response_complete(self) -> None:
        """Start the clock again: the next request has to come."""
        super().on_response_complete()
        if not self._busy and not self.transport.is_closing():
            self._wait()

    def pause_writing(self) -> None:
        """Start a clock: the peer has to take something."""
        super().pause_writing()
        self._stuck = self.loop.call_later(self.config.edge.send_s, self.give_up)
        self._mark()

    def resume_writing(self) -> None:
        """Stop it."""
        super().resume_writing()
        self._stop_stuck()
        self._mark()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        self._stop_stuck()
        self.config.slow.pop(self, None)
        super().connection_lost(exc)

    def give_up(self) -> None:
        """Close the connection at once."""
        self._stop_waiting()
        self._stop_stuck()
        self.config.slow.pop(self, None)
        self.connections.discard(self)
        self.transport.abort()

    @property
    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _mark(self) -> None:
        """Note whether a body is on its way, or an answer."""
        if self._stuck is not None or (self._busy and self.cycle.more_body):
            self.config.slow.setdefault(self)
        else:
            self.config.slow.pop(self, None)

    def _stop_stuck(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _wait(self) -> None:
        self._stop_waiting()
        self.config.waiting[self] = self.loop.call_later(self.config.edge.header_s, self.give_up)

    def _stop_waiting(self) -> None:
        timer = self.config.waiting.pop(self, None)
        if timer is not None:
            timer.cancel()


def most_connections(limits: EdgeLimits) -> int:
    """How many connections this process has room for: it may open as many files as its hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
    if soft == resource.RLIM_INFINITY:
        return limits.connections
    return max(1, min(limits.connections, max(soft - SPARE_FILES, soft // 2)))
