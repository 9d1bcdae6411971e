"""Turns of tenants: how many requests run at once, so that one tenant's do not keep everyone else's waiting.

Requests run in a few threads. One tenant has a part of them; its other requests wait for its own, and some threads are
left to whoever has no token, such as a load balancer that asks `/ready`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

OF_TENANT, OF_ALL = 8, 32
"""How many requests of a tenant, and of all tenants, run at once. There are 40 threads."""


class Turns:
    """The turns of one event loop."""

    def __init__(self) -> None:
        self._all = asyncio.Semaphore(OF_ALL)
        self._of_tenant: dict[str, tuple[asyncio.Semaphore, list[int]]] = {}

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        """Wait for a turn of a tenant, and hold it while the block runs."""
        own, asking = self._of_tenant.setdefault(tenant, (asyncio.Semaphore(OF_TENANT), [0]))
        asking[0] += 1
        try:
            async with own, self._all:
                yield
        finally:
            asking[0] -= 1
            if not asking[0]:
                self._of_tenant.pop(tenant, None)
