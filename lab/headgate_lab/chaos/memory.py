"""The memory that the workers of an executor share, as a dictionary (`headgate.storage.bin_cache`)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from headgate.state.layout import HEAD_SLOTS
from headgate.storage.bin_cache import DEAD

Bytes = NDArray[np.uint8]


class SharedMemory:
    """The files of all executors, by path. Those of before are copied when they are first used."""

    def __init__(self, before: Mapping[str, bytes]) -> None:
        self._before = dict(before)
        self.buffers: dict[str, Bytes] = {}
        self.locked: dict[str, SharedFile] = {}

    def file(self, path: str) -> SharedFile:
        """A worker's view of a file."""
        return SharedFile(self, path)

    def attach(self, path: str) -> Bytes | None:
        """The bytes of a file, if there is one."""
        data = self._before.pop(path, None)
        if data is not None:
            self.buffers[path] = np.frombuffer(data, np.uint8).copy()
        return self.buffers.get(path)

    def put(self, path: str, buffer: Bytes | None) -> None:
        """Replace a file, or remove it."""
        self._before.pop(path, None)
        self.buffers.pop(path, None)
        if buffer is not None:
            self.buffers[path] = buffer

    def contents(self) -> dict[str, bytes]:
        """A copy of every file."""
        return self._before | {path: buffer.tobytes() for path, buffer in self.buffers.items()}


class SharedFile:
    """One file, as one worker sees it (`headgate.storage.bin_cache.CacheFile`)."""

    def __init__(self, memory: SharedMemory, path: str) -> None:
        self._memory, self._path = memory, path
        self._current: Bytes | None = None

    def lock(self) -> bool:
        return self._memory.locked.setdefault(self._path, self) is self

    def unlock(self) -> None:
        if self._memory.locked.get(self._path) is self:
            del self._memory.locked[self._path]

    def attach(self) -> Bytes | None:
        self._current = self._memory.attach(self._path)
        return self._current

    def drop(self) -> None:
        _kill(self.attach())
        self._current = None
        self._memory.put(self._path, None)

    def allocate(self, nbytes: int) -> Bytes:
        _kill(self._current)
        self._current = np.zeros(nbytes, np.uint8)
        self._memory.put(self._path, self._current)
        return self._current


def _kill(buffer: Bytes | None) -> None:
    if buffer is not None:
        buffer[: 8 * HEAD_SLOTS].view(np.int64)[DEAD] = 1
