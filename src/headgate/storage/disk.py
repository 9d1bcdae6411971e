"""The operations of a local disk that a store needs, and the disk of this machine.

A store reaches a local disk through these operations alone. A file system of fsspec that can link,
rename and append may offer them too, as its attribute `disk`; then a store treats it as a disk.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol


class Disk(Protocol):
    """A disk. Errors are those of the operating system (`OSError`)."""

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it, unless they exist."""

    def write(self, path: str, parts: Sequence[Any], *, durable: bool) -> int:
        """Write a file and return its size. If `durable` is set, its content
        survives a loss of power. If it fails, half a file does not stay.
        """

    def append(self, path: str, data: bytes) -> None:
        """Add to the end of a file, which is made if necessary."""

    def link(self, path: str, to: str) -> None:
        """Give a file a second name, in one step; raise FileExistsError if it is taken."""

    def replace(self, path: str, to: str) -> None:
        """Rename a file in one step; a file of that name is replaced."""

    def rename(self, path: str, to: str) -> None:
        """Rename a file or a folder in one step."""

    def remove(self, path: str) -> None:
        """Remove a file."""

    def remove_folder(self, path: str) -> None:
        """Remove a folder and all that is in it."""

    def flush(self, path: str) -> None:
        """Make the names in a folder durable."""

    def read(self, path: str, start: int | None, end: int | None) -> bytes:
        """Read a file or a range of its bytes; a negative `start` counts from the end."""

    def size(self, path: str) -> int:
        """The size of a file in bytes. A folder has a size, too."""

    def names(self, path: str) -> list[str]:
        """The names in a folder, in any order."""

    def is_folder(self, path: str) -> bool:
        """Whether the path is that of a folder."""


class LocalDisk:
    """The disk of this machine."""

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it, unless they exist."""
        os.makedirs(path, exist_ok=True)

    def write(self, path: str, parts: Sequence[Any], *, durable: bool) -> int:
        """Write a file and return its size."""
        size = 0
        with open(path, "wb", buffering=1 << 20) as file:  # a state file has thousands of small parts
            try:
                for part in parts:
                    size += file.write(memoryview(part).cast("B"))
                file.flush()
                if durable:
                    os.fdatasync(file.fileno())
            except OSError:
                with suppress(OSError):  # half a file is useless, and on a full disk it wastes space
                    os.unlink(path)
                raise
        return size

    def append(self, path: str, data: bytes) -> None:
        """Add to the end of a file."""
        with open(path, "ab") as file:
            file.write(data)

    def link(self, path: str, to: str) -> None:
        """Give a file a second name, in one step."""
        os.link(path, to)

    def replace(self, path: str, to: str) -> None:
        """Rename a file in one step, over another one if necessary."""
        os.replace(path, to)

    def rename(self, path: str, to: str) -> None:
        """Rename a file or a folder in one step."""
        os.rename(path, to)

    def remove(self, path: str) -> None:
        """Remove a file."""
        os.unlink(path)

    def remove_folder(self, path: str) -> None:
        """Remove a folder and all that is in it."""
        shutil.rmtree(path)

    def flush(self, path: str) -> None:
        """Make the names in a folder durable."""
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def read(self, path: str, start: int | None, end: int | None) -> bytes:
        """Read a file or a range of its bytes."""
        with open(path, "rb", buffering=0) as file:
            if start is None and end is None:
                return file.read()
            size = os.fstat(file.fileno()).st_size
            first = 0 if start is None else max(0, size + start) if start < 0 else start
            last = size if end is None else size + end if end < 0 else end
            file.seek(first)
            return file.read(max(0, last - first))

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        return os.stat(path).st_size

    def names(self, path: str) -> list[str]:
        """The names in a folder, in any order."""
        return os.listdir(path)

    def is_folder(self, path: str) -> bool:
        """Whether the path is that of a folder."""
        return os.path.isdir(path)
