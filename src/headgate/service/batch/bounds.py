"""Bounds on what a worker process may take while it computes for tenants: time, and memory."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

AGAIN_S = 0.05
"""How often a computation that is late is interrupted: between two statements nothing hears it."""
LAST_RESORT_S = 5.0
"""How much longer than its limit an attempt may take in a worker process until the process is ended."""
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class Deadline:
    """Calls `interrupt` from a thread, again and again, once a block has taken longer than it may."""

    def __init__(self, seconds: float, interrupt: Callable[[], None]) -> None:
        self._seconds, self._interrupt = seconds, interrupt
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="headgate-deadline", daemon=True)
        self.passed = False
        """Whether the block took too long."""

    def __enter__(self) -> Deadline:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        wait = self._seconds
        while not self._done.wait(wait):
            self.passed, wait = True, AGAIN_S
            self._interrupt()


@contextmanager
def killed_after(seconds: float) -> Iterator[None]:
    """The kernel ends this process if the block takes longer, even if native code in it holds everything up. For worker
    processes only: the task fails, and the batch is tried again in careful form.
    """
    signal.setitimer(signal.ITIMER_REAL, seconds)  # nobody handles its signal, so the kernel ends the process
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


_idle: int | None = None
"""The memory that this process had mapped, and did not use, when it was first asked."""


@contextmanager
def memory_within(extra: int) -> Iterator[None]:
    """In the block, this process gets at most about so many bytes more than it uses. What asks for more fails; the
    process goes on. (Only Linux can do this. Elsewhere the engine's own limit is all there is.)

    Memory that was freed may stay mapped, and can be used again unnoticed, so it counts too.
    """
    global _idle
    if not sys.platform.startswith("linux"):
        yield
        return
    import resource

    pages = Path("/proc/self/statm").read_text().split()
    mapped, idle = PAGE * int(pages[5]), PAGE * (int(pages[5]) - int(pages[1]))
    if _idle is None:
        _idle = idle
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bound = mapped + max(extra // 8, extra - max(0, idle - _idle))
    if soft != resource.RLIM_INFINITY:
        bound = min(bound, soft)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
