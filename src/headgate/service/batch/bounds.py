"""Bounds on what a worker process may take while it computes for tenants: time, and memory."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

AGAIN_S = 0.05
"""How often a computation that is late is interrupted: between two statements nothing hears it."""
LAST_RESORT_S = 5.0
"""How much longer than its limit an attempt may take in a worker process until the process is ended."""
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class Deadline:
    """Calls `interrupt` from a thread, again and again, once a block has taken longer than it may."""

    def __init__(self, seconds: float, interrupt: Callable[[], None]) -> None:
        self.seconds, self.interrupt = seconds, interrupt
        self.passed = False
        """Whether the block took too long."""

    def __enter__(self) -> Deadline:
        self._watch = _watch()
        self._watch.begin(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.end(self)


class _Watch:
    """A thread that watches the deadlines of this process. To start a thread for each block would take longer than most."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._changed = threading.Condition()
        self._due: dict[Deadline, float] = {}
        self._wakes = float("inf")
        """When the thread looks again."""
        threading.Thread(target=self._run, name="headgate-deadline", daemon=True).start()

    def begin(self, deadline: Deadline) -> None:
        with self._changed:
            due = self._due[deadline] = time.monotonic() + deadline.seconds
            if due < self._wakes:
                self._changed.notify()

    def end(self, deadline: Deadline) -> None:
        with self._changed:  # from here on it is not interrupted
            del self._due[deadline]

    def _run(self) -> None:
        with self._changed:
            while True:
                self._wakes = min(self._due.values(), default=float("inf"))
                now = time.monotonic()
                if self._wakes > now:
                    self._changed.wait(None if self._wakes == float("inf") else self._wakes - now)
                    now = time.monotonic()
                for deadline in [one for one, due in self._due.items() if due <= now]:
                    deadline.passed = True
                    with suppress(Exception):  # the next deadlines need this thread
                        deadline.interrupt()
                    self._due[deadline] = now + AGAIN_S


_watching: list[_Watch] = []


def _watch() -> _Watch:
    """The watch of this process: a process that was forked has no thread of the one before it."""
    if not _watching or _watching[-1].process != os.getpid():
        _watching[:] = [_Watch()]
    return _watching[-1]


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
