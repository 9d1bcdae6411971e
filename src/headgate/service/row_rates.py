"""How many rows each tenant pushes in a second, and how many it may (`rows_s`)."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from headgate.errors import Backlogged

BURST_S = 10.0
"""A tenant may push the rows of so many seconds at once."""
LATELY_S = 10.0
"""Over about how many seconds the rate that is shown is measured."""
MOST = 50_000
"""Of how many tenants this is remembered: those that pushed last."""


class _Pushed(NamedTuple):
    used: float
    """What of its burst a tenant has used."""
    lately: float
    """Its rows, of which earlier ones count less."""
    at: float


class RowRates:
    """The rates of all tenants. Thread-safe. Not durable: after a start every burst is unused.

    A push is not divided. It may go beyond the burst, and then the tenant waits until its rate has made up for that. So
    over any time a tenant pushes at most the rows of its rate, its burst, and one push.
    """

    def __init__(
        self, rate_of: Callable[[str], float], clock: Callable[[], float] = time.monotonic, most: int = MOST
    ) -> None:
        self._rate_of, self._clock, self._most = rate_of, clock, most
        self._pushed: OrderedDict[str, _Pushed] = OrderedDict()
        self._lock = threading.Lock()

    def check(self, tenant: str) -> None:
        """`Backlogged`, with the time to come again, if a tenant has pushed more than it may."""
        with self._lock:
            self._check(tenant)

    def take(self, tenant: str, rows: int) -> None:
        """Count a push; `Backlogged` if it comes too early."""
        with self._lock:
            self._check(tenant)
            self._add(tenant, rows)

    def give_back(self, tenant: str, rows: int) -> None:
        """Count a push no longer: it was refused for another reason."""
        with self._lock:
            self._add(tenant, -rows)

    def rate(self, tenant: str) -> float:
        """How many rows a second a tenant has pushed lately."""
        with self._lock:
            return self._now(tenant).lately / LATELY_S

    def _check(self, tenant: str) -> None:
        rate = self._rate_of(tenant)
        over = self._now(tenant).used - rate * BURST_S
        if over >= 0:
            after = math.floor(over / rate) + 1.0
            raise Backlogged(
                f"tenant {tenant!r} has pushed more than {rate:g} rows a second (the limit is rows_s): push again in "
                f"{after:g} s",
                after,
            )

    def _now(self, tenant: str) -> _Pushed:
        now = self._clock()
        used, lately, at = self._pushed.get(tenant, _Pushed(0.0, 0.0, now))
        past = max(0.0, now - at)
        left = max(0.0, used - past * self._rate_of(tenant))
        return _Pushed(left, lately * math.exp(-past / LATELY_S), now)

    def _add(self, tenant: str, rows: int) -> None:
        used, lately, now = self._now(tenant)
        self._pushed[tenant] = _Pushed(max(0.0, used + rows), max(0.0, lately + rows), now)
        self._pushed.move_to_end(tenant)
        if len(self._pushed) > self._most:
            self._pushed.popitem(last=False)
