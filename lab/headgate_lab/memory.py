"""Resident memory of this process and all that it started: Spark's JVM and its Python workers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psutil

EVERY_S = 0.2


@dataclass
class Memory:
    """Bytes at the beginning and the most since: of Python processes, of the JVM, of both at one
    moment, and of what `also` counts.
    """

    also: Callable[[], Mapping[str, int]] = dict
    idle: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    course: list[tuple[float, int]] = field(default_factory=list)
    """Both together over time: a clock's seconds and bytes."""

    @property
    def peak(self) -> int:
        """The most of both together."""
        return self.most["all"]

    def grown(self, kind: str = "all") -> int:
        """What the work needed in addition: "all", "python", "jvm", or a name of `also`."""
        return max(0, self.most[kind] - self.idle[kind])

    def take(self) -> None:
        """Look once. Pages that Python workers share are divided between them, where
        the system tells (Linux).
        """
        now = {"python": 0, "jvm": 0}
        me = psutil.Process()
        for process in [me, *me.children(recursive=True)]:
            with suppress(psutil.Error):
                if (
                    process.name() == "java"
                ):  # the JVM shares no pages, and asking the system would slow it down
                    now["jvm"] += process.memory_info().rss
                else:
                    full = process.memory_full_info()
                    now["python"] += getattr(full, "pss", full.rss)
        now["all"] = sum(now.values())
        now |= self.also()
        self.course.append((time.perf_counter(), now["all"]))
        self.idle = self.idle or now
        self.most = {kind: max(size, self.most.get(kind, 0)) for kind, size in now.items()}


@contextmanager
def watched(also: Callable[[], Mapping[str, int]] = dict) -> Iterator[Memory]:
    """Measure memory while the block runs; `also` counts other bytes at the same moments."""
    memory, over = Memory(also), threading.Event()
    memory.take()

    def look() -> None:
        while not over.wait(EVERY_S):
            memory.take()

    watcher = threading.Thread(target=look, name="headgate-memory", daemon=True)
    watcher.start()
    try:
        yield memory
    finally:
        over.set()
        watcher.join()
        memory.take()
