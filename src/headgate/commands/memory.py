"""Resident memory of this process and all that it started: Spark's JVM and its Python workers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil

EVERY_S = 0.2


@dataclass
class Memory:
    """Bytes: `idle` at the beginning, `peak` since; `python` and `jvm` are the peaks of each kind of process."""

    idle: int = 0
    peak: int = 0
    python: int = 0
    jvm: int = 0

    @property
    def grown(self) -> int:
        """What the work took on top."""
        return max(0, self.peak - self.idle)

    def take(self) -> None:
        """Look once. Pages that Python workers share are divided between them, where the system tells (Linux)."""
        jvm = python = 0
        me = psutil.Process()
        for process in [me, *me.children(recursive=True)]:
            with suppress(psutil.Error):
                if process.name() == "java":  # shares nothing, and dividing its pages would cost it dearly
                    jvm += process.memory_info().rss
                else:
                    full = process.memory_full_info()
                    python += getattr(full, "pss", full.rss)
        self.jvm, self.python, self.peak = (
            max(self.jvm, jvm),
            max(self.python, python),
            max(self.peak, jvm + python),
        )


@contextmanager
def watched() -> Iterator[Memory]:
    """Memory while the block runs."""
    memory, over = Memory(), threading.Event()
    memory.take()
    memory.idle = memory.peak

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
