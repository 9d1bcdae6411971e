"""The service's loop: plan the ranges of every stream, process them, commit with the offsets.

Pushed events are one of the streams, and wake the loop when they come. Each stream is planned in a thread, so that one
whose brokers are silent does not delay the others. Streams that have rows are processed together, in one batch. If that
fails, each is tried alone: a record that stops one stream does not stop the others. A stream that fails alone waits,
longer each time, and is planned anew from its last commit. Streams may be added and removed while the loop runs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Protocol

from headgate import logs
from headgate.errors import ConfigError
from headgate.service.batch.catch_up import IDLE_S, CatchUp
from headgate.service.batch.processor import BatchProcessor
from headgate.service.push_source import PUSHED
from headgate.service.service import Service
from headgate.service.stream_config import FOLDER
from headgate.sources.source import Demand, Range, Ranges, Source

log = logs.logger("headgate.service")
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 30.0
"""Before a stream that has failed is tried again: the wait doubles with every failure, up to the longest."""
PLANNING_S = 0.1
"""How long a batch waits for streams that are being planned."""
HELD_S = 0.1
"""How soon rows are looked at again that were held back."""
PLANNERS = 32
"""How many streams are planned at a time."""


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
        self.more = False
        """Whether it had more rows than the last batch took."""
        self.plan: Future[Ranges] | None = None
        self.wait_s, self.again_at = FIRST_WAIT_S, 0.0
        self.row_bytes = 0.0
        """About how many bytes a row of it takes; 0 if that is not known."""


class Loop:
    """Runs batches of streams until it is stopped. `union` puts the rows of several streams together."""

    def __init__(
        self,
        service: Service,
        processor: BatchProcessor,
        streams: Sequence[Stream],
        union: Callable[[list[Any]], Any],
        *,
        tasks: int = 1,
    ) -> None:
        self._service, self._processor, self._union, self._tasks = service, processor, union, tasks
        self._flow = service.settings.flow
        self._streams = {stream.name: _Planned(stream) for stream in streams}
        self._forgotten: set[str] = set()
        """Streams whose offsets leave the next commit."""
        self._turn = threading.RLock()
        """Held while a batch is planned and processed, and while streams change."""
        self._stopping, self._woken = threading.Event(), threading.Event()
        self._pool = ThreadPoolExecutor(PLANNERS, "headgate-plan")
        self._thread = threading.Thread(target=self._run, name="headgate-batches", daemon=True)
        service.push_log.on_append = self._woken.set
        self.catch_up: CatchUp | None = None
        """Computes rows that wait for tenants without time, when no others come."""

    def start(self) -> None:
        """Start the thread that runs batches."""
        self._thread.start()

    def stop(self, timeout_s: float = 30.0) -> None:
        """Stop, after the batch under way if it does not take longer than the timeout."""
        self._stopping.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        self._pool.shutdown(wait=False, cancel_futures=True)

    # -- streams that come and go

    def add(self, stream: Stream) -> None:
        """Add a stream, which begins where it was when it was removed, or at its beginning."""
        with self._turn:
            if stream.name in self._streams:
                raise ConfigError(f"stream {stream.name!r} runs already: remove it first")
            self._streams = {**self._streams, stream.name: _Planned(stream)}
            self._forgotten.discard(stream.name)
        self._woken.set()

    def remove(self, name: str, *, forget: bool = False) -> None:
        """Remove a stream, after the batch under way. Its offset stays in the commit unless it is to be forgotten."""
        with self._turn:
            self._streams = {other: one for other, one in self._streams.items() if other != name}
            if forget:
                self._forgotten.add(name)
            self._service.failures.pop(name, None)
            self._service.lags.caught_up(name)

    # -- batches

    def _run(self) -> None:
        poll_at = 0.0
        while not self._processor.superseded and not self._stopping.is_set():
            self._woken.clear()
            began = time.monotonic()
            polls = began >= poll_at
            if polls:
                poll_at = began + self._flow.poll_s
            more = self.step(polls=polls) or self._caught_up()
            if self._flow.pause_s and self._stopping.wait(self._flow.pause_s):
                return
            if not more:
                self._woken.wait(self._until(poll_at))

    def _caught_up(self) -> bool:
        with self._turn:
            return self.catch_up is not None and self.catch_up.look()

    def _until(self, poll_at: float) -> float | None:
        """How long the loop may sleep: without streams that must be asked, until it is woken."""
        streams = self._streams.values()
        times = [poll_at] if any(one.stream.name != PUSHED for one in streams) else []
        times += [one.again_at for one in streams if one.stream.name == PUSHED and one.again_at]
        times += [time.monotonic() + IDLE_S] if self._service.usage.waiting else []
        if self._service.push_log.backlog()["rows"]:  # they are held back, and may come later
            times.append(max(self._service.pace.held_until, time.monotonic() + HELD_S))
        return max(0.0, min(times) - time.monotonic()) if times else None

    def step(self, *, polls: bool = True) -> bool:
        """Process what the streams have now; whether some had more than a batch takes. Without `polls`, streams are not
        asked unless they are known to have rows.
        """
        with self._turn:
            now, new = time.monotonic(), []
            for one in self._streams.values():
                asked = polls or one.more or one.stream.name == PUSHED
                if one.plan is None and asked and now >= one.again_at:
                    one.plan = self._pool.submit(self._plan, one)
                    new.append(one.plan)
            for late in wait(new, PLANNING_S).not_done:
                late.add_done_callback(lambda _: self._woken.set())
            ready = [found for one in self._streams.values() if (found := self._taken(one)) is not None]
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
        source, name = one.stream.source, one.stream.name
        if not one.opened:
            source.check()
            if name != PUSHED:
                source.open(self._service.batch_log.store.child(f"{FOLDER}/{name}"))
            one.opened = True
        if not one.placed:
            one.offset = self._processor.offsets().get(name, getattr(one.stream, "start", None))
            one.placed = True
        return source.plan(one.offset, Demand(rows=self._rows(one), tasks=self._tasks, now=time.time()))

    def _rows(self, one: _Planned) -> int:
        """How many rows a batch may take of a stream: its share of the batch, in rows and in bytes."""
        busy = sum(other.more for other in self._streams.values() if other is not one) + 1
        rows = min(one.stream.max_rows, self._flow.batch_rows // busy)
        if one.row_bytes and one.stream.name != PUSHED:  # the log knows the bytes of its rows
            rows = min(rows, int(self._flow.batch_bytes // busy / one.row_bytes))
        return max(1, rows)

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
        one.more = plan.more
        if plan.ranges:
            self._service.lags.behind(one.stream.name, plan.rows)
            return one, plan
        one.offset = plan.offset
        self._succeeded(one)
        return None

    def _process(self, group: Sequence[tuple[_Planned, Ranges]]) -> bool:
        try:
            rows = self._union([one.stream.rows(plan.ranges) for one, plan in group])
            offsets: dict[str, Any] = dict.fromkeys(self._forgotten)
            offsets |= {one.stream.name: plan.offset for one, plan in group}
            self._processor.process_ranges(rows, offsets)
        except Exception as error:
            for one, _ in group:
                one.placed, one.alone = False, True  # perhaps it was committed all the same: the log knows
                if len(group) == 1 or self._processor.superseded:
                    self._failed(one, error)
            return len(group) > 1
        self._forgotten.clear()
        for one, plan in group:
            one.offset, one.alone = plan.offset, False
            self._measure(one)
            self._succeeded(one)
        return any(plan.more for _, plan in group)

    def _measure(self, one: _Planned) -> None:
        """Learn how large rows are from what the last batch carried."""
        facts = self._service.facts[-1] if self._service.facts else {}
        if facts.get("sent_rows"):
            now = facts["sent_bytes"] / facts["sent_rows"]
            one.row_bytes = 0.5 * (one.row_bytes + now) if one.row_bytes else now

    def _succeeded(self, one: _Planned) -> None:
        one.wait_s, one.again_at = FIRST_WAIT_S, 0.0
        if not one.more:
            self._service.lags.caught_up(one.stream.name)
        self._service.failures.pop(one.stream.name, None)

    def _failed(self, one: _Planned, error: Exception) -> None:
        if self._stopping.is_set():
            return
        name = one.stream.name
        self._service.lags.behind(name)
        self._service.failures[name] = str(error).splitlines()[0] if str(error) else repr(error)
        again = "it is not tried again" if self._processor.superseded else f"trying again in {one.wait_s:g} s"
        what = f"stream {name!r}" if name != PUSHED else "pushed events"
        log.error("%s stopped, %s: %s", what, again, error)
        one.again_at = time.monotonic() + one.wait_s
        one.wait_s = min(2 * one.wait_s, LONGEST_WAIT_S)
