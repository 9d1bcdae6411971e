"""Bin tables kept on an executor between batches, shared by its Python workers.

Spark hands a task to any idle Python worker, so a cache in one process would miss whenever two channels swap
workers. A table here lives in a file mapped into memory (on `/dev/shm` where that has room): every worker of
the machine sees the same bytes and updates them in place. Rules:

1. A table is looked at and used only under an exclusive lock on its file, and only if its *tag* is the one
   that the commit expects: the name of the last state file that holds this bin. Otherwise it is rebuilt from
   the checkpoint.
2. The tag is struck out before the first change and set after the batch's state file was written. A task that
   dies in between, or whose batch is never committed, leaves a tag that nobody expects.
3. Whoever cannot get the lock (a zombie attempt still holds it) works in private memory instead.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import ClassVar

import numpy as np
import xxhash
from numpy.typing import NDArray

from headgate.errors import StorageFull
from headgate.state.layout import HEAD_SLOTS, StateLayout, head
from headgate.state.table import BinTable

TAG = slice(head.OWNER, head.OWNER + 2)
DEAD = head.OWNER + 2
_SPARE = 1 << 28


def tag_of(name: str) -> tuple[int, int]:
    """The tag that stands for a state file's name; the empty name is a bin that has no state yet."""
    digest = xxhash.xxh3_128_intdigest(name.encode()) | 1
    return (digest >> 64) - (1 << 63), (digest & (2**64 - 1)) - (1 << 63)


def executor_identity() -> tuple[str, int]:
    """(host, process id of the executor's JVM) as seen from a Python worker: its parent, or its daemon's
    parent.
    """
    parent = os.getppid()
    try:
        with open(f"/proc/{parent}/cmdline", "rb") as file:
            daemon = b"pyspark.worker" in file.read().split(b"\0")  # the argument of every daemon, ours too
        if daemon:
            with open(f"/proc/{parent}/stat", encoding="ascii", errors="replace") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
    except OSError:
        pass
    return os.uname().nodename, parent


def cache_root(need: int = 0) -> str:
    """Where mappings live: memory-backed if it has room, else the temporary folder."""
    shared = "/dev/shm"
    if os.access(shared, os.W_OK):
        info = os.statvfs(shared)
        if info.f_bavail * info.f_frsize > need + _SPARE:
            return shared
    return tempfile.gettempdir()


