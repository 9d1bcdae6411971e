"""Bin tables that an executor keeps between batches, shared by its Python workers.

Spark hands a task to any idle Python worker, so a cache in one process would miss whenever two
channels swap workers. Here a table lives in a file mapped into memory (on `/dev/shm` if there is
room): every worker of the machine sees the same bytes and updates them in place. Rules:

1. A table is read and used only under an exclusive lock on its file, and only if its *tag* is the
   one that the commit expects: the name of the last state file that holds this bin. If it is the
   name of an earlier file of the bin's chain, only the files after that one are applied. Otherwise
   the table is rebuilt from the checkpoint.
2. The tag is cleared before the first change and set after the batch's state file was written. A
   task that dies in between, or whose batch is never committed, leaves a tag that nobody expects.
3. A task that cannot get the lock (because a zombie attempt still holds it) works in private memory.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from typing import ClassVar, Protocol

import numpy as np
import xxhash
from numpy.typing import NDArray

from headgate.errors import ConfigError, StorageFull
from headgate.state.layout import HEAD_SLOTS, StateLayout, head
from headgate.state.table import BinTable

TAG = slice(head.OWNER, head.OWNER + 2)
DEAD = head.OWNER + 2
_SPARE = 1 << 28


class Found(Enum):
    """How a table was found: as the commit expects it, as of an earlier file, or not at all."""

    current = 0
    behind = 1
    nowhere = 2


def tag_of(name: str) -> tuple[int, int]:
    """The tag for the name of a state file; the empty name stands for a bin without state."""
    digest = xxhash.xxh3_128_intdigest(name.encode()) | 1
    return (digest >> 64) - (1 << 63), (digest & (2**64 - 1)) - (1 << 63)


def executor_identity() -> tuple[str, int]:
    """(host, process id of the executor's JVM), as seen from a Python worker: the JVM is its
    parent, or the parent of its daemon.
    """
    parent = os.getppid()
    try:
        with open(f"/proc/{parent}/cmdline", "rb") as file:
            daemon = b"pyspark.worker" in file.read().split(b"\0")  # every daemon has this argument, ours too
        if daemon:
            with open(f"/proc/{parent}/stat", encoding="ascii", errors="replace") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
    except OSError:
        pass
    return os.uname().nodename, parent


def cache_root(need: int = 0) -> str:
    """The folder for mapped files: backed by memory if there is room, otherwise the temporary folder."""
    shared = "/dev/shm"
    if os.access(shared, os.W_OK):
        info = os.statvfs(shared)
        if info.f_bavail * info.f_frsize > need + _SPARE:
            return shared
    return tempfile.gettempdir()


def own_folder(root: str) -> str:
    """This user's folder below a root that everyone may write to. A folder that another user made there under the
    name of ours, or a link, is never used.
    """
    path = os.path.join(root, f"headgate-{os.getuid()}")
    with suppress(FileExistsError):
        os.mkdir(path, mode=0o700)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise ConfigError(
            f"{path} is where this user's cache belongs, but it is not a folder of this user: somebody else may read and change "
            "what is in it. Remove it and start again"
        )
    if found.st_mode & 0o077:
        os.chmod(path, 0o700)
    return path


class BinCache:
    """The tables of one stage on one executor, as one Python worker sees them."""

    _opened: ClassVar[dict[str, BinCache]] = {}

    def __init__(
        self,
        stage: str,
        layout: StateLayout,
        base: str | None = None,
        *,
        files: Callable[[str], CacheFile] | None = None,
    ) -> None:
        """`base` is the folder for mapped files; by default the executor has its own, in memory if there is
        room. `files` makes a file of a path; by default it is mapped.
        """
        self.layout = layout
        self._file = files or MappedFile
        self._files: dict[int, CacheFile] = {}
        self._tables: dict[int, BinTable] = {}
        self._base = own_folder(cache_root()) if base is None else base
        self._folder = f"{executor_identity()[1]}/{stage}" if base is None else stage
        if base is None:
            os.makedirs(os.path.join(self._base, self._folder), mode=0o700, exist_ok=True)
            _sweep(self._base)

    @classmethod
    def of(cls, stage: str, layout: StateLayout) -> BinCache:
        """This process's cache for a stage."""
        cache = cls._opened.get(stage)
        if cache is None or cache.layout != layout:
            cache = cls._opened[stage] = cls(stage, layout)
        return cache

    def open(self, b: int, expected: str, stored: StoredBin) -> tuple[BinTable, Found]:
        """The table of bin b as of state file `expected`, with its tag cleared, and how it was found."""
        file = self._of(b)
        table, since = (
            self._locked(b, file, expected, stored) if file.lock() else (BinTable.create(self.layout), "")
        )
        if since is not None:
            for _ in stored.steps(table, since):
                pass
        if since is None or not expected:
            return table, Found.current
        return table, Found.behind if since else Found.nowhere

    def warm(self, b: int, expected: str, stored: StoredBin, late: Callable[[], bool]) -> bool:
        """Bring the table of bin b up to state file `expected` before anybody needs it, and say whether it was read
        from the beginning. It ends after a file of its chain as soon as it is `late`, and leaves a table in use alone.
        """
        file = self._of(b)
        if not file.lock():
            return False
        try:
            table, since = self._locked(b, file, expected, stored)
            steps = stored.steps(table, since) if since is not None else ()
            table.header[TAG] = tag_of(next((name for name in steps if late()), expected))
            return since == ""
        finally:
            file.unlock()

    def has(self, b: int, chain: Sequence[str]) -> bool:
        """Whether bin b is cached as of some file of its chain. Somebody may change that meanwhile."""
        table = self._current(b, self._of(b))
        return table is not None and tuple(table.header[TAG].tolist()) in map(tag_of, chain)

    def _of(self, b: int) -> CacheFile:
        file = self._files.get(b)
        if file is None:
            file = self._files[b] = self._file(f"{self._base}/{self._folder}/bin-{b}")
        return file

    def _locked(
        self, b: int, file: CacheFile, expected: str, stored: StoredBin
    ) -> tuple[BinTable, str | None]:
        """The table with its tag cleared, and the name of the earlier state file that it stands for: None if it is
        current, "" if it is new.
        """
        cached = self._current(b, file)
        tag = (0, 0) if cached is None else tuple(cached.header[TAG].tolist())
        if cached is not None and any(tag):
            since = None if tag == tag_of(expected) else ""
            if since is not None:
                since = next((name for name in reversed(stored.chain()) if tag_of(name) == tag), "")
            if since != "":
                cached.header[TAG] = 0
                return cached, since
        fresh = BinTable.create(self.layout, file.allocate, rows=stored.rows, heap=stored.heap)
        self._tables[b] = fresh
        return fresh, ""

    def settle(self, tables: dict[int, BinTable], name: str) -> None:
        """Tag the tables as being as of state file `name`, and unlock them."""
        for b, table in tables.items():
            table.header[TAG] = tag_of(name)
            if self._tables.get(b) is table:
                self._files[b].unlock()

    def evict(self, bins: Iterable[int]) -> None:
        """Evict tables from memory. A table that is locked is in use, and stays."""
        for b in bins:
            file = self._of(b)
            if file.lock():
                self._tables.pop(b, None)
                file.drop()
                file.unlock()

    def look(self, b: int, expected: str) -> BinTable | None:
        """The table of bin b if it is cached as of state file `expected`, otherwise None. It is not
        locked, and must not be changed.
        """
        file = self._files.get(b)
        table = None if file is None else self._current(b, file)
        return table if table is not None and tuple(table.header[TAG].tolist()) == tag_of(expected) else None

    def clear(self) -> None:
        """Drop everything."""
        self.evict(list(self._files))

    def release(self) -> None:
        """Unlock all tables; cleared tags stay cleared."""
        for file in self._files.values():
            file.unlock()

    def _current(self, b: int, file: CacheFile) -> BinTable | None:
        """The table that is mapped under the name of bin b, if there is one. Without the lock
        its arrays may move meanwhile.
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
        """Whether a mapping has the size that its header requires; a process
        may have died while making it.
        """
        if buffer.nbytes < 8 * HEAD_SLOTS:
            return False
        header = buffer[: 8 * HEAD_SLOTS].view(np.int64)
        capacity, heap = int(header[head.CAPACITY]), int(header[head.HEAP_SIZE])
        return capacity > 0 and self.layout.nbytes(capacity, heap) == buffer.nbytes


class StoredBin(Protocol):
    """A bin in the checkpoint."""

    @property
    def rows(self) -> int:
        """How many rows it has, as far as that is known."""

    @property
    def heap(self) -> int:
        """How many bytes of them are of variable length."""

    def chain(self) -> Sequence[str]:
        """The names of the state files that make it up, oldest first."""

    def steps(self, table: BinTable, since: str) -> Iterator[str]:
        """Bring a table up to date that stands for the file `since` of the chain, or is empty if that is "". After each
        file its name is returned: the table stands for that file then.
        """


class CacheFile(Protocol):
    """The bytes of one table, which the workers of an executor share."""

    def lock(self) -> bool:
        """Take the lock, if nobody else has it; returns whether it was taken."""

    def unlock(self) -> None:
        """Release the lock, if this file has it."""

    def attach(self) -> NDArray[np.uint8] | None:
        """The existing bytes, if there are any."""

    def drop(self) -> None:
        """Remove them; whoever has them still sees that they are dead."""

    def allocate(self, nbytes: int) -> NDArray[np.uint8]:
        """New bytes, filled with zeros, that replace the old ones. The old ones are marked as dead."""


class MappedFile:
    """A file that is mapped. The lock lives in a file of its own, which is never replaced."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock: int | None = None
        self._current: NDArray[np.uint8] | None = None

    def lock(self) -> bool:
        if self._lock is not None:
            return True
        try:
            handle = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:  # somebody removed the folder
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
        """Map the existing file, if there is one."""
        self._current = None
        with suppress(FileNotFoundError), open(self.path, "r+b") as file:
            size = os.fstat(file.fileno()).st_size
            if size >= 8 * HEAD_SLOTS:
                self._current = np.frombuffer(mmap.mmap(file.fileno(), size), np.uint8)
        return self._current

    def drop(self) -> None:
        """Remove the file; processes that have it mapped see that it is dead."""
        buffer = self.attach()
        if buffer is not None:
            buffer[: 8 * HEAD_SLOTS].view(np.int64)[DEAD] = 1
        self._current = None
        with suppress(FileNotFoundError):
            os.unlink(self.path)

    def allocate(self, nbytes: int) -> NDArray[np.uint8]:
        """A new mapping, filled with zeros, that replaces the old one. The old one is marked as
        dead for processes that have it mapped.
        """
        temporary = f"{self.path}.new"
        try:
            with open(temporary, "w+b") as file:
                # Without this, a full file system would be a crash later instead of an error here.
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
    """Remove the folders of executors that no longer run."""
    for owner in os.listdir(root):
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}") and os.path.isdir("/proc/self"):
            shutil.rmtree(os.path.join(root, owner), ignore_errors=True)
