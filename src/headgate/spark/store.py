"""Files of a checkpoint, through fsspec: a folder and an object store look the same from here.

The one promise that the commit rests on: `create` makes a file appear whole or not at all, and only once. Errors of the file system
leave here as headgate's own, naming the path.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from headgate.errors import CheckpointError, StorageFull


@contextmanager
def translated(path: str, doing: str) -> Iterator[None]:
    """File system errors, as ours."""
    try:
        yield
    except OSError as error:
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
        """Write a file whose name nobody else uses; returns its size. Durable before it returns, if asked for."""
        path, size = self.path(name), 0
        with translated(path, "writing"):
            if self.local:
                with open(path, "wb", buffering=0) as file:
                    for part in parts:
                        view = memoryview(part).cast("B")
                        size += len(view)
                        while len(view):
                            view = view[file.write(view) :]
                    if self.durable:
                        os.fdatasync(file.fileno())
            else:
                with self.fs.open(path, "wb") as file:
                    for part in parts:
                        size += file.write(memoryview(part).cast("B"))
        return size

    def create(self, name: str, data: bytes) -> None:
        """Make a file appear whole, once: FileExistsError when it is there already."""
        path = self.path(name)
        if not self.local:
            with translated(path, "writing"):
                self.fs.pipe_file(path, data, mode="create")
            return
        temporary = f"{path}.{uuid.uuid4().hex}.tmp"
        try:
            self.write(os.path.relpath(temporary, self.root), [data])
            try:
                os.link(temporary, path)
            except FileExistsError:
                raise
            except OSError as error:
                raise CheckpointError(f"cannot create {path}: {error}") from error
            if self.durable:
                folder = os.open(os.path.dirname(path), os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
        finally:
            if os.path.exists(temporary):
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
        """A file, or a range of its bytes (negative from the end)."""
        with translated(self.path(name), "reading"):
            data: bytes = self.fs.cat_file(self.path(name), start=start, end=end)
        return data

    def exists(self, name: str) -> bool:
        """Whether a file is there."""
        return bool(self.fs.exists(self.path(name)))

    def names(self, folder: str) -> list[str]:
        """File names in a folder, sorted; none if the folder is not there."""
        self.fs.invalidate_cache()
        if not self.fs.isdir(self.path(folder)):
            return []
        with translated(self.path(folder), "listing"):
            return sorted(
                p.rstrip("/").rsplit("/", 1)[-1] for p in self.fs.ls(self.path(folder), detail=False)
            )

    def remove(self, *names: str) -> None:
        """Remove files or folders; what is not there is no error."""
        for name in names:
            path = self.path(name)
            try:
                if self.local and not os.path.isdir(path):
                    os.unlink(path)
                else:
                    self.fs.rm(path, recursive=True)
            except FileNotFoundError:
                continue
