"""Reading a checkpoint from outside: nothing is claimed, nothing is written, nothing is read twice."""

from pathlib import Path

import pytest
from tests.storage.s3 import BUCKET, server
from tests.watch.skewed import Skewed

from headgate.errors import ConfigError
from headgate.storage.store import Store
from headgate.watch import reader as reading
from headgate.watch.reader import CheckpointReader
from headgate.watch.tail import JournalTail


def files_of(folder: str) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def batches(reader: CheckpointReader) -> list[int]:
    return [entry.report.batch for entry in reader.records()[0].entries]


def test_a_look_changes_nothing(recorded) -> None:
    before = files_of(recorded)
    reader = CheckpointReader(recorded)
    assert reader.look()
    assert not reader.look()
    assert batches(reader) == list(range(12))
    assert reader.records()[0].key == ("user",)
    assert files_of(recorded) == before


def test_a_running_query_is_not_disturbed_and_its_batches_are_seen(tmp_path) -> None:
    skewed = Skewed(str(tmp_path / "c"))
    skewed.run(1)
    reader = CheckpointReader(str(tmp_path / "c"))
    assert reader.look()
    for wanted in ([0, 1], [0, 1, 2, 3, 4]):  # one new batch, and several
        skewed.run(len(wanted) - skewed.batches)
        assert reader.look()
        assert batches(reader) == wanted
        assert wanted[-1] in reader.records()[0].commits
    assert len(list((tmp_path / "c" / "log").glob("*0.json"))) == 1, "the claim of the stage is the only one"


def test_another_driver_and_a_restored_backup(tmp_path) -> None:
    folder = str(tmp_path / "c")
    first = Skewed(folder)
    first.run(2)
    reader = CheckpointReader(folder)
    reader.look()
    second = Skewed(folder)
    second.batches = 2
    second.run(2)
    assert reader.look()
    assert batches(reader) == [0, 1, 2, 3]
    other = Skewed(str(tmp_path / "d"))
    other.run(2)
    (tmp_path / "c").rename(tmp_path / "old")
    (tmp_path / "d").rename(tmp_path / "c")
    assert reader.look()
    assert batches(reader) == [0, 1]


def test_only_the_newest_batches_are_kept(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(reading, "KEPT", 3)
    skewed = Skewed(str(tmp_path / "c"), rows=50)
    skewed.run(6)
    reader = CheckpointReader(str(tmp_path / "c"))
    reader.look()
    assert batches(reader) == [3, 4, 5]
    skewed.run(1)
    reader.look()
    assert batches(reader) == [4, 5, 6]
    assert set(reader.records()[0].commits) <= {4, 5, 6}


def test_several_stages_and_stages_that_begin_later(tmp_path) -> None:
    root = tmp_path / "q"
    Skewed(str(root / "stage-0"), rows=50).run(2)
    reader = CheckpointReader(str(root))
    reader.look()
    assert len(reader.records()) == 1
    Skewed(str(root / "stage-1"), rows=50).run(1)
    assert reader.look()
    assert [len(record.entries) for record in reader.records()] == [2, 1]


def test_a_folder_that_is_no_checkpoint(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"is not the checkpoint of a query: it has no headgate\.json"):
        CheckpointReader(str(tmp_path))


def test_the_tail_reads_each_line_once_and_waits_for_the_rest_of_one(tmp_path) -> None:
    folder = tmp_path / "journal"
    folder.mkdir()
    (folder / "000000-a.jsonl").write_text("old\n")
    (folder / "000001-a.jsonl").write_text("one\ntwo\nthr")
    tail = JournalTail(Store(str(tmp_path)), most=2)
    assert tail.lines() == ["one", "two"], "files of old batches are not read"
    assert tail.lines() == []
    with (folder / "000001-a.jsonl").open("a") as file:
        file.write("ee\n")
    (folder / "000001-b.jsonl").write_text("four\n")
    (folder / "000000-a.jsonl").write_text("old\nolder\n")
    assert sorted(tail.lines()) == ["four", "three"]


@pytest.mark.full
def test_on_an_object_store_the_newest_lines_are_in_the_commits() -> None:
    pytest.importorskip("s3fs")
    with server():
        place = f"s3://{BUCKET}/users"
        skewed = Skewed(place, rows=50)
        skewed.run(3)
        reader = CheckpointReader(place)
        assert not reader.local
        assert reader.look()
        assert batches(reader) == [0, 1, 2]
        skewed.run(4)
        assert reader.look()
        assert not reader.look()
        assert batches(reader) == list(range(7))
        assert all(commit.at for commit in reader.records()[0].commits.values())
