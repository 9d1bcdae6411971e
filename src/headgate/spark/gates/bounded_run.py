"""What a bounded step and those inside of it share while they run: how a wave ends, where results go, and how to stop all of it."""

from __future__ import annotations

import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from headgate.flow.progress import Stamp
from headgate.flow.wave_size import WaveSize

ROWS_PER_CORE = 10_000
"""Where the search for a wave's size begins. The paper's threshold is 1,000 for each worker, but a Spark job costs more than a batch
there."""
LARGEST_WAVE = 16_000_000


@dataclass
class RunSummary:
    """What a run did."""

    waves: int = 0
    retried: int = 0
    rows: int = 0
    """Input rows, or output rows where the gate counts these, of all gates together."""
    most_in_flight: int = 0
    """The most that was in flight through one gate at a time, in the same count."""
    batch: int = 0
    """The size of the outermost gate's last wave."""


class Cancelled(Exception):
    """Another wave failed, or the consumer went away."""


class BoundedRun:
    """What a step and those inside of it share: how a wave ends, where results go, and how to stop all of it."""

    def __init__(
        self, df: DataFrame, finish: Callable[[DataFrame, str], Any], emit: Callable[[Any], None]
    ) -> None:
        self.spark = df.sparkSession
        self.context = self.spark.sparkContext
        self.tag = f"headgate-{uuid.uuid4().hex[:12]}"
        self.summary = RunSummary()
        least = ROWS_PER_CORE * self.context.defaultParallelism
        self.sizes: dict[int, WaveSize] = defaultdict(lambda: WaveSize(least, LARGEST_WAVE))
        """What is known of the size of waves, by depth: gates at one depth are around the same step."""
        self.lock = threading.Lock()
        self._emitting = threading.Lock()
        self._finish, self._emit = finish, emit
        self.stopped = False
        self.failure: BaseException | None = None

    def deliver(self, frame: DataFrame, stamp: Stamp) -> None:
        """The job of a wave, then its result."""
        result = self._finish(frame, "-".join(map(str, stamp)) + "-" + uuid.uuid4().hex[:8])
        with self._emitting:
            self.check()
            self._emit(result)

    @contextmanager
    def named(self, what: str) -> Iterator[None]:
        """Jobs of this thread belong to the run, and share the cores fairly with its other waves."""
        context, before = self.context, {}
        settings = {
            "spark.scheduler.pool": threading.current_thread().name,
            "spark.job.description": what,
        }
        for name, value in settings.items():
            before[name] = context.getLocalProperty(name)
            context.setLocalProperty(name, value)
        context.addJobTag(self.tag)
        try:
            yield
        finally:
            context.removeJobTag(self.tag)
            for name, old in before.items():
                context.setLocalProperty(name, old)

    def check(self) -> None:
        """Leave, if the run is over."""
        if self.stopped:
            raise Cancelled

    def cancel(self, why: BaseException | None = None) -> None:
        """End all jobs that are still running. The first reason is the one that counts."""
        with self.lock:
            first, self.stopped = not self.stopped, True
            if first or self.failure is None:
                self.failure = why
        if first:
            self.context.cancelJobsWithTag(self.tag)
