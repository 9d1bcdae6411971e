"""Which of several processes leads a service: the one that opens it, runs its batches and answers requests.

Leading is only about who tries. That nobody else does harm is the work of fences, which need no clock: the newest claim
in the commit log (`storage.commit_log`), the registry's owner (`registry`), and `Fence` for pushed events.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol

from headgate.errors import CheckpointError, ConfigError, HeadgateError, Superseded
from headgate.service.private import private_folder
from headgate.service.registry import Registry
from headgate.storage.commit_log import CommitLog
from headgate.storage.outside import unique

LOCK = "lock"
_ROW = "lease"
_FIRST = "INSERT INTO about VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
_SWAP = "UPDATE about SET value = ? WHERE name = ? AND value = ?"


class Leadership(Protocol):
    """A claim to lead that one process holds at a time."""

    def take(self) -> bool:
        """Try once; whether this process leads now."""

    def keep(self) -> bool:
        """Renew; False if another process has taken it."""

    def release(self) -> None:
        """Let the next process lead at once."""


class FolderLock:
    """A lock on a file of the folder. The kernel releases it when its process dies, in whatever way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: IO[str] | None = None

    def take(self) -> bool:
        """Try once."""
        private_folder(self.folder)
        file = open(self.folder / LOCK, "a+", encoding="utf-8")  # noqa: SIM115 (it stays open)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        self._file = file
        return True

    def keep(self) -> bool:
        """Nobody else can take it."""
        return True

    def release(self) -> None:
        """Unlock the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def holder(self) -> str:
        """The process that holds it, as far as known."""
        with suppress(OSError):
            return (self.folder / LOCK).read_text(encoding="utf-8").strip() or "unknown"
        return "unknown"


class Lease:
    """A row of the registry that its holder changes again and again.

    Whoever has watched the row stay the same for `lease_s`, by its own clock, may take it; so clocks need not agree.
    """

    def __init__(
        self, registry: Registry, lease_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._registry, self._lease_s, self._clock = registry, lease_s, clock
        self._me = f"{socket.gethostname()}/{os.getpid()}/{unique()[:8]}"
        self._seen, self._since = "", 0.0

    def take(self) -> bool:
        """Try once. A row that was released, or never written, is taken at once."""
        found = self._read()
        if not found or _holder(found) in ("", self._me):
            return self._swap(found)
        if found != self._seen:
            self._seen, self._since = found, self._clock()
        return self._clock() - self._since >= self._lease_s and self._swap(found)

    def keep(self) -> bool:
        """Renew. A registry that cannot be reached is no reason to stop: the row then says who leads."""
        try:
            found = self._read()
            return _holder(found) == self._me and self._swap(found)
        except HeadgateError:
            return True

    def release(self) -> None:
        """Name nobody as the holder."""
        with suppress(HeadgateError):
            found = self._read()
            if _holder(found) == self._me:
                self._swap(found, "")
        self._registry.close()

    def holder(self) -> str:
        """Who holds it."""
        return _holder(self._read()) or "nobody"

    def _read(self) -> str:
        rows = self._registry.read("SELECT value FROM about WHERE name = ?", _ROW)
        return str(rows[0][0]) if rows else ""

    def _swap(self, found: str, holder: str | None = None) -> bool:
        """Change the row if it is still as it was found."""
        count = int(found.partition(" ")[0]) + 1 if found else 0
        wanted = f"{count} {self._me if holder is None else holder}"
        self._registry.write((_FIRST, [(_ROW, wanted)]), (_SWAP, [(wanted, _ROW, found)]))
        return self._read() == wanted


class Both:
    """Two kinds of leadership, of which a process needs both."""

    def __init__(self, first: Leadership, second: Leadership) -> None:
        self._first, self._second = first, second
        self._has_first = False

    def take(self) -> bool:
        """Try once; the first is held while the second is awaited."""
        self._has_first = self._has_first or self._first.take()
        return self._has_first and self._second.take()

    def keep(self) -> bool:
        """Renew both."""
        return self._first.keep() and self._second.keep()

    def release(self) -> None:
        """Release both."""
        self._second.release()
        self._first.release()


def _holder(row: str) -> str:
    return row.partition(" ")[2]


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other services out of a folder while the block runs."""
    lock = FolderLock(folder)
    if not lock.take():
        raise ConfigError(
            f"another service (process {lock.holder()}) runs in {folder}: stop it, choose another --folder, "
            "or start this one with --standby"
        )
    try:
        yield
    finally:
        lock.release()


@contextmanager
def fenced(commits: CommitLog) -> Iterator[None]:
    """Around a write that no claim guards. The block may be answered for only if this raises nothing: then no
    other driver had claimed the state when the write was done, so whoever claims it later finds the write.
    """
    commits.check_mine()
    yield
    try:
        commits.check_mine()
    except Superseded as error:
        raise CheckpointError(
            "another service took over while this was written, and it is not known whether that one has seen it: "
            f"look before you send it again ({error})"
        ) from error
