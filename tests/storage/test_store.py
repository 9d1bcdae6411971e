"""Files of a checkpoint: the same promises on a local folder and on another fsspec file system; errors as ours."""

import errno
import os
import pickle
import subprocess
import sys
import threading
from typing import Never

import numpy as np
import pytest

from headgate.errors import CheckpointError, ConfigError, StorageFull
from headgate.storage import patience
from headgate.storage.store import Store


@pytest.fixture
def store(any_store):
    """An empty store, on each kind of file system."""
    made = any_store("checkpoint")
    made.make("")
    return made


def test_what_was_written_is_read(store) -> None:
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
def test_ranges(store, start, end, wanted) -> None:
    store.write("file", [b"0123456789"])
    assert store.read("file", start=start, end=end) == wanted


def test_what_is_not_there(store) -> None:
    assert not store.exists("file")
    assert store.names("folder") == []
    store.remove("file", "folder")
    with pytest.raises(FileNotFoundError):
        store.read("file")


def test_a_file_is_created_once_and_whole(store) -> None:
    store.create("file", b"first")
    with pytest.raises(FileExistsError):
        store.create("file", b"second")
    assert store.read("file") == b"first"
    assert store.names("") == ["file"]


def test_of_many_creators_one_wins(tmp_path) -> None:
    store, won = Store(str(tmp_path)), []
    barrier = threading.Barrier(8)

    def create(i) -> None:
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


RACE = """
import sys
from headgate.storage.store import Store
store, me = Store(sys.argv[1]), sys.argv[2].encode()
won = []
for n in range(20):
    try:
        store.create(f"race-{n}", me)
        won.append(str(n))
    except FileExistsError:
        pass
print(" ".join(won))
"""


def test_of_many_processes_that_create_at_once_one_wins(any_store, bucket) -> None:
    """Each of 20 files has one creator, on a disk and on S3."""
    store = any_store("race")
    if store.url.startswith("memory"):
        pytest.skip("memory is one process's")
    store.make("")
    racers = [
        subprocess.Popen([sys.executable, "-c", RACE, store.url, str(n)], stdout=subprocess.PIPE, text=True)
        for n in range(4)
    ]
    won = {str(n): racer.communicate()[0].split() for n, racer in enumerate(racers)}
    assert sorted(name for names in won.values() for name in names) == sorted(map(str, range(20)))
    assert all(store.read(f"race-{name}").decode() == who for who, names in won.items() for name in names)


def test_a_store_is_tried_once_and_nothing_is_left_behind(any_store, monkeypatch) -> None:
    store = any_store("tried")
    store.check()
    assert store.names("") == []
    monkeypatch.setattr(Store, "create", lambda *args: pytest.fail("tried again"))
    store.check()


@pytest.mark.parametrize(
    "kind", ["sftp.SFTPFileSystem", "arrow.HadoopFileSystem", "cached.SimpleCacheFileSystem"]
)
def test_a_store_without_an_exclusive_create_is_refused_by_name(kind) -> None:
    module, name = kind.split(".")
    store = Store("memory://refused")
    store.url = "other://host/x"
    store.fs = type(name, (), {"__module__": f"fsspec.implementations.{module}"})()
    with pytest.raises(
        ConfigError, match=f"other://host/x cannot hold a checkpoint: {name} of fsspec has no exclusive"
    ):
        store.check()


def test_a_store_that_nothing_speaks_to_is_named() -> None:
    with pytest.raises(ConfigError, match=r"nowhere://bucket/x cannot be reached: .*nowhere"):
        Store("nowhere://bucket/x")


@pytest.mark.parametrize(
    ("url", "module", "extra"), [("gs://b/x", "gcsfs", "gcs"), ("abfs://b/x", "adlfs", "azure")]
)
def test_a_store_whose_extra_is_missing_names_the_extra(url, module, extra, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf"{url} needs {module}, .*pip install 'headgate\[{extra}\]'"):
        Store(url)


def test_an_old_s3fs_is_refused_by_its_version(bucket, monkeypatch) -> None:
    store = Store(f"{bucket}/old")
    versions = {"s3fs": "2024.6.0", "botocore": "1.43.1"}
    monkeypatch.setattr("importlib.metadata.version", versions.__getitem__)
    with pytest.raises(
        ConfigError, match=r"s3fs 2024\.6\.0 has no exclusive create; install s3fs>=2025\.3\.2"
    ):
        store.check()
    versions |= {"s3fs": "2026.9.0", "botocore": "1.34.131"}
    with pytest.raises(
        ConfigError, match=r"botocore 1\.34\.131 has no exclusive create; install botocore>=1\.35\.2"
    ):
        store.check()
    versions |= {"botocore": "1.35.2"}
    store.check()


def test_a_server_that_overwrites_is_found_out(any_store, monkeypatch) -> None:
    store = any_store("careless")
    monkeypatch.setattr(Store, "create", Store.replace)
    with pytest.raises(ConfigError, match="a file that was there could be created again"):
        store.check()
    assert store.names("") == []


