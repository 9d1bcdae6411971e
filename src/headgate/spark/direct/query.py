"""A direct stream that runs: a thread that plans, processes and commits batches."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from headgate import logs
from headgate.errors import ConfigError, HeadgateError, TaskFailed
from headgate.observe.events import Event, Listener
from headgate.observe.export.announcer import Announcer
from headgate.spark.direct.checks import check_folders, gentle_interrupt
from headgate.spark.direct.following import Following
from headgate.spark.direct.query_status import QueryStatus
from headgate.spark.direct.resolve import Resolved, resolved, stage_folder
from headgate.spark.direct.stream import Written
from headgate.spark.direct.trigger import Trigger
from headgate.spark.job_names import JobNames
from headgate.spark.stage import LockedStage
from headgate.stage.shown import Explanation
from headgate.stage.sinks import Sink
from headgate.stage.stage import KeyedStage
from headgate.stage.stages import Stages
from headgate.storage.store import Store
from headgate.streams.batch_size import BatchSize
from headgate.streams.drive import Drive, Progress
from headgate.streams.query_record import remember
from headgate.watch.live import cards, open_page
from headgate.watch.server import Page

__all__ = ["Query", "QueryStatus", "Trigger"]
log = logs.logger("headgate.stream")
REMEMBERED = 100
"""How many batches `progress` shows."""
SHORTEST_WAIT, LONGEST_WAIT = 0.01, 1.0
"""Seconds between two looks at a source that has no rows: the wait doubles from one look to the next."""


class Query(Stages):
    """A running direct stream. The methods of a stage exist here too: they act on all stages of the
    query, or on the one whose number is given as `stage`.
    """

    def __init__(
        self,
        spark: SparkSession,
        stages: list[LockedStage[Any]],
        drive: Drive[Any],
        trigger: Trigger,
        text: str,
        opened: Callable[[], None],
        announcer: Announcer,
    ) -> None:
        """`opened` is called when the query has taken over its checkpoint."""
        self._spark = spark
        self.stages, self._drive, self._trigger, self._text = stages, drive, trigger, text
        self._opened, self._announcer = opened, announcer
        for number, stage in enumerate(stages):
            stage.number = number
            stage.watchers.append(announcer.take)
        self._progress: deque[Progress] = deque(maxlen=REMEMBERED)
        self._stopping, self._ended, self._wake = threading.Event(), threading.Event(), threading.Event()
        self._idle = threading.Condition()
        self._looks = self._found_nothing = 0
        """How often the loop has looked at the sources, and the last time that there was nothing to do."""
        self._error: BaseException | None = None
        self._page: Page | None = None
        self._thread = threading.Thread(target=self._run, name="headgate-query", daemon=True)

    def __repr__(self) -> str:
        return f"Query({', '.join(map(repr, self.stages))}, {self.state})"

    @classmethod
    def of(
        cls,
        written: Written,
        checkpoint: str,
        trigger: Trigger,
        announcer: Announcer | None = None,
        *,
        durable: bool,
    ) -> Query:
        """Check a stream, and make the query that will run it. Nothing is written yet."""
        if not isinstance(checkpoint, str | os.PathLike) or not os.fspath(checkpoint):
            raise ConfigError(f"checkpoint={checkpoint!r} is not a folder; write start('checkpoints/users')")
        checkpoint = os.fspath(checkpoint)
        plan = resolved(written, checkpoint)
        check_folders(plan, written.sink, checkpoint)
        stages = _stages(plan, written.sink, checkpoint, durable=durable)
        first = plan.stages[0]
        drive = Drive(
            stages,
            [resolved_input.input for resolved_input in first.inputs],
            first.rows_of,
            size=BatchSize(most=trigger.max_rows, seconds=trigger.latency),
            tasks=plan.tasks,
            now=time.perf_counter,
        )
        place = Store(checkpoint, durable=durable)
        return cls(
            written.spark,
            stages,
            drive,
            trigger,
            plan.text(),
            partial(remember, place, len(stages), written.sink),
            announcer or Announcer(),
        )

    def begin(self) -> Query:
        """Check the query against its checkpoint, take that over, and start."""
        self._drive.open()
        self._opened()
        opened = self._drive.first.opened
        assert opened is not None, "the drive has opened it"
        self._announcer.identify(opened.checkpoint.stage)
        self._thread.start()
        return self

    # -- the loop

    def _run(self) -> None:
        with logs.about(query=self.name):
            try:
                JobNames(self._spark).begin(self.name, f"headgate-{id(self):x}")
                self._announcer.tell(Event.started)
                self._loop()
                self._announcer.tell(Event.stopped if self._stopping.is_set() else Event.ended)
            except BaseException as error:
                self._error = error
                log.error("the query failed: %s", error)
                self._announcer.tell(Event.failed, error=error)
            finally:
                self._ended.set()
                with self._idle:
                    self._idle.notify_all()

    def _loop(self) -> None:
        trigger, wait, began = self._trigger, SHORTEST_WAIT, time.time()
        due = time.monotonic()
        while not self._stopping.is_set():
            with self._idle:
                self._looks += 1
            progress = self._drive.step(began if trigger.available_now else time.time())
            if progress is not None:
                self._progress.append(progress)
                self._announcer.tell(Event.batch, progress=progress, requests=progress.store_requests)
                wait = SHORTEST_WAIT
            else:
                self._announcer.idle()
                with self._idle:
                    self._found_nothing = self._looks
                    self._idle.notify_all()
                if trigger.available_now:
                    return
            if trigger.seconds is not None:
                now = time.monotonic()
                due = (
                    max(due + trigger.seconds, now) if due + trigger.seconds < now else due + trigger.seconds
                )
                self._stopping.wait(due - now)
            elif progress is None:
                self._wake.wait(wait)
                self._wake.clear()
                wait = min(2 * wait, LONGEST_WAIT)

    # -- from outside

    @property
    def state(self) -> str:
        """running, ended, stopped or failed."""
        if not self._ended.is_set():
            return "running"
        if self._error is not None:
            return "failed"
        return "stopped" if self._stopping.is_set() else "ended"

    @property
    def name(self) -> str:
        """The name that was given, or the first digits of the checkpoint's id. Metrics and logs have it."""
        return self._announcer.query

    @property
    def listeners(self) -> list[Listener]:
        """Functions that are called with each `hg.observe.QueryEvent`, in the thread of the query: add to the list,
        or remove from it, at any time. An error of a listener is logged, and does not stop the query.
        """
        return self._announcer.listeners

    @property
    def metrics_port(self) -> int | None:
        """The port on which Prometheus finds the metrics."""
        return None if self._announcer.port is None else self._announcer.port.port

    @property
    def is_active(self) -> bool:
        """Whether the query runs."""
        return not self._ended.is_set()

    @property
    def progress(self) -> list[Progress]:
        """The last batches, oldest first."""
        return list(self._progress)

    @property
    def next_batch(self) -> int:
        """The number of the batch that runs, or will run next."""
        return self._drive.batch

    def await_end(self, timeout: float | None = None) -> bool:
        """Wait until the query has ended, or for `timeout` seconds; say whether it has. If it failed, its
        error is raised. An interrupt (Ctrl-C) stops the query after its current batch.
        """
        if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float)):
            raise ConfigError(
                f"await_end({timeout!r}) takes a number of seconds, such as await_end(10), or nothing"
            )
        try:
            with gentle_interrupt():
                ended = self._wait(self._ended.wait, timeout)
        except KeyboardInterrupt:
            self.stop()
            raise
        if ended and self._error is not None:
            raise self._failure()
        return ended

    def process_all_available(self) -> None:
        """Wait until the sources have no more rows, and nothing is due."""
        with self._idle:
            wanted = self._looks + 1  # the current look may have begun before the newest rows came
            self._wake.set()
            try:
                with gentle_interrupt():
                    while self._found_nothing < wanted and not self._ended.is_set():
                        self._idle.wait(1.0)
            except KeyboardInterrupt:
                self._stopping.set()
                self._wake.set()
                raise
        if self._error is not None:
            raise self._failure()
        if self._found_nothing < wanted and self.state == "stopped":
            raise ConfigError(
                "the query was stopped, so rows may be left: start it again on the same checkpoint before process_all_available()"
            )

    def _chosen(self, number: int | None) -> Sequence[KeyedStage[Any]]:
        """The stages that a change is meant for; a query that has ended cannot be changed."""
        if not self.is_active:
            raise ConfigError(
                f"the query does not run any more ({self.state}): start it again, and change that one"
            )
        return super()._chosen(number)

    def _wait(self, wait: Callable[[float | None], bool], timeout: float | None) -> bool:
        """Wait in pieces, so that an interrupt is noticed."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = 1.0 if until is None else min(1.0, until - time.monotonic())
            if wait(max(0.0, left)) or (until is not None and time.monotonic() >= until):
                return self._ended.is_set()

    def _failure(self) -> BaseException:
        error = self._error
        assert error is not None
        if isinstance(error, HeadgateError) or not isinstance(error, Exception):
            return error
        failure = TaskFailed(
            f"the query failed: {type(error).__name__}: {error}. Nothing of the batch was committed, unless its number is in the journal"
        )
        failure.__cause__ = error
        return failure

    def stop(self) -> None:
        """Stop after the current batch, and wait for that. Stopping twice is harmless."""
        self._stopping.set()
        self._wake.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def finish(self) -> None:
        """Declare the input complete, once the query has ended: close and emit everything that is open
        (windows, sessions, rows that wait for a match). The checkpoint accepts no batch after that.
        """
        if self.is_active:
            raise ConfigError("the query still runs; call stop() or await_end() before finish()")
        self._drive.finish()
        self._announcer.tell_rest()

    def status(self) -> QueryStatus:  # type: ignore[override]
        """Whether it runs, the last batch, and the channels, loads and last decision of each stage."""
        last = self._progress[-1] if self._progress else None
        error = "" if self._error is None else f"{type(self._error).__name__}: {self._error}"
        return QueryStatus(self.state, last, tuple(stage.status() for stage in self.stages), error)

    def explain(self) -> Explanation:
        """The sources, which steps are columnar, keys and operators; then why each stage's last plan was
        made, or refused.
        """
        return Explanation(f"{self._text}\n\n{super().explain()}")

    def page(self, *, host: str = "127.0.0.1", port: int = 0) -> Page:
        """Serve a live page of the query, and return it: `query.page().url` is its address. It ends with the
        process, or with `close()`; a page that is open is returned again. From another process:
        `headgate watch CHECKPOINT`.
        """
        if self._page is None or not self._page.is_open:
            self._page = open_page(
                self.stages,
                name=self.name,
                state=lambda: self.state,
                planning=lambda: {one.batch: one.planning_ms for one in self.progress},
                host=host,
                port=port,
            )
        return self._page

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """A notebook shows the channels and their loads: live once `page` was called, else as they are now."""
        headline = f"query {self.name}: {str(self.status()).splitlines()[0]}"
        return {"text/plain": repr(self), "text/html": cards(self.stages, headline, self._page)}

    def __enter__(self) -> Query:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _stages(plan: Resolved, sink: Sink, checkpoint: str, *, durable: bool) -> list[LockedStage[Any]]:
    """The stages of a query, first to last. One alone has the checkpoint for itself, others a part each."""
    stages: list[LockedStage[Any]] = []
    following: Following | None = None
    for number, spec in reversed(list(enumerate(plan.stages))):
        folder = stage_folder(checkpoint, number, len(plan.stages))
        stage: LockedStage[Any] = LockedStage(
            spec.engine,
            key=spec.spec.key,
            operator=spec.spec.operator,
            checkpoint=folder,
            sink=following or sink,
            expansion=spec.inputs[0].expansions,
            durable=durable,
            shaping=None if following else plan.shaping,
            **spec.spec.settings,
        )
        if following is not None:
            following.origin = _origin_of(stage)
        stages.insert(0, stage)
        if number:
            following = Following(stage, spec.rows_of, plan.stages[number - 1].output)
            following.steps = spec.inputs[0].input.steps
    return stages


def _origin_of(stage: LockedStage[Any]) -> Callable[[], str]:
    def origin() -> str:
        assert stage.opened is not None, "a stage that publishes is open"
        return f"stage:{stage.opened.checkpoint.stage}"

    return origin
