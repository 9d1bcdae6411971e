"""The record of a direct query: how many keys it has, and where its output goes."""

from pathlib import Path
from typing import Any

import pytest
from tests.streams.test_drive import Numbers, drive, run_all

from headgate.errors import CheckpointMismatch
from headgate.stage import sinks
from headgate.storage.checkpoint import IDENTITY
from headgate.storage.store import Store
from headgate.streams.query_record import check_record, remember
from headgate.testing.direct import InProcessDirect


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "ckpt"), durable=False)


def run(store: Store, sink: Any, rows: int = 10, folder: str = "") -> None:
    """A query with one key, whose checkpoint lies in a folder of the store."""
    engine = InProcessDirect()
    loop = drive(engine, Numbers(rows), sink=sink)
    loop.first.store = store.child(folder) if folder else store
    run_all(loop)


def parts(store: Store, count: int) -> list[Store]:
    return [store] if count == 1 else [store.child(f"stage-{number}") for number in range(count)]


@pytest.mark.parametrize(("was", "now"), [(2, 3), (3, 2), (1, 2), (2, 1)])
def test_another_number_of_keys(store: Store, was: int, now: int) -> None:
    sink = sinks.Memory()
    remember(store, was, sink)
    check_record(store, parts(store, now), sink)  # nothing is committed yet
    run(store, sink, folder="" if was == 1 else "stage-0")
    with pytest.raises(CheckpointMismatch, match=f"and this one has {now}: start another query"):
        check_record(store, parts(store, now), sink)
    check_record(store, parts(store, was), sink)


def test_the_first_stage_is_gone(store: Store) -> None:
    store.make("stage-1")
    store.write(f"stage-1/{IDENTITY}", [b"{}"])
    with pytest.raises(CheckpointMismatch, match=r"stage-0 is missing or empty.*restore it"):
        check_record(store, parts(store, 2), sinks.Memory())


def test_another_output_folder_is_named_with_the_old_one(store: Store, tmp_path: Path) -> None:
    old, new = sinks.Parquet(str(tmp_path / "old")), sinks.Parquet(str(tmp_path / "new"))
    remember(store, 1, old)
    check_record(store, [store], new)
    run(store, old)
    with pytest.raises(
        CheckpointMismatch, match=r"lies in .*/old, and this query names .*/new: .*first_batch=1"
    ):
        check_record(store, [store], new)
    check_record(store, [store], sinks.Parquet(new.path, first_batch=1))
    check_record(store, [store], sinks.Memory())
    (tmp_path / "old").rename(tmp_path / "new")
    check_record(store, [store], new)


def test_a_batch_that_the_old_folder_lacks_is_not_left_behind(store: Store, tmp_path: Path) -> None:
    old = sinks.Parquet(str(tmp_path / "old"))
    run(store, old)
    remember(store, 1, old)
    (tmp_path / "old" / "_batches").rename(tmp_path / "old" / "away")
    with pytest.raises(CheckpointMismatch, match=r"batch 0 is committed, but .*/old does not have it yet"):
        check_record(store, [store], sinks.Parquet(str(tmp_path / "new"), first_batch=1))
