"""Resident memory of this process and all that it started: Spark's JVM and its Python workers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil

EVERY_S = 0.05


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
        """Look once. Pages that processes share are divided between them, where the system tells (Linux)."""
        kinds = {"java": 0, "": 0}
        me = psutil.Process()
        for process in [me, *me.children(recursive=True)]:
            with suppress(psutil.Error):
                full = process.memory_full_info()
                kinds["java" if process.name() == "java" else ""] += getattr(full, "pss", full.rss)
        self.jvm, self.python = max(self.jvm, kinds["java"]), max(self.python, kinds[""])
        self.peak = max(self.peak, sum(kinds.values()))


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