def test_a_store_that_sends_a_request_again_is_accepted(any_store, monkeypatch) -> None:
    create = Store.create

    def twice(self, name, data) -> None:
        create(self, name, data)
        if data == b"1":  # the answer was lost, and the client library has sent it again
            create(self, name, data)

    monkeypatch.setattr(Store, "create", twice)
    any_store("sends-again").check()


class Answer(Exception):
    """What a server said, as botocore has it."""

    def __init__(self, code) -> None:
        super().__init__(code)
        self.response = {"Error": {"Code": code}}


def test_conditional_writes_that_collide_are_tried_again_and_refusals_without_a_reason_are_known(
    bucket, monkeypatch
) -> None:
    store, answers = Store(f"{bucket}/answers"), list[Answer]()
    monkeypatch.setattr(patience, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(patience, "PATIENCE", 0.5)

    def pipe(path, data, mode) -> None:
        assert mode == "create"
        if answers:
            raise OSError(5, "server said no") from answers.pop(0)

    monkeypatch.setattr(store.fs, "pipe_file", pipe)
    answers[:] = [Answer("ConditionalRequestConflict")] * 3
    store.create("file", b"x")
    answers[:] = [Answer("PreconditionFailed")]
    with pytest.raises(FileExistsError):
        store.create("file", b"x")
    answers[:] = [Answer("ConditionalRequestConflict")] * 99
    with pytest.raises(CheckpointError, match="server said no"):
        store.create("file", b"x")
    answers[:] = [Answer("AccessDenied")]
    with pytest.raises(CheckpointError, match="server said no"):
        store.create("file", b"x")


def test_files_are_copied_within_a_store_and_to_another(store, tmp_path) -> None:
    store.write("file", [b"content"])
    store.copy("file", store, "folder/copy")
    assert store.read("folder/copy") == b"content"
    other = Store(str(tmp_path / "elsewhere"), durable=False)
    other.make("")
    store.copy("file", other, "copy")
    assert other.read("copy") == b"content"
    assert (store.size("file"), store.size("none")) == (7, None)
    assert store.digest("file") == other.digest("copy")
    with pytest.raises(FileNotFoundError):
        store.digest("none")


def test_a_file_is_replaced_whole(store) -> None:
    for text in (b"first", b"second"):
        store.replace("file", text)
        assert store.read("file") == text
    assert store.names("") == ["file"]


def test_lines_are_appended_where_files_can_grow(store) -> None:
    if not store.appends:
        assert not store.local
        return
    for line in ("one", "zwölf"):
        store.append("file", line)
    assert store.read("file").decode() == "one\nzwölf\n"


def test_names_are_sorted_and_removed_names_are_gone(store) -> None:
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


def test_a_child_is_a_folder_of_its_own(store) -> None:
    store.child("state").make("")
    store.child("state").write("file", [b"x"])
    assert store.read("state/file") == b"x"
    assert store.child("state").path("file") == store.path("state/file")


def test_a_store_travels_to_another_process(store) -> None:
    store.write("file", [b"x"])
    twin = pickle.loads(pickle.dumps(store))
    assert (twin.url, twin.durable, twin.read("file")) == (store.url, store.durable, b"x")


def test_a_relative_path_is_made_absolute(tmp_path, monkeypatch) -> None:
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


def test_other_errors_of_the_file_system_are_ours_and_name_the_path(tmp_path) -> None:
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


def test_a_store_that_cannot_be_seen_is_not_taken_for_empty(store, monkeypatch) -> None:
    """A checkpoint that looks empty would be begun anew."""
    monkeypatch.setattr(patience, "PATIENCE", 0.0)

    def unreachable(*args, **kwargs) -> Never:
        raise TimeoutError("no answer")

    for name in ("info", "ls", "exists", "isdir"):
        monkeypatch.setattr(store.fs, name, unreachable)
    if store.disk is not None:
        for name in ("size", "names", "is_folder"):
            monkeypatch.setattr(store.disk, name, unreachable)
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


def test_a_full_disk_is_named_and_half_a_file_does_not_stay(tiny) -> None:
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
def test_no_room_is_named_on_any_file_system(number, monkeypatch) -> None:
    store = Store("memory://full")

    def full(*args, **kwargs) -> Never:
        raise OSError(getattr(errno, number), "full")

    for name in ("open", "pipe_file", "makedirs"):
        monkeypatch.setattr(type(store.fs), name, full)
    for doing in (
        lambda: store.write("file", [b"x"]),
        lambda: store.create("file", b"x"),
        lambda: store.replace("file", b"x"),
        lambda: store.make("folder"),
    ):
        with pytest.raises(StorageFull, match=r"full/(file|folder): free space"):
            doing()


def test_a_folder_in_which_files_appear_while_it_is_removed_is_no_error(tmp_path, monkeypatch) -> None:
    store = Store(str(tmp_path))
    store.make("staged")
    remove = os.rmdir
    times: list[str] = []

    def late(path, **options) -> None:
        if not times:  # a task that nobody waits for
            (tmp_path / "staged" / "late").write_bytes(b"x")
        times.append(path)
        remove(path, **options)

    monkeypatch.setattr(os, "rmdir", late)
    store.remove("staged")
    assert not (tmp_path / "staged").exists()
