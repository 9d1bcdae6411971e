"""A simulated local disk, and a file system of fsspec that offers it (`headgate.storage.disk`).

The content of a file is durable once it was synced. Names are kept as a journaling file system keeps
them: changes become durable in their order, and a sync of a folder makes those durable that came up to
the last one in this folder, and no later ones. So a loss of power undoes the last changes of names
since then, and cuts files that were not synced.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import fsspec

from headgate_lab.chaos.addresses import Addressed
from headgate_lab.chaos.world import World, here

PROTOCOL = "chaosdisk"
URL = f"{PROTOCOL}:///disk"


class File:
    """The content of a file, and how much of it is durable."""

    __slots__ = ("content", "durable")

    def __init__(self, content: bytes, durable: int) -> None:
        self.content, self.durable = content, durable


Names = dict[str, File | None]
"""Files by path; a folder has no content."""


class SimulatedDisk(World):
    """A world whose files are on a disk (`headgate.storage.disk.Disk`)."""

    url = URL

    def __init__(self, seed: int, files: dict[str, bytes], *, first_name: int = 0) -> None:
        super().__init__(seed, first_name=first_name)
        self.files: Names = {"/disk": None}
        for path, content in files.items():
            self._make(path.rpartition("/")[0])
            self.files[path] = File(content, len(content))
        self._since: list[tuple[Names, tuple[str, ...]]] = [(dict(self.files), ())]
        """The names after each change, with the folders that it was in; the first are durable."""

    def _changed(self, *paths: str) -> None:
        self._since.append((dict(self.files), tuple(path.rpartition("/")[0] for path in paths)))

    def _folder_of(self, path: str) -> None:
        folder = path.rpartition("/")[0]
        if folder not in self.files:
            raise FileNotFoundError(errno.ENOENT, "no folder", path)
        if self.files[folder] is not None:
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", path)

    def _file(self, path: str) -> File:
        file = self.files.get(path)
        if file is None:
            if path in self.files:
                raise IsADirectoryError(errno.EISDIR, "is a folder", path)
            raise FileNotFoundError(errno.ENOENT, "no file", path)
        return file

    def _make(self, path: str) -> list[str]:
        made = []
        while path and path not in self.files:
            self.files[path] = None
            made.append(path)
            path = path.rpartition("/")[0]
        return made

    # -- operations

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it."""
        if path in self.files:
            return

        def do() -> None:
            self._changed(*self._make(path))

        self.operate("make folder", path, do)

    def write(self, path: str, parts: Sequence[Any], *, durable: bool) -> int:
        """Write a file; it is there, empty, before it has its content."""
        data = b"".join(bytes(memoryview(part).cast("B")) for part in parts)

        def begin() -> File:
            self._folder_of(path)
            file = self.files[path] = File(b"", 0)
            self._changed(path)
            return file

        file = self.operate("make file", path, begin)

        def do() -> None:
            file.content = data

        try:
            self.operate("write", path, do)
            if durable:
                self.operate("sync", path, lambda: setattr(file, "durable", len(data)))
        except OSError:
            self.files.pop(path, None)
            raise
        return len(data)

    def append(self, path: str, data: bytes) -> None:
        """Add to the end of a file. A process may die in the middle of it."""

        def add(part: bytes) -> None:
            file = self.files.get(path)
            if file is None:
                self._folder_of(path)
                file = self.files[path] = File(b"", 0)
                self._changed(path)
            file.content += part

        self.operate("append", path, lambda: add(data), torn=lambda: add(data[: len(data) // 2]))

    def link(self, path: str, to: str) -> None:
        """Give a file a second name."""

        def do() -> None:
            if to in self.files:
                raise FileExistsError(errno.EEXIST, "exists", to)
            self.files[to] = self._file(path)
            self._changed(to)

        self.operate("link", to, do)

    def replace(self, path: str, to: str) -> None:
        """Rename a file, over another one if necessary."""

        def do() -> None:
            self.files[to] = self._file(path)
            del self.files[path]
            self._changed(path, to)

        self.operate("replace", to, do)

    def rename(self, path: str, to: str) -> None:
        """Rename a file or a folder."""

        def do() -> None:
            if path not in self.files:
                raise FileNotFoundError(errno.ENOENT, "no file", path)
            if self.files.get(to, ...) is None and any(n.startswith(f"{to}/") for n in self.files):
                raise OSError(errno.ENOTEMPTY, "not empty", to)
            for name in [n for n in self.files if n == path or n.startswith(f"{path}/")]:
                self.files[to + name[len(path) :]] = self.files.pop(name)
            self._changed(path, to)

        self.operate("rename", to, do)

    def remove(self, path: str) -> None:
        """Remove a file."""

        def do() -> None:
            self._file(path)
            del self.files[path]
            self._changed(path)

        self.operate("remove", path, do)

    def remove_folder(self, path: str) -> None:
        """Remove what is in a folder, one by one, then the folder."""
        inside = sorted((n for n in self.files if n.startswith(f"{path}/")), reverse=True)
        for name in [*inside, path]:
            self.operate("remove", name, self._removal(name))

    def _removal(self, name: str) -> Callable[[], None]:
        def do() -> None:
            if any(other.startswith(f"{name}/") for other in self.files):
                raise OSError(errno.ENOTEMPTY, "not empty", name)  # somebody wrote there meanwhile
            self.files.pop(name, None)
            self._changed(name)

        return do

    def flush(self, path: str) -> None:
        """Make the changes of names durable up to the last one in this folder."""

        def do() -> None:
            for at in range(len(self._since) - 1, 0, -1):
                if path in self._since[at][1]:
                    del self._since[:at]
                    return

        self.operate("sync folder", path, do)

    def read(self, path: str, start: int | None, end: int | None) -> bytes:
        """Read a file or a range."""
        return self.operate("read", path, lambda: self._file(path).content[start:end], change=False)

    def size(self, path: str) -> int:
        """The size of a file."""

        def do() -> int:
            if path not in self.files:
                if self.files.get(path.rpartition("/")[0]) is not None:
                    raise NotADirectoryError(errno.ENOTDIR, "not a folder", path)
                raise FileNotFoundError(errno.ENOENT, "no file", path)
            file = self.files[path]
            return 0 if file is None else len(file.content)

        return self.operate("look", path, do, change=False)

    def names_in(self, path: str) -> list[str]:
        """The names in a folder."""
        path = path.rstrip("/")
        start, at = f"{path}/", len(path) + 1

        def do() -> list[str]:
            if path not in self.files:
                raise FileNotFoundError(errno.ENOENT, "no folder", path)
            return [n[at:] for n in self.files if n.startswith(start) and "/" not in n[at:]]

        return self.operate("list", path, do, change=False)

    def is_folder(self, path: str) -> bool:
        """Whether the path is that of a folder."""
        return self.operate("look", path, lambda: self.files.get(path, ...) is None, change=False)

    # -- faults and checks

    def lose_power(self, pick: int) -> None:
        """Go back to names that were durable, or a few changes later, and cut what was not synced."""
        super().lose_power(pick)
        chance = Random(pick)
        kept, _ = self._since[chance.randrange(len(self._since))]
        for file in {id(f): f for f in kept.values() if f is not None}.values():
            if len(file.content) > file.durable:
                file.content = file.content[: chance.randint(file.durable, len(file.content))]
                file.durable = len(file.content)
        self.files = kept
        self._since = [(dict(kept), ())]

    def contents(self) -> dict[str, bytes]:
        """Every file."""
        return {path: file.content for path, file in self.files.items() if file is not None}

    def overwrite(self, path: str, data: bytes) -> None:
        """Change a file; other names of it are changed, too."""
        self._file(path).content = data


class _Port:
    """The disk of the present world."""

    def __getattr__(self, name: str) -> Any:
        return getattr(here(), "names_in" if name == "names" else name)


class DiskFileSystem(Addressed):
    """A file system that is a disk: a store uses `disk`, and nothing else of it."""

    protocol = PROTOCOL
    root_marker = "/"
    disk = _Port()


fsspec.register_implementation(PROTOCOL, DiskFileSystem, clobber=True)
