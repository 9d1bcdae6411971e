"""The files of a checkpoint, through fsspec, so that a local folder and an object store look the same.

The commit rests on one promise: `create` makes a file appear whole or not at all, and only once.
Not every file system can do that, so `check` refuses those that are not known to, and tries the
others once. Errors of the file system are raised as errors of headgate that name the path.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import fsspec
import xxhash
from fsspec.implementations.local import LocalFileSystem

from headgate.errors import CheckpointError, ConfigError, StorageFull, not_installed
from headgate.storage.disk import Disk, LocalDisk
from headgate.storage.outside import unique
from headgate.storage.patience import OPTIONS
from headgate.storage.remote import Remote, lacking


class translated:
    """Translates file system errors to ours, except `passing`, which is an answer and not a failure."""

    __slots__ = ("_doing", "_passing", "_path")

    def __init__(self, path: str, doing: str, *, passing: type[OSError] | None = None) -> None:
        self._path, self._doing, self._passing = path, doing, passing

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, OSError) or (self._passing is not None and isinstance(error, self._passing)):
            return
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(
                f"no room left while {self._doing} {self._path}: free space and start again; nothing committed was changed"
            ) from error
        raise CheckpointError(
            f"{self._doing} {self._path} failed: {error}; fix the cause and start again"
        ) from error


tried: set[str] = set()
"""The stores on which this process has tried an exclusive create."""
_REMOVALS = 3
"""How often the removal of a folder is tried if files appear in it meanwhile."""


def check_url(url: str) -> None:
    """Refuse a URL with credentials: it is written in checkpoints and in messages."""
    parts = urlsplit(url)
    who, at, rest = parts.netloc.rpartition("@")
    if (at and (":" in who or parts.scheme in ("s3", "s3a", "gs", "gcs"))) or "sig=" in parts.query:
        shown = (
            f"{parts.scheme}://...@{rest}{parts.path}" if at else f"{parts.scheme}://{rest}{parts.path}?..."
        )
        raise ConfigError(
            f"{shown} has credentials in it, and a URL is written in checkpoints and messages: leave them out. The store finds "
            "them in the environment or by its own means (AWS_ACCESS_KEY_ID, a profile, the role of the machine; "
            "GOOGLE_APPLICATION_CREDENTIALS; AZURE_STORAGE_CONNECTION_STRING)"
        )


class Store:
    """A folder on any fsspec file system. Picklable, so that tasks can carry it."""

    in_place = False
    """Whether output files stay where tasks write them (`parquet_folder.InPlace`)."""

    def __init__(self, url: str, *, durable: bool = True) -> None:
        self.url, self.durable = url, durable
        self._open()

    def _open(self) -> None:
        # Listings should show what other processes create and remove, so they may not come from a cache.
        check_url(self.url)
        options = OPTIONS.get(self.url.partition("://")[0], {})
        try:
            self.fs, self.root = fsspec.core.url_to_fs(self.url, use_listings_cache=False, **options)
        except (ImportError, ValueError) as error:
            lacks = (
                not_installed(error.__cause__, self.url) if isinstance(error.__cause__, ImportError) else None
            )
            raise lacks or ConfigError(f"{self.url} cannot be reached: {error}") from error
        self.disk: Disk | None = (
            LocalDisk() if isinstance(self.fs, LocalFileSystem) else getattr(self.fs, "disk", None)
        )
        self._remote = Remote(self.fs)
        self.root = self.root.rstrip("/")
        self.url = self.fs.unstrip_protocol(self.root)  # absolute, because a task has another working folder

    @property
    def local(self) -> bool:
        """Whether files are on a disk, where they can be renamed and appended to."""
        return self.disk is not None

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
        below = object.__new__(Store)
        below.__dict__.update(self.__dict__)
        below.url, below.root = f"{self.url.rstrip('/')}/{name}", f"{self.root}/{name}"
        return below

    def make(self, *names: str) -> None:
        """Make sure that folders exist."""
        for name in names:
            with translated(self.path(name), "making folder"):
                if self.disk is not None:
                    self.disk.make_folder(self.path(name))
                else:
                    self._remote.make(self.path(name))

    def write(self, name: str, parts: list[Any]) -> int:
        """Write a file whose name nobody else uses, and return its size. If the
        store is durable, so is the file.
        """
        path = self.path(name)
        with translated(path, "writing"):
            if self.disk is not None:
                return self.disk.write(path, parts, durable=self.durable)
            return self._remote.write(path, parts)

    def check(self) -> None:
        """Refuse a store whose `create` is not exclusive: two drivers could both commit there. Each
        process tries each store once.
        """
        if self.url in tried:
            return
        if not self.exclusive:
            raise ConfigError(
                f"{self.url} cannot hold a checkpoint: {lacking(self.fs)}. Two drivers could both commit there. "
                "Use a disk, or S3 (s3fs), Google Cloud Storage (gcsfs) or Azure (adlfs)"
            )
        name = f".headgate-{unique()}.tmp"
        self.make("")
        try:
            with suppress(FileExistsError):  # a request whose answer was lost may have been sent again
                self.create(name, b"1")
            try:
                self.create(name, b"2")
            except FileExistsError:
                pass
            else:
                raise ConfigError(
                    f"{self.url} cannot hold a checkpoint: a file that was there could be created again, so two drivers could both "
                    "commit. The server behind it does not honour conditional writes; use another store"
                )
        finally:
            self.remove(name)
        tried.add(self.url)

    @property
    def exclusive(self) -> bool:
        """Whether `create` is known to be exclusive here."""
        return not lacking(self.fs)

    def create(self, name: str, data: bytes) -> None:
        """Make a file appear whole, once; raise FileExistsError if it exists already."""
        path = self.path(name)
        with translated(path, "creating", passing=FileExistsError):
            if self.disk is not None:
                self._appear(self.disk, path, data, self.disk.link)
            else:
                self._remote.create(path, data)

    def write_once(self, name: str, data: bytes) -> None:
        """Make a file appear whole, unless it exists. On a store without exclusive create
        a second writer may replace it.
        """
        if not self.exclusive:
            if not self.exists(name):
                self.replace(name, data)
            return
        with suppress(FileExistsError):
            self.create(name, data)

    def replace(self, name: str, data: bytes) -> None:
        """Make a file appear whole, and replace an existing one."""
        path = self.path(name)
        with translated(path, "replacing"):
            if self.disk is not None:
                self._appear(self.disk, path, data, self.disk.replace)
            else:
                self._remote.replace(path, data)

    def _appear(self, disk: Disk, path: str, data: bytes, step: Callable[[str, str], None]) -> None:
        folder, _, name = path.rpartition("/")
        temporary = f"{folder}/.{name}.{unique()}.tmp"  # readers of a folder skip names that begin with a dot
        try:
            disk.write(temporary, [data], durable=self.durable)
            step(temporary, path)
            if self.durable:
                disk.flush(folder)
        finally:
            with suppress(FileNotFoundError):
                disk.remove(temporary)

    def flush(self, folder: str) -> None:
        """Make the names in a local folder durable, if the store is durable."""
        if self.durable and self.disk is not None:
            self.disk.flush(self.path(folder))

    @property
    def appends(self) -> bool:
        """Whether files can be appended to; on object stores they are written whole."""
        return self.local

    def append(self, name: str, line: str) -> None:
        """Append a line to a file, on stores where `appends` is true."""
        assert self.disk is not None, "object stores cannot append"
        path = self.path(name)
        with translated(path, "appending to"):
            self.disk.append(path, f"{line}\n".encode())

    def read(self, name: str, start: int | None = None, end: int | None = None) -> bytes:
        """Read a file, or a range of its bytes (negative: from the end); raise
        FileNotFoundError if it does not exist.
        """
        if start is not None and end is not None and 0 <= end <= start:
            return b""  # a server would return the whole file for such a range
        with translated(self.path(name), "reading", passing=FileNotFoundError):
            if self.disk is not None:
                return self.disk.read(self.path(name), start, end)
            return self._remote.read(self.path(name), start, end)

    def digest(self, name: str) -> str:
        """The checksum of a file of any size; raise FileNotFoundError if it does not exist."""
        digest = xxhash.xxh3_64()
        with (
            translated(self.path(name), "reading", passing=FileNotFoundError),
            self.fs.open(self.path(name), "rb") as file,
        ):
            while part := file.read(1 << 24):
                digest.update(part)
        return str(digest.hexdigest())

    def exists(self, name: str) -> bool:
        """Whether a file exists. If the file system cannot tell, an error is raised: a checkpoint
        must not look empty because of that.
        """
        try:
            with translated(self.path(name), "looking for", passing=FileNotFoundError):
                self._size(name)
        except FileNotFoundError:
            return False
        return True

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None if it does not exist."""
        self.fs.invalidate_cache()
        try:
            with translated(self.path(name), "looking for", passing=FileNotFoundError):
                return self._size(name)
        except FileNotFoundError:
            return None

    def _size(self, name: str) -> int:
        if self.disk is not None:
            return self.disk.size(self.path(name))
        return int(self._remote.ask(lambda: self.fs.info(self.path(name)))["size"] or 0)

    def copy(self, name: str, to: Store, as_name: str) -> None:
        """Copy a file to a store of the same kind, or of another."""
        path = to.path(as_name)
        with translated(path, "copying to"):
            if type(self.fs) is type(to.fs):
                to.make(as_name.rpartition("/")[0])
                self._remote.ask(lambda: self.fs.cp_file(self.path(name), path))
            else:
                to.replace(as_name, self.read(name))

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, sorted; an empty list if the folder does not exist."""
        self.fs.invalidate_cache()
        try:
            with translated(self.path(folder), "listing", passing=FileNotFoundError):
                if self.disk is not None:
                    return sorted(self.disk.names(self.path(folder)))
                paths = self._remote.ask(lambda: self.fs.ls(self.path(folder), detail=False))
        except FileNotFoundError:
            return []
        return sorted(p.rstrip("/").rsplit("/", 1)[-1] for p in paths)

    def _remove_folder(self, disk: Disk, path: str) -> None:
        """Remove a folder. A task that nobody waits for may write there meanwhile; what it leaves
        behind is removed when the next driver starts.
        """
        for _ in range(_REMOVALS):
            try:
                return disk.remove_folder(path)
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise

    def remove(self, *names: str) -> None:
        """Remove files or folders; missing ones are ignored."""
        if self.disk is None:
            with translated(self.path(*names[:1]), "removing"):
                return self._remote.remove([self.path(name) for name in names])
        for name in names:
            path = self.path(name)
            with (
                suppress(FileNotFoundError),
                translated(path, "removing", passing=FileNotFoundError),
            ):
                if self.disk.is_folder(path):
                    self._remove_folder(self.disk, path)
                else:
                    self.disk.remove(path)

    def abandon(self, folder: str, old: Callable[[str], bool]) -> None:
        """Abort uploads to a folder that were never completed, by their names."""
        if self.disk is None:
            with translated(self.path(folder), "looking for uploads to"):
                self._remote.abandon(self.path(folder), old)
