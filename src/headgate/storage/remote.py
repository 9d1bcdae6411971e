"""Requests to a file system that is no disk: an object store, memory, or any other of fsspec.

Stores that are made for it (`EXCLUSIVE`) get few requests, and each is sent again while its failures pass
(`patience`). A file of at least `MULTIPART` bytes goes to S3 in parts; it appears when the last one has
arrived, and if that fails, the parts are removed.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from headgate.storage.outside import unique
from headgate.storage.patience import REQUESTS, patiently, refused

T = TypeVar("T")
EXCLUSIVE = {
    "s3fs": {"s3fs": (2025, 3, 2), "botocore": (1, 35, 2)},
    "gcsfs": {"gcsfs": (2025, 3, 2)},
    "adlfs": {"adlfs": (2024, 12, 0), "fsspec": (2025, 3, 2)},
}
"""Packages whose file systems create a file exclusively on the server, with the first versions that
do. Earlier versions overwrite silently, or hang in a forked worker.
"""
MULTIPART = 64 << 20
"""Files of so many bytes and more are uploaded to S3 in parts."""
PART = 32 << 20
_PARTS = 9_000
"""The most parts of a file; S3 allows 10,000."""
_AT_ONCE = 1_000
"""The most files that one request removes."""
FILE_SUFFIXES = (".json", ".jsonl", ".hgs", ".hgb", ".parquet", ".tmp")
"""A name that ends so is that of a file: to remove it, nobody needs to look for files below it."""


def package_of(fs: Any) -> str:
    """The package that a file system comes from."""
    return package_of(fs.fs) if isinstance(fs, DirFileSystem) else type(fs).__module__.partition(".")[0]


def lacking(fs: Any) -> str:
    """Why a file could be created twice on a file system; empty if it could not."""
    if isinstance(fs, DirFileSystem):
        return lacking(fs.fs)
    if isinstance(fs, LocalFileSystem | MemoryFileSystem) or getattr(fs, "disk", None) is not None:
        return ""  # linking to a name that exists fails; memory belongs to this process, and has a lock
    if getattr(fs, "exclusive_create", False):
        return ""  # the file system says so itself
    package = package_of(fs)
    if package not in EXCLUSIVE:
        return f"{type(fs).__name__} of {package} has no exclusive create: it looks for the file, and then writes it"
    for name, least in EXCLUSIVE[package].items():
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return f"{name} is not installed"
        if tuple(int(part) for part in re.findall(r"\d+", version)[:3]) < least:
            return f"{name} {version} has no exclusive create; install {name}>={'.'.join(map(str, least))}"
    return ""


class Remote:
    """The requests of a store to such a file system. Paths are whole; errors are those of fsspec."""

    def __init__(self, fs: Any) -> None:
        self.fs = fs
        package = package_of(fs)
        self._known = package in EXCLUSIVE
        self._s3 = package == "s3fs" and not isinstance(fs, DirFileSystem)
        self._azure = package == "adlfs"
        if self._s3:
            fs.retries = 1  # `patiently` repeats requests

    def ask(self, call: Callable[[], T]) -> T:
        """Send a request, again if its failure passes."""
        if self._known:
            return patiently(call)
        REQUESTS.sent += 1
        return call()

    def make(self, path: str) -> None:
        """Make a folder, where there are folders."""
        if not self._known:
            self.fs.makedirs(path, exist_ok=True)

    def write(self, path: str, parts: Sequence[Any]) -> int:
        """Write a file, and return its size."""
        if self._known:
            data = b"".join(memoryview(part).cast("B") for part in parts)
            self.replace(path, data)
            return len(data)
        size = 0
        REQUESTS.sent += 1
        with self.fs.open(path, "wb") as file:
            for part in parts:
                size += file.write(memoryview(part).cast("B"))
        return size

    def replace(self, path: str, data: bytes) -> None:
        """Write a file, which appears whole."""
        if self._s3 and len(data) >= MULTIPART:
            self._upload(path, data)
        else:
            self.ask(lambda: self.fs.pipe_file(path, data))

    def create(self, path: str, data: bytes) -> None:
        """Write a file if there is none; raise FileExistsError otherwise. If the answer to a request is lost
        and it is sent again, the second one finds the file of the first: it has the same content.
        """
        if isinstance(self.fs, MemoryFileSystem):
            return self._create_in_memory(path, data)
        try:
            self.ask(lambda: self.fs.pipe_file(path, data, mode="create"))
        except OSError as error:
            if not isinstance(error, FileExistsError) and not refused(error):
                raise
            with suppress(FileNotFoundError):
                if self._known and self.read(path) == data:
                    return None
            raise FileExistsError(path) from error

    def _create_in_memory(self, path: str, data: bytes) -> None:
        """Create a file in fsspec's memory. Fsspec itself looks for the file and then writes it;
        here the last step is one dictionary operation, which is atomic among threads.
        """
        draft = f"{path}.{unique()}"
        self.fs.pipe_file(draft, data)
        file = self.fs.store.pop(draft)
        file.path = path
        if self.fs.store.setdefault(path, file) is not file:
            raise FileExistsError(path)

    def read(self, path: str, start: int | None = None, end: int | None = None) -> bytes:
        """Read a file, or a range of it."""
        if self._s3:  # with more than one connection, s3fs asks for the size first
            return self.ask(
                lambda: self._whole(self.fs.cat_file(path, start=start, end=end, max_concurrency=1))
            )
        if start is not None and start < 0 and self._azure:  # Azure has no ranges from the end
            start = max(0, int(self.ask(lambda: self.fs.info(path))["size"]) + start)
        return self.ask(lambda: self._whole(self.fs.cat_file(path, start=start, end=end)))

    @staticmethod
    def _whole(data: Any) -> bytes:
        return data if isinstance(data, bytes) else bytes(data)

    def remove(self, paths: Sequence[str]) -> None:
        """Remove files or folders; missing ones are ignored. Files go together, in one request for many."""
        files = [path for path in paths if path.endswith(FILE_SUFFIXES)] if self._known else []
        for at in range(0, len(files), _AT_ONCE):
            self._remove_files(files[at : at + _AT_ONCE])
        for path in paths:
            if path not in files:
                with suppress(FileNotFoundError):
                    self.ask(lambda path=path: self.fs.rm(path, recursive=True))  # type: ignore[misc]

    def _remove_files(self, paths: list[str]) -> None:
        if not any(set(path) & set("*?[") for path in paths):  # fsspec would take them for patterns
            try:
                self.ask(lambda: self.fs.rm(paths, recursive=False))
                return
            except FileNotFoundError:
                pass  # one of them: the others may still be there
        for path in paths:
            with suppress(FileNotFoundError):
                self.ask(lambda path=path: self.fs.rm_file(path))  # type: ignore[misc]

    # -- S3 in parts

    def _upload(self, path: str, data: bytes) -> None:
        bucket, key, _ = self.fs.split_path(path)
        size = max(PART, -(-len(data) // _PARTS))
        made = self.ask(lambda: self.fs.call_s3("create_multipart_upload", Bucket=bucket, Key=key))
        this = {"Bucket": bucket, "Key": key, "UploadId": made["UploadId"]}
        try:
            parts = [
                {"PartNumber": number, "ETag": self._part(this, number, data[at : at + size])}
                for number, at in enumerate(range(0, len(data), size), start=1)
            ]
            try:
                self.ask(
                    lambda: self.fs.call_s3(
                        "complete_multipart_upload", **this, MultipartUpload={"Parts": parts}
                    )
                )
            except FileNotFoundError:  # no such upload: it was completed, and the answer was lost
                if self.ask(lambda: self.fs.info(path))["size"] != len(data):
                    raise
        except BaseException:
            with suppress(Exception):
                self.fs.call_s3("abort_multipart_upload", **this)
            raise

    def _part(self, this: dict[str, str], number: int, data: bytes) -> str:
        answer = self.ask(lambda: self.fs.call_s3("upload_part", **this, PartNumber=number, Body=data))
        return str(answer["ETag"])

    def abandon(self, path: str, old: Callable[[str], bool]) -> None:
        """Abort the uploads to a folder that nobody will complete, as their names say. Nobody can see
        them, but S3 charges for them.
        """
        if not self._s3:
            return
        bucket, key, _ = self.fs.split_path(path)
        found = self.ask(
            lambda: self.fs.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=f"{key.rstrip('/')}/")
        )
        for upload in found.get("Uploads", []):
            if old(upload["Key"].rsplit("/", 1)[-1]):
                with suppress(FileNotFoundError):
                    self.ask(
                        lambda upload=upload: self.fs.call_s3(  # type: ignore[misc]
                            "abort_multipart_upload",
                            Bucket=bucket,
                            Key=upload["Key"],
                            UploadId=upload["UploadId"],
                        )
                    )
