"""Files of a checkpoint: the same promises on a local folder and on another fsspec file system; errors as ours."""

import errno
import os
import pickle
import subprocess
import threading
import uuid

import fsspec
import numpy as np
import pytest

from headgate.errors import CheckpointError, StorageFull
from headgate.spark.store import Store


@pytest.fixture(params=["local", "memory"])
def store(request, tmp_path):
    """An empty store, on each file system."""
    if request.param == "local":
        made = Store(str(tmp_path / "checkpoint"))
        made.make("")
        yield made
        return
    root = f"/{uuid.uuid4().hex}"
    made = Store(f"memory:/{root}")
    made.make("")
    yield made
    fsspec.filesystem("memory").rm(root, recursive=True)


def test_what_was_written_is_read(store):
    parts = [b"ab", np.arange(3), memoryview(b""), np.zeros(0, np.uint8), bytearray(b"end")]
    assert store.write("file", parts) == 29
    assert store.read("file") == b"ab" + np.arange(3).tobytes() + b"end"


@pytest.mark.parametrize(
    ("start", "end", "wanted"),
    [
        (0, 3, b"012"),
        (3, 5, b"34"),
        (8, 20, b"89"),
        (-3, None, b"789"),
        (-30, None, b"0123456789"),
        (4, 4, b""),
    ],
)
def test_ranges(store, start, end, wanted):
    store.write("file", [b"0123456789"])
    assert store.read("file", start=start, end=end) == wanted


def test_what_is_not_there(store):
    assert not store.exists("file")
    assert store.names("folder") == []
    store.remove("file", "folder")
    with pytest.raises(FileNotFoundError):
        store.read("file")


def test_a_file_is_created_once_and_whole(store):
    store.create("file", b"first")
    with pytest.raises(FileExistsError):
        store.create("file", b"second")
    assert store.read("file") == b"first"
    assert store.names("") == ["file"]


def test_of_many_creators_one_wins(tmp_path):
    store, won = Store(str(tmp_path)), []
    barrier = threading.Barrier(8)

    def create(i):
        barrier.wait()
        try:
            store.create("file", b"%d" % i)
        except FileExistsError:
            return
        won.append(b"%d" % i)

    threads = [threading.Thread(target=create, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.read("file")] == won
    assert store.names("") == ["file"]


def test_a_file_is_replaced_whole(store):
    for text in (b"first", b"second"):
        store.replace("file", text)
        assert store.read("file") == text
    assert store.names("") == ["file"]


def test_lines_are_appended(store):
    for line in ("one", "zwölf"):
        store.append("file", line)
    assert store.read("file").decode() == "one\nzwölf\n"


def test_names_are_sorted_and_removed_names_are_gone(store):
    store.make("folder", "folder")
    for name in ("b", "a", "c"):
        store.write(f"folder/{name}", [b""])
    assert store.names("folder") == ["a", "b", "c"]
    store.remove("folder/b", "folder/never")
    assert store.names("folder") == ["a", "c"]
    assert store.exists("folder/a")
    store.remove("folder")
    assert store.names("folder") == []
    assert store.exists("folder/a") is False


def test_a_child_is_a_folder_of_its_own(store):
    store.child("state").make("")
    store.child("state").write("file", [b"x"])
    assert store.read("state/file") == b"x"
    assert store.child("state").path("file") == store.path("state/file")


def test_a_store_travels_to_another_process(store):
    store.write("file", [b"x"])
    twin = pickle.loads(pickle.dumps(store))
    assert (twin.url, twin.durable, twin.read("file")) == (store.url, store.durable, b"x")


def test_a_relative_path_is_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = pickle.loads(pickle.dumps(Store("check point/é", durable=False)))
    store.make("")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    twin = pickle.loads(pickle.dumps(store))
    twin.write("file", [b"x"])
    assert (tmp_path / "check point" / "é" / "file").read_bytes() == b"x"
    assert store.path("file") == str(tmp_path / "check point" / "é" / "file")
    assert not twin.durable


def test_other_errors_of_the_file_system_are_ours_and_name_the_path(tmp_path):
    store = Store(str(tmp_path))
    (tmp_path / "plain").write_bytes(b"")
    for doing in (
        lambda: store.write("none/file", [b"x"]),
        lambda: store.write("plain/file", [b"x"]),
        lambda: store.create("none/file", b"x"),
        lambda: store.append("none/file", "x"),
        lambda: store.make("plain/folder"),
        lambda: store.read("plain/file"),
        lambda: store.exists("plain/file"),
        lambda: store.remove("plain/file"),
    ):
        with pytest.raises(CheckpointError, match=str(tmp_path)) as caught:
            doing()
        assert isinstance(caught.value.__cause__, OSError)


def test_a_store_that_cannot_be_seen_is_not_taken_for_empty(store, monkeypatch):
    """A checkpoint that looks empty would be begun anew."""

    def unreachable(*args, **kwargs):
        raise TimeoutError("no answer")

    for name in ("info", "ls", "exists", "isdir"):
        monkeypatch.setattr(type(store.fs), name, unreachable)
    with pytest.raises(CheckpointError, match="no answer"):
        store.exists("file")
    with pytest.raises(CheckpointError, match="no answer"):
        store.names("commits")


@pytest.fixture
def tiny(tmp_path):
    """A folder on a file system of 64 kB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(["mount", *options], capture_output=True, check=False).returncode:
        pytest.skip("cannot mount a file system here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_named_and_half_a_file_does_not_stay(tiny):
    store = Store(str(tiny))
    store.create("small", b"x" * 100)
    for doing in (
        lambda: store.write("large", [b"x" * 1000, b"y" * 10**6]),
        lambda: store.create("large", b"x" * 10**6),
        lambda: store.replace("small", b"x" * 10**6),
    ):
        with pytest.raises(
            StorageFull, match=r"no room left while .*tiny/(large|small): free space and start again"
        ):
            doing()
        assert store.names("") == ["small"]
    store.write("fits", [b"x" * 30_000])
    assert store.read("small") == b"x" * 100


@pytest.mark.parametrize("number", ["ENOSPC", "EDQUOT"])
def test_no_room_is_named_on_any_file_system(number, monkeypatch):
    store = Store("memory://full")

    def full(*args, **kwargs):
        raise OSError(getattr(errno, number), "full")

    for name in ("open", "pipe_file", "makedirs"):
        monkeypatch.setattr(type(store.fs), name, full)
    for doing in (
        lambda: store.write("file", [b"x"]),
        lambda: store.create("file", b"x"),
        lambda: store.replace("file", b"x"),
        lambda: store.append("file", "x"),
        lambda: store.make("folder"),
    ):
        with pytest.raises(StorageFull, match=r"full/(file|folder): free space"):
            doing()
