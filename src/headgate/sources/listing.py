"""Which files of a folder are input, and which of them are new.

Ignored are files and folders whose names begin with `_` or `.` (drafts, `_temporary`, `_SUCCESS`), and files
whose names end in `.tmp` or `._COPYING_`. A folder that is a symbolic link is not entered.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from fsspec.utils import glob_translate

from headgate.errors import ConfigError, SourceFailed
from headgate.sources.place import Entry, Place, modified

SETTLED = 2.0
"""Seconds: file systems tell times apart that are further apart than this."""
AGAIN = 300.0
"""Seconds after which a folder is listed though its time of modification has not changed."""
_MAGIC = re.compile(r"[*?\[]")
_UNFINISHED = (".tmp", "._COPYING_")


def is_input(name: str) -> bool:
    """Whether a file or folder of this name is looked at.

    >>> [is_input(name) for name in ("a.json", "_SUCCESS", ".a.crc", "a.tmp")]
    [True, False, False, False]
    """
    return name[:1] not in ("_", ".") and not name.endswith(_UNFINISHED)


@dataclass
class _Seen:
    """A local folder as it was when it was listed."""

    mtime: int
    since: float
    """When this time of modification was first seen."""
    listed: float
    whole: bool
    """Whether the listing was so late that nothing with the same time of modification can be missing."""
    folders: list[str]


@dataclass
class Listing:
    """What to look for: names that fit `pattern` in a folder, and below it if `recursive`.

    A pattern with a slash is held against the path below the folder, another one against the name alone.
    """

    place: Place
    pattern: str = "*"
    recursive: bool = True
    single: str = ""
    """The name of the only file, if there can be only one."""
    glob: str = ""
    """The part of the user's path that is a glob."""
    _seen: dict[str, _Seen] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._any = self.pattern in ("*", "**")
        self._fits = re.compile(glob_translate(self.pattern)).match
        self._by_path = "/" in self.pattern

    def check(self) -> None:
        """Refuse a folder that does not exist. An object store has no folders, only files below a name, so there a
        folder may come into being with its first file.
        """
        where = self.place.path(self.single)
        try:
            found = self.place.fs.info(where)
        except FileNotFoundError as error:
            if not self.place.local:
                return
            raise ConfigError(
                f"{where} does not exist: name a folder, a file or a glob, or create the folder"
            ) from error
        if not self.single and found["type"] != "directory":
            raise ConfigError(f"{where} is not a folder: name a folder, a file or a glob")

    def new(self, known: Container[str], now: float) -> list[Entry]:
        """The files that are not known yet, ordered by time of modification and then by path."""
        try:
            if self.single:
                found = list(self._one(known))
            else:
                found = list(self._local("", known, now) if self.place.local else self._remote(known))
        except OSError as error:
            self.forget()
            raise SourceFailed(
                f"listing {self.place.url} failed: {error}; fix the cause and start again"
            ) from error
        return sorted(found, key=lambda entry: (entry.mtime, entry.path))

    def forget(self) -> None:
        """List every folder again, because what the last listing found was not written down."""
        self._seen.clear()

    def _wanted(self, path: str, name: str) -> bool:
        return is_input(name) and (self._any or self._fits(path if self._by_path else name) is not None)

    def _one(self, known: Container[str]) -> Iterator[Entry]:
        if self.single not in known:
            with suppress(FileNotFoundError):
                yield self.place.stat(self.single)

    def _remote(self, known: Container[str]) -> Iterator[Entry]:
        fs, root = self.place.fs, self.place.root
        fs.invalidate_cache(root)
        if self.recursive:
            found = fs.find(root, detail=True).values()
        else:
            found = fs.ls(root, detail=True) if fs.exists(root) else []
        for info in found:
            path = info["name"].removeprefix(root).lstrip("/")
            folder, _, name = path.rpartition("/")
            if not name or info["type"] != "file" or path in known or not self._wanted(path, name):
                continue
            if all(map(is_input, folder.split("/"))) or not folder:
                yield Entry(path, int(info.get("size") or 0), modified(info))

    def _local(self, folder: str, known: Container[str], now: float) -> Iterator[Entry]:
        """New files in a local folder. A folder is not listed if that can show nothing new: its time of modification
        has not changed since it was listed, and that listing was more than `SETTLED` after the change.
        """
        path = self.place.path(folder)
        try:
            mtime = os.stat(path).st_mtime_ns
        except FileNotFoundError:
            if folder:
                return  # it was removed since its parent was listed
            raise
        seen = self._seen.get(folder)
        if seen is not None and seen.mtime == mtime and seen.whole and 0 <= now - seen.listed < AGAIN:
            folders = seen.folders
        else:
            since = seen.since if seen is not None and seen.mtime == mtime else now
            folders = []
            yield from self._scan(path, folder, known, folders)
            self._seen[folder] = _Seen(mtime, since, now, now - since >= SETTLED, folders)
        for below in folders:
            yield from self._local(below, known, now)

    def _scan(self, path: str, folder: str, known: Container[str], folders: list[str]) -> Iterator[Entry]:
        before = f"{folder}/" if folder else ""
        with suppress(FileNotFoundError), os.scandir(path) as items:
            for item in items:
                name = item.name
                below = before + name
                if below in known or not is_input(name):
                    continue
                if item.is_dir(follow_symlinks=False):
                    if self.recursive:
                        folders.append(below)
                elif self._wanted(below, name):
                    with suppress(FileNotFoundError):
                        if item.is_file():
                            found = item.stat()
                            yield Entry(below, found.st_size, found.st_mtime_ns)


def listing_of(url: str, pattern: str, recursive: bool) -> Listing:
    """What a user means by a path: a folder, one file, or a glob."""
    magic = _MAGIC.search(url)
    if magic is None or Place(url).exists():
        place = Place(url)
        if not place.root or not place.fs.isfile(place.root):
            return Listing(place, pattern, recursive)
        folder, _, name = place.url.rpartition("/")
        return Listing(Place(folder), recursive=False, single=name)
    if pattern != "*":
        raise ConfigError(f"{url} is a glob, so pattern={pattern!r} has no place: write one or the other")
    head, _, tail = url[: magic.start()].rpartition("/")
    glob = tail + url[magic.start() :]
    return Listing(Place(head or ("/" if url.startswith("/") else ".")), glob, "/" in glob, glob=glob)
