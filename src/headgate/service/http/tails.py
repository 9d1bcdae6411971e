"""Streams of results: how they learn of a new batch, and how many a tenant may have open."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import anyio.to_thread

from headgate.errors import AccessDenied, QuotaExceeded
from headgate.service.queries import Query
from headgate.service.service import Service
from headgate.service.tenants import Tenant

POLL_S = 0.1
"""How often somebody looks for a new batch."""
READERS = 4
"""How many streams read at once; other requests need threads too."""


class Tails:
    """The open streams of a service. One task looks for new batches, however many streams wait for one."""

    def __init__(self, service: Service, most: int) -> None:
        self._service, self._most = service, most
        self._open: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.ending = False
        """Whether the service is about to stop: streams end after what is committed."""
        self._waiting = 0
        self._look: asyncio.Task[None] | None = None
        self._readers: anyio.CapacityLimiter | None = None

    @contextmanager
    def place(self, tenant: Tenant) -> Iterator[None]:
        """Hold a place for a stream of a tenant while the block runs."""
        with self._lock:
            if self._open[tenant.name] >= self._most:
                raise QuotaExceeded(
                    f"tenant {tenant.name!r} already has {self._most} streams of results open, and no more are "
                    "allowed (the limit is tails): close some, or read pages"
                )
            self._open[tenant.name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._open[tenant.name] -= 1
                if not self._open[tenant.name]:
                    del self._open[tenant.name]

    async def batch_after(self, seen: int) -> int:
        """Wait until the last batch is another than this one, or streams end; returns the last batch."""
        self._waiting += 1
        try:
            while self._service.last_batch == seen and not self.ending:
                if self._look is None or self._look.done():
                    self._look = asyncio.create_task(self._watch(seen))
                await asyncio.shield(self._look)
        finally:
            self._waiting -= 1
        return self._service.last_batch

    async def _watch(self, seen: int) -> None:
        while self._waiting and self._service.last_batch == seen and not self.ending:
            await asyncio.sleep(POLL_S)

    def refusal(self, tenant: Tenant) -> str:
        """Why a tenant gets no more results, if its token ended meanwhile."""
        try:
            self._service.tenants.check(tenant)
        except AccessDenied as error:
            return str(error)
        return ""

    async def query(self, tenant: Tenant, number: int) -> Query:
        """`Service.get_query`, in one of the threads for streams."""
        asked = partial(self._service.get_query, tenant, number)
        return await anyio.to_thread.run_sync(asked, limiter=self._limiter())

    def _limiter(self) -> anyio.CapacityLimiter:
        if self._readers is None:
            self._readers = anyio.CapacityLimiter(READERS)
        return self._readers

    async def read(self, *arguments: Any) -> tuple[list[dict[str, Any]], str]:
        """`Service.read`, in one of the threads for streams."""
        return await anyio.to_thread.run_sync(
            partial(self._service.read, *arguments), limiter=self._limiter()
        )
