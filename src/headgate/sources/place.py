"""A folder of input files on any fsspec file system, local or remote. Nothing here writes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

import fsspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from headgate.errors import ConfigError, HeadgateError, SourceFailed

WAY_OUT = "To go on without the file, name it in files(..., ignore=[...])"
"""What a user can always do about a bad file."""
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")
"""Under which names file systems give the time of modification; the first that is there counts."""


class Entry(NamedTuple):
    """A file as it was when it was found."""

    path: str
    """Relative to the folder."""
    size: int
    mtime: int
    """Nanoseconds since 1970; 0 if the file system does not know."""


class Place:
    """A folder that files are read from. It can be pickled; tasks open the file system anew."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._open()

    def _open(self) -> None:
        try:
            self.fs, root = fsspec.core.url_to_fs(self.url, use_listings_cache=False)
        except (ImportError, ValueError) as error:
            raise ConfigError(f"{self.url} cannot be reached: {error}") from error
        self.local = isinstance(self.fs, LocalFileSystem)
        self.root = root.rstrip("/") or ("/" if self.local else "")
        self.url = self.fs.unstrip_protocol(self.root)  # absolute, because a task has another working folder

    def __getstate__(self) -> dict[str, Any]:
        return {"url": self.url}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.url = state["url"]
        self._open()

    def path(self, name: str) -> str:
        """The full path of a file, which is named relative to the folder."""
        return f"{self.root.rstrip('/')}/{name}" if name else self.root

    def relative(self, name: str) -> str:
        """A file as it is named relative to the folder, if a user gives that, or its whole path as messages do."""
        for root in (self.url, self.root):
            if root and name.startswith(f"{root.rstrip('/')}/"):
                name = name[len(root.rstrip("/")) + 1 :]
        return name.removeprefix("./").strip("/")

    def exists(self) -> bool:
        """Whether there is such a folder, or a file."""
        return bool(self.fs.exists(self.root))

    def stat(self, name: str) -> Entry:
        """A file as it is now; raise FileNotFoundError if it does not exist."""
        if self.local:
            found = os.stat(self.path(name))
            return Entry(name, found.st_size, found.st_mtime_ns)
        self.fs.invalidate_cache(self.path(name))
        info = self.fs.info(self.path(name))
        return Entry(name, int(info.get("size") or 0), modified(info))

    def open(self, name: str) -> Any:
        """A file for Arrow's readers."""
        path = self.path(name)
        return pa.OSFile(path) if self.local else self.fs.open(path, "rb")

    def check(self, logged: Entry) -> None:
        """Refuse a file that is no longer what it was when it was found."""
        path = self.path(logged.path)
        try:
            now = self.stat(logged.path)
        except FileNotFoundError as error:
            raise SourceFailed(
                f"{path} has vanished since it was found, and its rows were not read yet. Put the file back. {WAY_OUT}"
            ) from error
        except OSError as error:
            raise SourceFailed(f"looking at {path} failed: {error}; fix the cause and start again") from error
        unit = (
            1 if self.local else 1_000_000_000
        )  # a listing may show fractions of seconds, and a look at the file none
        if now.size != logged.size or now.mtime // unit != logged.mtime // unit:
            raise SourceFailed(
                f"{path} was changed since it was found: {_words(logged)} then, {_words(now)} now. A file must appear "
                f"whole, by a rename, and never change. Put the old file back, and new rows in a file of another name. {WAY_OUT}"
            )

    @contextmanager
    def failing(self, name: str, doing: str) -> Iterator[None]:
        """Turn errors while a file is read into ours, which name the file."""
        try:
            yield
        except HeadgateError:
            raise
        except FileNotFoundError as error:
            raise SourceFailed(
                f"{self.path(name)} has vanished while {doing}. Put the file back. {WAY_OUT}"
            ) from error
        except (pa.ArrowException, OSError, ValueError, EOFError) as error:
            remedy = "If the file is cut off or damaged, write it anew under another name."
            if "conversion error" in str(error):  # a CSV file whose values are not of the declared type
                remedy = (
                    "If its values are right, name the words that stand for no value, options={'null': ['', 'n/a']}, or "
                    "the decimal comma, options={'decimal': ','}; or declare the column as string, and convert it: "
                    "select('try_cast(...) AS ...')."
                )
            raise SourceFailed(
                f"{doing} {self.path(name)} failed: {str(error).rstrip('.')}. {remedy} {WAY_OUT}"
            ) from error


def modified(info: dict[str, Any]) -> int:
    """The time of modification from what a file system says of a file, in nanoseconds since 1970; 0 if unknown."""
    value = next((info[name] for name in _TIMES if info.get(name) is not None), None)
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        zoned = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        since = zoned - datetime(1970, 1, 1, tzinfo=UTC)
        return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1_000
    return round(value * 1e6) * 1_000 if isinstance(value, int | float) else 0


def _words(entry: Entry) -> str:
    moment = datetime.fromtimestamp(entry.mtime // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{entry.size} bytes of {moment}.{entry.mtime % 1_000_000_000:09d} UTC"
