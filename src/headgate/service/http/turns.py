"""Turns of tenants: how many requests run at once, so that one tenant's do not keep everyone else's waiting.

Requests run in a few threads. One tenant has a part of them; its other requests wait for its own, and some threads are
left to whoever has no token, such as a load balancer that asks `/ready`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.types import ASGIApp, Message, Receive, Scope, Send

OF_TENANT, OF_ALL = 8, 32
"""How many requests of a tenant, and of all tenants, run at once. There are 40 threads."""
OPENING_OF_TENANT, OPENING_OF_ALL = 2, 8
"""How many streams of results of a tenant, and of all tenants, are opened at once. To open one takes the event loop
milliseconds, so thousands of them are opened one after the other, and others' requests come between them."""


class Turns:
    """The turns of one event loop."""

    def __init__(self, of_tenant: int = OF_TENANT, of_all: int = OF_ALL) -> None:
        self._most, self._all = of_tenant, asyncio.Semaphore(of_all)
        self._of_tenant: dict[str, tuple[asyncio.Semaphore, list[int]]] = {}

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        """Wait for a turn of a tenant, and hold it while the block runs."""
        own, asking = self._of_tenant.setdefault(tenant, (asyncio.Semaphore(self._most), [0]))
        asking[0] += 1
        try:
            async with own, self._all:
                yield
        finally:
            asking[0] -= 1
            if not asking[0]:
                self._of_tenant.pop(tenant, None)


class Openings:
    """Turns of streams that are opened. A turn ends when the stream begins to answer, and not when it ends."""

    def __init__(self) -> None:
        self._turns = Turns(OPENING_OF_TENANT, OPENING_OF_ALL)

    async def run(self, tenant: str, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Have an application answer a request in a turn of its tenant."""
        async with AsyncExitStack() as turn:
            await turn.enter_async_context(self._turns.turn(tenant))

            async def begun(message: Message) -> None:
                if message["type"] == "http.response.start":
                    await turn.aclose()
                await send(message)

            await app(scope, receive, begun)