class BinCache:
    """The tables of one stage on one executor, as one Python worker sees them."""

    _opened: ClassVar[dict[str, BinCache]] = {}

    def __init__(self, stage: str, layout: StateLayout, base: str | None = None) -> None:
        """`base` is a folder for the mappings; by default one of the executor's own, in memory where that has room."""
        self.layout = layout
        self._files: dict[int, _File] = {}
        self._tables: dict[int, BinTable] = {}
        mine = f"headgate-{os.getuid()}"
        self._base = cache_root() if base is None else base
        self._folder = f"{mine}/{executor_identity()[1]}/{stage}" if base is None else stage
        os.makedirs(os.path.join(self._base, self._folder), mode=0o700, exist_ok=True)
        if base is None:
            _sweep(os.path.join(self._base, mine))

    @classmethod
    def of(cls, stage: str, layout: StateLayout) -> BinCache:
        """This process's cache for a stage."""
        cache = cls._opened.get(stage)
        if cache is None or cache.layout != layout:
            cache = cls._opened[stage] = cls(stage, layout)
        return cache

    def open(self, b: int, expected: str, rebuild: Callable[[BinTable], None]) -> tuple[BinTable, bool]:
        """The table of bin b as of state file `expected`, tag struck out, and whether it had to be
        rebuilt.
        """
        file = self._files.get(b)
        if file is None:
            file = self._files[b] = _File(os.path.join(self._base, self._folder, f"bin-{b}"))
        if not file.lock():
            table = BinTable.create(self.layout)
            rebuild(table)
            return table, bool(expected)
        found = self._current(b, file)
        if found is not None and tuple(found.header[TAG].tolist()) == tag_of(expected):
            found.header[TAG] = 0
            return found, False
        fresh = self._tables[b] = BinTable.create(self.layout, file.allocate)
        rebuild(fresh)
        return fresh, bool(expected)

    def settle(self, tables: dict[int, BinTable], name: str) -> None:
        """The tables now stand as of state file `name`; unlock them."""
        for b, table in tables.items():
            table.header[TAG] = tag_of(name)
            if self._tables.get(b) is table:
                self._files[b].unlock()

    def evict(self, bins: Iterable[int]) -> None:
        """Let go of tables that are not to be in memory; one that is locked is somebody's, and stays."""
        for b in bins:
            file = self._files.get(b) or _File(os.path.join(self._base, self._folder, f"bin-{b}"))
            if file.lock():
                self._tables.pop(b, None)
                file.drop()
                file.unlock()

    def look(self, b: int, expected: str) -> BinTable | None:
        """The table of bin b if it is here as of state file `expected`. It is not locked, and must not be changed."""
        file = self._files.get(b)
        table = None if file is None else self._current(b, file)
        return table if table is not None and tuple(table.header[TAG].tolist()) == tag_of(expected) else None

    def clear(self) -> None:
        """Drop everything."""
        self.evict(list(self._files))

    def release(self) -> None:
        """Unlock everything, leaving struck tags as they are."""
        for file in self._files.values():
            file.unlock()

    def _current(self, b: int, file: _File) -> BinTable | None:
        """The table that is mapped under bin b's name, if one is; call it under the lock, or its arrays may
        change their places.
        """
        table = self._tables.get(b)
        if table is None or table.header[DEAD]:
            self._tables.pop(b, None)
            buffer = file.attach()
            if buffer is None or not self._fits(buffer):
                return None
            table = self._tables[b] = BinTable(self.layout, buffer, file.allocate)
        return table

    def _fits(self, buffer: NDArray[np.uint8]) -> bool:
        """Whether a mapping has the size that its header asks for; a process may have died while it was
        made.
        """
        if buffer.nbytes < 8 * HEAD_SLOTS:
            return False
        header = buffer[: 8 * HEAD_SLOTS].view(np.int64)
        capacity, heap = int(header[head.CAPACITY]), int(header[head.HEAP_SIZE])
        return capacity > 0 and self.layout.nbytes(capacity, heap) == buffer.nbytes


class _File:
    """One mapped file. The lock lives in a file of its own, which is never replaced."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock: int | None = None
        self._current: NDArray[np.uint8] | None = None

    def lock(self) -> bool:
        if self._lock is not None:
            return True
        try:
            handle = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:  # somebody cleaned the folder up
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            handle = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return False
        self._lock = handle
        return True

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def attach(self) -> NDArray[np.uint8] | None:
        """Map what is there, if anything is."""
        self._current = None
        with suppress(FileNotFoundError), open(self.path, "r+b") as file:
            size = os.fstat(file.fileno()).st_size
            if size >= 8 * HEAD_SLOTS:
                self._current = np.frombuffer(mmap.mmap(file.fileno(), size), np.uint8)
        return self._current

    def drop(self) -> None:
        """Remove what is there; other holders see that it is dead."""
        buffer = self.attach()
        if buffer is not None:
            buffer[: 8 * HEAD_SLOTS].view(np.int64)[DEAD] = 1
        self._current = None
        with suppress(FileNotFoundError):
            os.unlink(self.path)

    def allocate(self, nbytes: int) -> NDArray[np.uint8]:
        """A new, zeroed mapping that takes the place of the old one, which is marked dead for other
        holders.
        """
        temporary = f"{self.path}.new"
        try:
            with open(temporary, "w+b") as file:
                # A full file system is an error here, not a crash later.
                os.posix_fallocate(file.fileno(), 0, nbytes)
                buffer = np.frombuffer(mmap.mmap(file.fileno(), nbytes), np.uint8)
        except OSError as error:
            with suppress(OSError):
                os.unlink(temporary)
            raise StorageFull(
                f"no room for {nbytes} bytes of cached state under {os.path.dirname(self.path)} ({error}); "
                "give the executors more memory or shared memory, or use more of them"
            ) from error
        if self._current is not None:
            self._current[: 8 * HEAD_SLOTS].view(np.int64)[DEAD] = 1
        os.replace(temporary, self.path)
        self._current = buffer
        return buffer


def _sweep(root: str) -> None:
    """Remove what executors that are gone left behind."""
    for owner in os.listdir(root):
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}") and os.path.isdir("/proc/self"):
            shutil.rmtree(os.path.join(root, owner), ignore_errors=True)
