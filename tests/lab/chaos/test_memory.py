"""The simulated memory of executors does what a mapped file does."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from headgate.state.layout import HEAD_SLOTS
from headgate.storage.bin_cache import DEAD, CacheFile, MappedFile
from headgate_lab.chaos.memory import SharedMemory

SIZE = 8 * HEAD_SLOTS + 16


@pytest.fixture(params=["mapped", "simulated"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], CacheFile]:
    """Makes views of one file, each as another worker has it."""
    memory = SharedMemory({})
    path = f"{tmp_path}/executor/bin-0"
    return lambda: MappedFile(path) if request.param == "mapped" else memory.file(path)


def dead(buffer: np.ndarray) -> bool:
    return bool(buffer[: 8 * HEAD_SLOTS].view(np.int64)[DEAD])


def test_one_worker_at_a_time_has_the_lock(file: Callable[[], CacheFile]) -> None:
    one, two = file(), file()
    assert (one.lock(), one.lock(), two.lock()) == (True, True, False)
    two.unlock()
    assert not two.lock()
    one.unlock()
    assert two.lock()


def test_workers_share_the_bytes(file: Callable[[], CacheFile]) -> None:
    one, two = file(), file()
    one.lock()
    assert one.attach() is None
    mine = one.allocate(SIZE)
    mine[-1] = 7
    theirs = two.attach()
    assert theirs is not None
    assert (theirs.nbytes, theirs[-1]) == (SIZE, 7)
    theirs[-1] = 9
    assert mine[-1] == 9


def test_bytes_that_were_replaced_or_dropped_are_dead(file: Callable[[], CacheFile]) -> None:
    one, two = file(), file()
    one.lock()
    first = one.allocate(SIZE)
    second = one.allocate(2 * SIZE)
    assert (dead(first), dead(second)) == (True, False)
    two.drop()
    assert dead(second)
    assert file().attach() is None


def test_a_snapshot_does_not_change_with_the_memory() -> None:
    memory = SharedMemory({"kept": b"\1" * SIZE})
    memory.file("new").allocate(SIZE)[-1] = 5
    snapshot = memory.contents()
    again = SharedMemory(snapshot)
    attached = again.attach("kept")
    assert attached is not None
    attached[:] = 0
    assert snapshot["kept"] == b"\1" * SIZE
    assert (snapshot["new"][-1], len(again.contents())) == (5, 2)
