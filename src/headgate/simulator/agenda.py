"""A schedule: actions at ticks; actions of the same tick run in the order in which they were added."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from itertools import count

Action = Callable[[], None]


class Agenda:
    """A queue of actions by tick; ties go by serial number, so that a run can be repeated."""

    def __init__(self, tick_s: float) -> None:
        self._tick_s = tick_s
        self._queue: list[tuple[int, int, Action]] = []
        self._serial = count()

    def put(self, seconds: float, action: Action) -> None:
        """Schedule an action for the first tick that begins at or after this time."""
        tick = math.ceil(seconds / self._tick_s - 1e-6)
        heapq.heappush(self._queue, (tick, next(self._serial), action))

    def do(self, tick: int) -> bool:
        """Run all actions that are due; return whether there were any."""
        done = False
        while self._queue and self._queue[0][0] <= tick:
            done = True
            heapq.heappop(self._queue)[2]()
        return done

    def next_tick(self, otherwise: int) -> int:
        """The tick of the next action."""
        return min(self._queue[0][0], otherwise) if self._queue else otherwise
