"""Stores of every kind that is promised: a local disk, memory, and S3."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import pytest
from tests.storage import s3

from headgate.storage.store import Store


@pytest.fixture(scope="session")
def bucket() -> Iterator[str]:
    """A bucket of a real S3 server."""
    with s3.server():
        yield f"s3://{s3.BUCKET}"


@pytest.fixture(params=["local", "memory", "s3"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Store]]:
    """Makes stores below one place, on each kind of file system."""
    if request.param == "local":
        yield lambda name: Store(str(tmp_path / name), durable=False)
        return
    if request.param == "s3":
        root = f"{request.getfixturevalue('bucket')}/{uuid.uuid4().hex}"
        yield lambda name: Store(f"{root}/{name}")
        return
    folder = f"/{uuid.uuid4().hex}"
    yield lambda name: Store(f"memory:/{folder}/{name}")
    memory = fsspec.filesystem("memory")
    if memory.exists(folder):
        memory.rm(folder, recursive=True)


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "checkpoint"), durable=False)
