"""Room for pushes: one that the log has no room for waits before its body is read, and is refused in the end.

A body that nobody reads costs the service nothing: the kernel stops its sender. So whoever pushes more than it may is
slowed down by its own connection, and does not take the processor from others by being refused again and again.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter

from headgate.errors import Backlogged, HeadgateError
from headgate.service.edge_limits import EdgeLimits
from headgate.service.service import Service
from headgate.service.tenants import Tenant

PUSH = re.compile(r"/sources/([^/]+)/events")
LOOK_S = 0.05
"""How often it is looked whether there is room."""
OF_TENANT = 8
"""How many pushes of one tenant wait at once. Further ones are refused at once."""


class PushRoom:
    """The pushes that wait for room."""

    def __init__(self, service: Service, limits: EdgeLimits) -> None:
        self._service, self._limits = service, limits
        self._waiting: Counter[str] = Counter()

    async def wait(self, tenant: Tenant, method: str, path: str, size: int) -> None:
        """Wait until there is room for a body of so many bytes; `Backlogged` if there is none in time. Any other request
        goes on at once, and so does a push that is wrong in another way: its route says so.
        """
        push = PUSH.fullmatch(path) if method == "POST" else None
        if push is None or (why := self._refusal(tenant, push[1], size)) is None:
            return
        if self._waiting[tenant.name] >= OF_TENANT:
            raise why
        self._waiting[tenant.name] += 1
        try:
            loop = asyncio.get_running_loop()
            end = loop.time() + self._limits.room_s
            while why is not None:
                if (left := end - loop.time()) <= 0:
                    raise why
                await asyncio.sleep(min(LOOK_S, left))
                why = self._refusal(tenant, push[1], size)
        finally:
            self._waiting[tenant.name] -= 1
            if not self._waiting[tenant.name]:
                del self._waiting[tenant.name]

    def _refusal(self, tenant: Tenant, source: str, size: int) -> Backlogged | None:
        try:
            self._service.check_push(tenant, source, size)
        except Backlogged as error:
            return error
        except HeadgateError:
            pass
        return None
