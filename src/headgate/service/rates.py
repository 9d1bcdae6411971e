"""How often somebody may ask: a bucket of tokens for each, which fills at a rate."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable


class Buckets:
    """A bucket for each key, full at first. At most `most` are remembered: the one that was used longest ago is
    forgotten, and so is full again.
    """

    def __init__(
        self, rate: float, burst: float, *, most: int = 50_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._most, self._clock = rate, max(1.0, burst), most, clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By key: what was in the bucket, and when."""

    def __len__(self) -> int:
        return len(self._levels)

    def take(self, key: str) -> float:
        """Take one; returns 0, or after how many seconds there is one."""
        now = self._clock()
        level, at = self._levels.pop(key, (self._burst, now))
        level = min(self._burst, level + (now - at) * self._rate)
        taken = level >= 1
        self._levels[key] = (level - 1 if taken else level, now)
        if len(self._levels) > self._most:
            self._levels.popitem(last=False)
        return 0.0 if taken else (1 - level) / self._rate


def network_of(address: str) -> str:
    """Whom an address counts for: itself, or the network of 64 bits that one customer has in IPv6."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
