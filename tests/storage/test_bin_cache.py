"""The cache of bins on an executor: shared by its workers, right whatever dies, and never trusted without its tag."""

import itertools
import json
import os
import subprocess
import sys
from typing import Never

import numpy as np
import pytest
from tests.storage import cache_worker
from tests.storage.cache_worker import LAYOUT, Worker

from headgate.errors import CorruptState, StorageFull
from headgate.state.layout import head
from headgate.state.table import BinTable
from headgate.storage import bin_cache
from headgate.storage.bin_cache import BinCache, Found, cache_root, executor_identity, tag_of

FRESH = {"rebuilt": False, "shared": True, "content": {}}
NEW_BIN = itertools.count(100)
MANY = [f"key {i}" for i in range(500)]


class Other:
    """A worker in another process."""

    def __init__(self, root) -> None:
        command = [sys.executable, cache_worker.__file__, str(root), str(os.getpid())]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.asked, self.told = self.process.stdin, self.process.stdout
        assert self.told.readline() == "ready\n"

    def __getattr__(self, name):
        def call(*arguments):
            self.asked.write(json.dumps([name, *arguments]) + "\n")
            self.asked.flush()
            return json.loads(self.told.readline())

        return call

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A folder for mappings, and another process that uses it."""
    root = tmp_path_factory.mktemp("shm")
    other = Other(root)
    yield root, other
    other.kill()


@pytest.fixture
def patched(monkeypatch) -> None:
    """Put back what a worker in this process replaces."""
    monkeypatch.setattr(bin_cache, "cache_root", bin_cache.cache_root)
    monkeypatch.setattr(bin_cache, "executor_identity", bin_cache.executor_identity)


@pytest.fixture
def pair(shared, patched):
    """A worker here, one in another process, and the number of a bin that no other test uses."""
    root, other = shared
    here = Worker(str(root), os.getpid())
    yield here, other, next(NEW_BIN)
    here.release()
    other.release()


@pytest.fixture
def alone(tmp_path, patched):
    return Worker(str(tmp_path), os.getpid())


def test_a_bin_without_state_is_new_and_then_found_again(alone) -> None:
    assert alone.open(0, "", []) == FRESH
    assert alone.add(0, ["a", "b", "a"]) == {"a": 2, "b": 1}
    alone.settle("file-1")
    assert alone.open(0, "file-1", ["wrong"]) == FRESH | {"content": {"a": 2, "b": 1}}


def test_two_processes_take_turns_on_one_table(pair) -> None:
    here, other, b = pair
    here.open(b, "", [])
    here.add(b, ["a"])
    here.settle("file-1")
    assert other.open(b, "file-1", ["wrong"]) == FRESH | {"content": {"a": 1}}
    assert other.add(b, ["a", "b"]) == {"a": 2, "b": 1}
    other.settle("file-2")
    assert here.open(b, "file-2", ["wrong"]) == FRESH | {"content": {"a": 2, "b": 1}}


def test_growth_in_one_process_is_seen_by_the_other(pair) -> None:
    here, other, b = pair
    here.open(b, "", [])
    here.add(b, ["a"])
    here.settle("file-1")
    other.open(b, "file-1", ["wrong"])
    other.add(b, MANY)  # moves to a larger mapping; ours is dead now
    other.settle("file-2")
    wanted = {"a": 1} | dict.fromkeys(MANY, 1)
    assert here.open(b, "file-2", ["wrong"]) == FRESH | {"content": wanted}
    here.add(b, [f"more {i}" for i in range(5000)])
    here.settle("file-3")
    assert other.open(b, "file-3", ["wrong"])["content"] == wanted | {f"more {i}": 1 for i in range(5000)}


def test_a_tag_that_the_commit_does_not_expect_means_a_rebuild(alone) -> None:
    alone.open(0, "", [])
    alone.add(0, ["lost"])
    alone.settle("never committed")
    assert alone.open(0, "", []) == FRESH
    alone.settle("file-1")
    assert alone.open(0, "file-2", ["a"]) == {"rebuilt": True, "shared": True, "content": {"a": 1}}


def test_a_task_that_fails_leaves_a_tag_that_nobody_expects(alone) -> None:
    alone.open(0, "", [])
    alone.add(0, ["a"])
    alone.settle("file-1")
    alone.open(0, "file-1", ["a"])
    alone.add(0, ["half a batch"])
    alone.release()
    assert alone.open(0, "file-1", ["a"]) == {"rebuilt": True, "shared": True, "content": {"a": 1}}


def test_a_rebuild_that_fails_leaves_nothing_to_trust(alone) -> None:
    class Damaged(cache_worker.Names):
        def steps(self, table, since) -> Never:
            cache_worker.add(table, ["half"])
            raise CorruptState("damaged")

    with pytest.raises(CorruptState):
        alone.cache.open(0, "file-1", Damaged(["file-1"], []))
    alone.release()
    assert alone.open(0, "file-1", ["a"])["content"] == {"a": 1}


def test_who_does_not_get_the_lock_works_in_private_memory(pair) -> None:
    here, other, b = pair
    other.open(b, "", [])
    other.add(b, ["a"])
    other.settle("file-1")
    other.open(b, "file-1", [])
    assert here.open(b, "file-1", ["a"]) == {"rebuilt": True, "shared": False, "content": {"a": 1}}
    assert here.add(b, ["b"]) == {"a": 1, "b": 1}
    assert other.add(b, ["c"]) == {"a": 1, "c": 1}
    here.settle("file-2 of this process")
    other.settle("file-2 of the other")
    assert here.open(b, "file-2 of this process", ["a", "b"])["content"] == {"a": 1, "b": 1}


def test_a_table_is_not_looked_at_while_another_process_makes_it(pair, shared) -> None:
    """Its arrays would be taken where they do not lie: the other has made the file, and not yet written its header."""
    here, other, b = pair
    other.open(b, "", [])
    assert here.open(b, "", []) == FRESH | {"shared": False}
    here.release()
    assert here.cache._tables == {}
    other.add(b, MANY)
    other.settle("file-1")
    assert here.open(b, "file-1", ["wrong"])["content"] == dict.fromkeys(MANY, 1)


def test_a_process_that_is_killed_lets_go_of_its_lock(shared, patched) -> None:
    root, _ = shared
    here, doomed = Worker(str(root), os.getpid()), Other(root)
    doomed.open(1, "", [])
    doomed.add(1, ["a"])
    doomed.settle("file-1")
    doomed.open(1, "file-1", ["a"])
    doomed.add(1, ["half a batch"])
    assert here.open(1, "file-1", ["a"])["shared"] is False
    here.release()
    doomed.kill()
    assert here.open(1, "file-1", ["a"]) == {"rebuilt": True, "shared": True, "content": {"a": 1}}
    here.release()


def test_a_mapping_that_was_half_made_is_made_again(alone, tmp_path) -> None:
    alone.open(0, "", [])
    alone.settle("file-1")
    (path,) = (p for p in tmp_path.rglob("bin-0"))
    for damage in (b"", b"short", bytes(64), bytes(10_000)):
        path.write_bytes(damage)
        alone.cache._tables.clear()
        assert alone.open(0, "file-1", ["a"]) == {"rebuilt": True, "shared": True, "content": {"a": 1}}
        alone.release()
    header = np.frombuffer(bytearray(path.read_bytes()), np.uint8)
    header[: 8 * 32].view(np.int64)[head.CAPACITY] = 10**9
    path.write_bytes(header.tobytes())
    alone.cache._tables.clear()
    assert alone.open(0, "file-1", ["a"])["content"] == {"a": 1}


def test_a_folder_that_was_cleaned_up_is_made_again(alone, tmp_path) -> None:
    alone.open(0, "", [])
    alone.settle("file-1")
    for path in tmp_path.rglob("bin-*"):
        path.unlink()
    for path in sorted(tmp_path.rglob("*"), reverse=True):
        path.rmdir()
    alone.cache._tables.clear()
    assert alone.open(0, "file-1", ["a"])["content"] == {"a": 1}
    assert alone.open(7, "", []) == FRESH


def test_what_dead_executors_left_is_swept(tmp_path, patched) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    root = tmp_path / f"headgate-{os.getuid()}"
    for owner in (str(process.pid), str(os.getpid()), "readme"):
        (root / owner / "stage").mkdir(parents=True)
    Worker(str(tmp_path), os.getpid())
    assert sorted(p.name for p in root.iterdir()) == sorted([str(os.getpid()), "readme"])


def test_no_room_for_a_mapping_is_named_and_leaves_the_table_as_it_was(alone, tmp_path, monkeypatch) -> None:
    alone.open(0, "", [])
    before = alone.add(0, ["a"])

    def full(*args) -> Never:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(
        StorageFull, match=r"no room for \d+ bytes of cached state under .* give the executors"
    ):
        alone.add(0, MANY)
    assert cache_worker.content(alone.tables[0]).items() >= before.items()
    assert not list(tmp_path.rglob("*.new"))


def test_a_process_has_one_cache_for_a_stage(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(bin_cache, "cache_root", lambda need=0: str(tmp_path))
    monkeypatch.setattr(BinCache, "_opened", {})
    assert BinCache.of("a", LAYOUT) is BinCache.of("a", LAYOUT)
    assert BinCache.of("a", LAYOUT) is not BinCache.of("b", LAYOUT)


def test_tags_tell_names_apart_and_none_is_the_struck_out_one() -> None:
    tags = {tag_of(f"file-{i}") for i in range(1000)} | {tag_of("")}
    assert len(tags) == 1001
    assert (0, 0) not in tags
    header = BinTable.create(LAYOUT).header
    for tag in tags:
        header[bin_cache.TAG] = tag
        assert tuple(header[bin_cache.TAG].tolist()) == tag


def test_an_executor_is_known_by_its_host_and_process() -> None:
    host, process = executor_identity()
    assert host == os.uname().nodename
    assert process == os.getppid()


def test_mappings_live_where_there_is_room() -> None:
    assert os.path.isdir(cache_root())
    assert cache_root(need=2**62) != "/dev/shm"


def test_a_table_that_is_behind_gets_only_what_came_after_it(alone) -> None:
    alone.open(0, "", [])
    alone.add(0, ["a"])
    alone.settle("file-1")
    later = cache_worker.Names(["file-1", "file-2"], ["b"])
    table, found = alone.cache.open(0, "file-2", later)
    assert (found, cache_worker.content(table)) == (Found.behind, {"a": 1, "b": 1})


def test_a_table_that_is_read_ahead_is_found_current_and_one_cut_short_is_behind(alone) -> None:
    class Two(cache_worker.Names):
        def steps(self, table, since):
            for name in self.files[self.files.index(since) + 1 if since else 0 :]:
                cache_worker.add(table, [name])
                yield name

    stored = Two(["file-1", "file-2"], [])
    assert alone.cache.warm(0, "file-2", stored, late=lambda: True)
    table, found = alone.cache.open(0, "file-2", stored)
    assert (found, cache_worker.content(table)) == (Found.behind, {"file-1": 1, "file-2": 1})
    alone.cache.release()
    assert alone.cache.warm(1, "file-2", stored, late=lambda: False)
    assert not alone.cache.warm(1, "file-2", stored, late=lambda: True), "it is there already"
    table, found = alone.cache.open(1, "file-2", stored)
    assert (found, cache_worker.content(table)) == (Found.current, {"file-1": 1, "file-2": 1})


def test_a_table_in_use_elsewhere_is_not_read_ahead(pair) -> None:
    here, other, b = pair
    other.open(b, "file-1", ["a"])
    assert not here.cache.warm(b, "file-2", cache_worker.Names(["file-2"], ["b"]), late=lambda: False)
