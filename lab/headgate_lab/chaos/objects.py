"""A simulated object store, and a file system of fsspec for it.

A request happens whole or not at all. Answers may be lost, requests may be late or come twice
(`World.operate`), and a listing may show what was there some changes ago.
"""

from __future__ import annotations

import io
from random import Random
from typing import Any

import fsspec

from headgate_lab.chaos.addresses import Addressed
from headgate_lab.chaos.world import World, here

PROTOCOL = "chaos"
URL = f"{PROTOCOL}://store"
INPUT = "store/in"
"""The folder of the files that a direct stream reads."""


class Objects(World):
    """A world whose files are objects."""

    url = URL

    def __init__(self, seed: int, files: dict[str, bytes], *, first_name: int = 0) -> None:
        super().__init__(seed, first_name=first_name)
        self.files = dict(files)
        self.hidden = False
        """Whether the input cannot be read."""
        self._listed: list[tuple[str, bool]] = []
        """The names that changed, in order, and whether they were there before."""

    def _set(self, path: str, data: bytes) -> None:
        if path not in self.files:
            self._listed.append((path, False))
        self.files[path] = data

    def _drop(self, path: str) -> None:
        if self.files.pop(path, None) is not None:
            self._listed.append((path, True))

    def _before(self, changes: int) -> set[str]:
        """The names that there were before so many changes of them."""
        names = set(self.files)
        for path, was in reversed(self._listed[-changes:]):
            (names.add if was else names.discard)(path)
        return names

    def arrive(self, path: str, data: bytes) -> None:
        """Somebody else writes an object."""
        self._set(path, data)

    def put(self, path: str, data: bytes) -> None:
        """Write an object, perhaps over another one."""
        self.operate("write", path, lambda: self._set(path, data))

    def create(self, path: str, data: bytes) -> None:
        """Write an object if there is none of that name."""

        def do() -> None:
            if path in self.files:
                raise FileExistsError(path)
            self._set(path, data)

        self.operate("create", path, do)

    def get(self, path: str) -> bytes:
        """Read an object."""

        def do() -> bytes:
            if path not in self.files or self._is_hidden(path):
                raise FileNotFoundError(path)
            return self.files[path]

        return self.operate("read", path, do, change=False)

    def size(self, path: str) -> int:
        """The size of an object; -1 for a prefix of objects."""

        def do() -> int:
            data = self.files.get(path)
            if data is not None and not self._is_hidden(path):
                return len(data)
            if any(name.startswith(f"{path}/") for name in self.files):
                return -1
            raise FileNotFoundError(path)

        return self.operate("look", path, do, change=False)

    def found(self, path: str) -> dict[str, int]:
        """All objects under a prefix, with their sizes."""

        def do() -> dict[str, int]:
            stale, self.stale = self.stale, 0
            names = self._before(stale) if stale else self.files
            return {n: len(self.files.get(n, b"")) for n in sorted(names) if n.startswith(f"{path}/")}

        return self.operate("list", path, do, change=False)

    def under(self, path: str) -> list[str]:
        """The next names under a prefix."""
        start, at = f"{path}/", len(path) + 1

        def do() -> list[str]:
            stale, self.stale = self.stale, 0
            names = self._before(stale) if stale else self.files
            found = {name[at:].partition("/")[0] for name in names if name.startswith(start)}
            if not found:
                raise FileNotFoundError(path)
            return [start + name for name in sorted(found)]

        return self.operate("list", path, do, change=False)

    def copy(self, path: str, to: str) -> None:
        """Copy an object."""

        def do() -> None:
            if path not in self.files:
                raise FileNotFoundError(path)
            self._set(to, self.files[path])

        self.operate("copy", to, do)

    def remove(self, path: str) -> None:
        """Remove an object, or all under a prefix, one request each."""
        names = [path] if path in self.files else [n for n in self.files if n.startswith(f"{path}/")]
        if not names:
            raise FileNotFoundError(path)
        for name in names:
            self.operate("remove", name, lambda name=name: self._drop(name))  # type: ignore[misc]

    def _is_hidden(self, path: str) -> bool:
        return self.hidden and path.startswith(f"{INPUT}/")

    def contents(self) -> dict[str, bytes]:
        """Every object."""
        return self.files

    def overwrite(self, path: str, data: bytes) -> None:
        """Change an object."""
        self.files[path] = data


class ObjectFileSystem(Addressed):
    """Requests of fsspec as requests to the present world."""

    protocol = PROTOCOL
    root_marker = ""
    exclusive_create = True
    """`pipe_file(mode="create")` is refused if the object exists."""

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Folders need not be made."""

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        """A file to write, which appears when it is closed, or one to read."""
        if mode == "rb":
            world: Objects = here()
            return io.BytesIO(world.get(path))
        return _Upload(path)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        """Write an object."""
        world: Objects = here()
        (world.create if mode == "create" else world.put)(path, bytes(value))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        """Read an object, or a range."""
        world: Objects = here()
        return world.get(path)[start:end]

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        """The size of an object."""
        world: Objects = here()
        return _info(path, world.size(path))

    def find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **_: Any
    ) -> Any:
        """All files under a prefix."""
        world: Objects = here()
        found = {name: _info(name, size) for name, size in world.found(path.rstrip("/")).items()}
        return found if detail else list(found)

    def ls(self, path: str, detail: bool = False, **options: Any) -> list[str]:
        """The names in a folder."""
        world: Objects = here()
        return world.under(path.rstrip("/"))

    def rm(self, path: str, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Remove an object, or all under a prefix."""
        world: Objects = here()
        world.remove(path)

    def cp_file(self, path1: str, path2: str, **options: Any) -> None:
        """Copy an object."""
        world: Objects = here()
        world.copy(path1, path2)


def _info(path: str, size: int) -> dict[str, Any]:
    """What fsspec says of a file. Files of the input have numbers, and were made in this order."""
    if size < 0:
        return {"name": path, "size": 0, "type": "directory"}
    number = path.rpartition("-")[2].removesuffix(".parquet")
    made = int(number) if path.startswith(f"{INPUT}/") else 0
    return {"name": path, "size": size, "type": "file", "mtime": made}


class _Upload:
    """An object that is being written. If its writer fails, it never appears."""

    def __init__(self, path: str) -> None:
        self.path, self.parts = path, list[bytes]()

    def write(self, part: Any) -> int:
        self.parts.append(bytes(part))
        return len(self.parts[-1])

    def __enter__(self) -> _Upload:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            world: Objects = here()
            world.put(self.path, b"".join(self.parts))


fsspec.register_implementation(PROTOCOL, ObjectFileSystem, clobber=True)


def flipped(data: bytes, chance: Random) -> bytes:
    """The same bytes with one bit changed."""
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
