"""Files of a checkpoint, through fsspec: a folder and an object store look the same from here.

The one promise that the commit rests on: `create` makes a file appear whole or not at all, and only once.
Errors of the file system leave here as headgate's own, naming the path.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from headgate.errors import CheckpointError, StorageFull


@contextmanager
def translated(path: str, doing: str, *, passing: type[OSError] | None = None) -> Iterator[None]:
    """File system errors, as ours, except the one that is an answer and not a failure."""
    try:
        yield
    except OSError as error:
        if passing is not None and isinstance(error, passing):
            raise
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(
                f"no room left while {doing} {path}: free space and start again; nothing committed was changed"
            ) from error
        raise CheckpointError(f"{doing} {path} failed: {error}; mend the cause and start again") from error


class Store:
    """A folder on any fsspec file system. Picklable, so that tasks can carry it."""

    def __init__(self, url: str, *, durable: bool = True) -> None:
        self.url, self.durable = url, durable
        self._open()

    def _open(self) -> None:
        self.fs, self.root = fsspec.core.url_to_fs(self.url)
        self.local = isinstance(self.fs, LocalFileSystem)
        self.root = self.root.rstrip("/")
        self.url = self.fs.unstrip_protocol(self.root)  # absolute: a task has another working folder

    def __getstate__(self) -> dict[str, Any]:
        return {"url": self.url, "durable": self.durable}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    def path(self, name: str = "") -> str:
        """Full path of a name in this store."""
        return f"{self.root}/{name}" if name else self.root

    def child(self, name: str) -> Store:
        """A store below this one."""
        return Store(f"{self.url.rstrip('/')}/{name}", durable=self.durable)

    def make(self, *names: str) -> None:
        """Make sure that folders exist."""
        for name in names:
            with translated(self.path(name), "making folder"):
                self.fs.makedirs(self.path(name), exist_ok=True)

    def write(self, name: str, parts: list[Any]) -> int:
        """Write a file whose name nobody else uses; returns its size. Durable before it returns, if asked
        for.
        """
        path, size = self.path(name), 0
        with translated(path, "writing"):
            if self.local:
                size = self._write_local(path, parts)
            else:
                with self.fs.open(path, "wb") as file:
                    for part in parts:
                        size += file.write(memoryview(part).cast("B"))
        return size

    def _write_local(self, path: str, parts: list[Any]) -> int:
        size = 0
        with open(path, "wb", buffering=1 << 20) as file:  # a state file has thousands of small parts
            try:
                for part in parts:
                    size += file.write(memoryview(part).cast("B"))
                file.flush()
                if self.durable:
                    os.fdatasync(file.fileno())
            except OSError:
                with suppress(OSError):  # half a file is of no use, and on a full disk it is in the way
                    os.unlink(path)
                raise
        return size

    def create(self, name: str, data: bytes) -> None:
        """Make a file appear whole, once: FileExistsError when it is there already."""
        path = self.path(name)
        with translated(path, "creating", passing=FileExistsError):
            if self.local:
                self._appear(path, data, os.link)
            else:
                self.fs.pipe_file(path, data, mode="create")

    def replace(self, name: str, data: bytes) -> None:
        """Make a file appear whole in the place of one that may be there."""
        path = self.path(name)
        with translated(path, "replacing"):
            if self.local:
                self._appear(path, data, os.replace)
            else:
                self.fs.pipe_file(path, data)

    def _appear(self, path: str, data: bytes, step: Callable[[str, str], None]) -> None:
        temporary = f"{path}.{uuid.uuid4().hex}.tmp"
        try:
            self._write_local(temporary, [data])
            step(temporary, path)
            if self.durable:
                folder = os.open(os.path.dirname(path), os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)

    def append(self, name: str, line: str) -> None:
        """Add a line to a file (rewriting it where the file system cannot append)."""
        path = self.path(name)
        with translated(path, "appending to"):
            if self.local:
                with open(path, "a", encoding="utf-8") as file:
                    file.write(line + "\n")
            else:
                before = self.fs.cat_file(path) if self.fs.exists(path) else b""
                self.fs.pipe_file(path, before + (line + "\n").encode())

    def read(self, name: str, start: int | None = None, end: int | None = None) -> bytes:
        """A file, or a range of its bytes (negative from the end); FileNotFoundError when it is not there."""
        with translated(self.path(name), "reading", passing=FileNotFoundError):
            data: bytes = self.fs.cat_file(self.path(name), start=start, end=end)
        return data

    def exists(self, name: str) -> bool:
        """Whether a file is there. A file system that cannot tell is an error: a checkpoint must not look
        empty because of it.
        """
        try:
            with translated(self.path(name), "looking for", passing=FileNotFoundError):
                self.fs.info(self.path(name))
        except FileNotFoundError:
            return False
        return True

    def names(self, folder: str) -> list[str]:
        """File names in a folder, sorted; none if the folder is not there."""
        self.fs.invalidate_cache()
        try:
            with translated(self.path(folder), "listing", passing=FileNotFoundError):
                found = self.fs.ls(self.path(folder), detail=False)
        except FileNotFoundError:
            return []
        return sorted(p.rstrip("/").rsplit("/", 1)[-1] for p in found)

    def remove(self, *names: str) -> None:
        """Remove files or folders; what is not there is no error."""
        for name in names:
            path = self.path(name)
            with (
                suppress(FileNotFoundError),
                translated(path, "removing", passing=FileNotFoundError),
            ):
                if self.local and not os.path.isdir(path):
                    os.unlink(path)
                else:
                    self.fs.rm(path, recursive=True)
