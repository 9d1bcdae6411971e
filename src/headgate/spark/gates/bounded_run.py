"""What a bounded step and the steps nested in it share while they run: the
summary, the sink, and how to cancel.
"""

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
"""Where the search for the best wave size begins. The paper's threshold is 1,000 rows for each
worker, but a Spark job costs more than a batch in the paper's engine.
"""
LARGEST_WAVE = 16_000_000


@dataclass
class RunSummary:
    """Counts of one run."""

    waves: int = 0
    retried: int = 0
    rows: int = 0
    """Rows that passed all gates together: output rows where the gate counts those, otherwise input rows."""
    most_in_flight: int = 0
    """The largest number of rows, counted in the same way, that were in flight through one gate at once."""
    batch: int = 0
    """The size of waves at the outermost gate, when the last one was admitted."""


class Cancelled(Exception):
    """The run is over: another wave failed, or the consumer stopped reading."""


class BoundedRun:
    """One run of a bounded step, shared with the steps nested in it.

    `finish` turns the DataFrame of a wave into its result, by running a job; `emit` hands the result on.
    """

    def __init__(
        self, df: DataFrame, finish: Callable[[DataFrame, str], Any], emit: Callable[[Any], None]
    ) -> None:
        self.spark = df.sparkSession
        self.context = self.spark.sparkContext
        self.tag = f"headgate-{uuid.uuid4().hex[:12]}"
        self.summary = RunSummary()
        least = ROWS_PER_CORE * self.context.defaultParallelism
        self.sizes: dict[int, WaveSize] = defaultdict(lambda: WaveSize(least, LARGEST_WAVE))
        """What is known about the best wave size, by depth of nesting: gates at the
        same depth guard the same step.
        """
        self.lock = threading.Lock()
        self.expanding = threading.Lock()
        """Held while the user's `expand` is called: it, and the functions that Spark pickles for it, need not be
        safe for threads. (A function of numba is not: it fails if two threads pickle it for the first time.)
        """
        self._emitting = threading.Lock()
        self._finish, self._emit = finish, emit
        self.stopped = False
        self.failure: BaseException | None = None

    def deliver(self, frame: DataFrame, stamp: Stamp) -> None:
        """Run the job of a wave, then emit its result."""
        result = self._finish(frame, "-".join(map(str, stamp)) + "-" + uuid.uuid4().hex[:8])
        with self._emitting:
            self.check()
            self._emit(result)

    @contextmanager
    def named(self, description: str) -> Iterator[None]:
        """Tag the jobs of this thread as part of the run, and let them share the
        cores fairly with its other waves.
        """
        context, before = self.context, {}
        settings = {
            "spark.scheduler.pool": threading.current_thread().name,
            "spark.job.description": description,
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
        """Raise `Cancelled` if the run is over."""
        if self.stopped:
            raise Cancelled

    def cancel(self, why: BaseException | None = None) -> None:
        """Cancel all jobs that are still running. If it is called several times, the first reason is kept."""
        with self.lock:
            first, self.stopped = not self.stopped, True
            if first or self.failure is None:
                self.failure = why
        if first:
            self.context.cancelJobsWithTag(self.tag)
