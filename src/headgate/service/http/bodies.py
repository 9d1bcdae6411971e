"""The bodies of requests: bounded in size, in time, by tenant and together."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import Receive

from headgate.service.edge_limits import EdgeLimits

BULK = re.compile(r"/(queries|sources)/bulk|/sources/[^/]+/events")
"""The routes that take large bodies."""
BODILESS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
SMALL = 16 << 10
"""A body of this size is taken however much is held: others may fill the room, and not shut the door."""
PARTS = 4
"""One tenant may hold this part of the room for all."""


class BodyRefused(Exception):
    """A body that is not taken: the status of the answer, its error, and whether the rest of the body may still come."""

    def __init__(self, status: int, error: str, message: str) -> None:
        super().__init__(message)
        self.status, self.error, self.more = status, error, True


class Bodies:
    """The bodies that are held now."""

    def __init__(self, limits: EdgeLimits) -> None:
        self._limits = limits
        self._held = 0
        self._of_tenant: Counter[str] = Counter()

    def most(self, method: str, path: str) -> int:
        """How many bytes the body of a request may have. Where a body has no meaning, a small one is read and ignored."""
        if method in BODILESS:
            return SMALL
        return self._limits.bulk_bytes if BULK.fullmatch(path) else self._limits.body_bytes

    def check_size(self, size: str, most: int) -> None:
        """Refuse a body that says that it is too large."""
        if not size.isdecimal() or len(size) > 20 or int(size) > most:
            raise _too_large(most)

    @asynccontextmanager
    async def read(self, receive: Receive, most: int, tenant: str) -> AsyncIterator[bytes]:
        """Read a body; its bytes count as held until the block ends."""
        parts, size, more = list[bytes](), 0, True
        try:
            try:
                async with asyncio.timeout(self._limits.body_s):
                    while more:
                        async with asyncio.timeout(self._limits.header_s):
                            message = await receive()
                        more = message.get("more_body", False)
                        part = message.get("body", b"")
                        size += len(part)
                        self._hold(tenant, len(part))
                        if size > most:
                            raise _too_large(most)
                        self._check_room(tenant, size)
                        parts.append(part)
            except TimeoutError as error:
                raise BodyRefused(
                    408,
                    "too-slow",
                    f"the body did not come within {self._limits.body_s:g} s, or nothing of it within "
                    f"{self._limits.header_s:g} s: send it faster, or in parts",
                ) from error
            except BodyRefused as refused:
                refused.more = more
                raise
            yield b"".join(parts)
        finally:
            self._hold(tenant, -size)

    def _hold(self, tenant: str, size: int) -> None:
        self._held += size
        self._of_tenant[tenant] += size
        if not self._of_tenant[tenant]:
            del self._of_tenant[tenant]

    def _check_room(self, tenant: str, size: int) -> None:
        if size <= SMALL:
            return
        if self._of_tenant[tenant] > self._limits.bodies_bytes // PARTS:
            raise BodyRefused(
                429,
                "busy",
                f"the requests of tenant {tenant!r} hold as many bytes as one tenant may: send this one again in a moment",
            )
        if self._held > self._limits.bodies_bytes:
            raise BodyRefused(
                503, "busy", "the service holds as many requests as it can: send this one again in a moment"
            )


def _too_large(most: int) -> BodyRefused:
    return BodyRefused(413, "too-large", f"a request here may have at most {most} bytes: send it in parts")
