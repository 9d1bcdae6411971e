"""The service's own loop, for streams whose ranges it plans itself: plan, process, commit with the offsets.

Each stream is planned in a thread of its own, so that one whose brokers are silent does not delay the others. Streams
that have rows are processed together, in one batch. If that fails, each is tried alone: a record that stops one stream
does not stop the others. A stream that fails alone waits, longer each time, and is planned anew from its last commit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Protocol

from headgate import logs
from headgate.service.batch.processor import BatchProcessor
from headgate.service.service import Service
from headgate.sources.source import Demand, Range, Ranges, Source

log = logs.logger("headgate.service")
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 30.0
"""Before a stream that has failed is tried again: the wait doubles with every failure, up to the longest."""
PLANNING_S = 0.1
"""How long a batch waits for streams that are still being planned."""
FOLDER = "streams"
"""Where sources keep records of their own, beside state and results."""


class Stream(Protocol):
    """What the loop needs of a stream."""

    @property
    def name(self) -> str:
        """The name of its source in the service."""

    @property
    def source(self) -> Source:
        """What plans and reads it."""

    @property
    def max_rows(self) -> int:
        """How many rows a batch takes of it at most."""

    def rows(self, ranges: Sequence[Range]) -> Any:
        """The rows of some ranges, in slots, for the job of a batch."""


class _Planned:
    """A stream, where it stands, and what is known of its next ranges."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.offset: Any = None
        self.placed = False
        """Whether `offset` is that of the last commit, or follows it."""
        self.opened = False
        self.alone = False
        """Whether a batch with this stream failed, so that it is tried without others."""
        self.plan: Future[Ranges] | None = None
        self.wait_s, self.again_at = FIRST_WAIT_S, 0.0


class Loop:
    """Runs batches of streams until it is stopped. `union` puts the rows of several streams together."""

    def __init__(
        self,
        service: Service,
        processor: BatchProcessor,
        streams: Sequence[Stream],
        union: Callable[[list[Any]], Any],
        *,
        every_s: float = 0.5,
        tasks: int = 1,
    ) -> None:
        self._service, self._processor, self._union = service, processor, union
        self._every_s, self._tasks = every_s, tasks
        self._streams = [_Planned(stream) for stream in streams]
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(max(1, len(streams)), "headgate-plan")
        self._thread = threading.Thread(target=self._run, name="headgate-streams", daemon=True)

    def start(self) -> None:
        """Start the thread that runs batches."""
        self._thread.start()

    def stop(self, timeout_s: float = 30.0) -> None:
        """Stop, after the batch under way if it does not take longer than the timeout."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        more = False
        while not self._processor.superseded:
            began = time.monotonic()
            more = self.step()
            pause = 0.0 if more else max(0.0, began + self._every_s - time.monotonic())
            if self._stopping.wait(pause):
                return

    def step(self) -> bool:
        """Process what the streams have now; whether some had more than a batch takes."""
        now = time.monotonic()
        for one in self._streams:
            if one.plan is None and now >= one.again_at:
                one.plan = self._pool.submit(self._plan, one)
        wait([one.plan for one in self._streams if one.plan is not None], PLANNING_S)
        ready = [found for one in self._streams if (found := self._taken(one)) is not None]
        together = [(one, plan) for one, plan in ready if not one.alone]
        groups = [together] if together else []
        groups += [[found] for found in ready if found[0].alone]
        more = False
        for group in groups:
            if self._stopping.is_set() or self._processor.superseded:
                break
            more |= self._process(group)
        return more

    def _plan(self, one: _Planned) -> Ranges:
        source = one.stream.source
        if not one.opened:
            source.check()
            source.open(self._service.batch_log.store.child(f"{FOLDER}/{one.stream.name}"))
            one.opened = True
        if not one.placed:
            one.offset = self._processor.offsets().get(one.stream.name)
            one.placed = True
        demand = Demand(rows=one.stream.max_rows, tasks=self._tasks, now=time.time())
        return source.plan(one.offset, demand)

    def _taken(self, one: _Planned) -> tuple[_Planned, Ranges] | None:
        """What was planned for a stream, if that is done and there are rows."""
        if one.plan is None or not one.plan.done():
            return None
        future, one.plan = one.plan, None
        try:
            plan = future.result()
        except Exception as error:
            self._failed(one, error)
            return None
        if plan.ranges:
            return one, plan
        one.offset = plan.offset
        self._succeeded(one)
        return None

    def _process(self, group: Sequence[tuple[_Planned, Ranges]]) -> bool:
        try:
            rows = self._union([one.stream.rows(plan.ranges) for one, plan in group])
            self._processor.process_ranges(rows, {one.stream.name: plan.offset for one, plan in group})
        except Exception as error:
            for one, _ in group:
                one.placed, one.alone = False, True  # perhaps it was committed all the same: the log knows
                if len(group) == 1 or self._processor.superseded:
                    self._failed(one, error)
            return len(group) > 1
        for one, plan in group:
            one.offset, one.alone = plan.offset, False
            self._succeeded(one)
        return any(plan.more for _, plan in group)

    def _succeeded(self, one: _Planned) -> None:
        one.wait_s = FIRST_WAIT_S
        self._service.failures.pop(one.stream.name, None)

    def _failed(self, one: _Planned, error: Exception) -> None:
        if self._stopping.is_set():
            return
        self._service.failures[one.stream.name] = str(error).splitlines()[0] if str(error) else repr(error)
        again = "it is not tried again" if self._processor.superseded else f"trying again in {one.wait_s:g} s"
        log.error("stream %r stopped, %s: %s", one.stream.name, again, error)
        one.again_at = time.monotonic() + one.wait_s
        one.wait_s = min(2 * one.wait_s, LONGEST_WAIT_S)
