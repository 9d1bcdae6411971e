"""Stores on S3 when the server throttles, fails, or is cut off: on a real S3 server behind a proxy that does harm."""

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.storage import s3
from tests.storage.checkpoints import opened, run_batch

from headgate.errors import CheckpointError, ConfigError, Superseded
from headgate.storage import patience, remote
from headgate.storage.checkpoint import Checkpoint
from headgate.storage.commit_log import CommitLog
from headgate.storage.journal_files import journal_lines
from headgate.storage.parquet_folder import Owner, ParquetFolder
from headgate.storage.patience import REQUESTS
from headgate.storage.store import Store

HARM = ["refused", "dropped", "lost", "torn", "503", "500", "429"]


@pytest.fixture(scope="module")
def server() -> Iterator[s3.Faulty]:
    with s3.faulty_server() as running:
        yield running


@pytest.fixture
def faulty(server: s3.Faulty, monkeypatch: pytest.MonkeyPatch) -> Iterator[s3.Faulty]:
    monkeypatch.setattr(patience, "FIRST_PAUSE", 0.01)
    yield server
    server.harm(0, 0.0)


def at(name: str) -> Store:
    return Store(f"s3://{s3.BUCKET}/{name}")


@pytest.mark.parametrize("kind", HARM)
def test_a_failure_that_passes_is_not_seen(kind, faulty) -> None:
    store = at(f"passing-{kind}")
    faulty.harm(11, 0.3, kind)
    store.create("file.json", b"first")
    with pytest.raises(FileExistsError):
        store.create("file.json", b"second")
    store.replace("other.json", b"x" * 100_000)
    assert store.read("file.json") == b"first"
    assert store.read("other.json", -3) == b"xxx"
    assert store.exists("file.json")
    assert not store.exists("none.json")
    assert store.names("") == ["file.json", "other.json"]
    store.remove("file.json", "other.json", "none.json")
    assert store.names("") == []


@pytest.mark.parametrize("kind", ["lost", "twice", "late"])
def test_of_two_creators_one_wins_whatever_becomes_of_answers(kind, faulty) -> None:
    store, won = at(f"creators-{kind}"), []
    faulty.harm(5, 0.4, kind)
    for number in range(8):
        for who in (b"one", b"two"):
            try:
                store.create(f"{number}.json", who)
            except FileExistsError:
                continue
            won.append((number, who))
    assert [(number, store.read(f"{number}.json")) for number in range(8)] == won


def test_an_outage_ends_with_an_error_that_says_what_was_tried(faulty, monkeypatch) -> None:
    monkeypatch.setattr(patience, "PATIENCE", 0.3)
    store = at("outage")
    faulty.harm(1, 1.0, "503")
    before = len(faulty.requests())
    with pytest.raises(
        CheckpointError,
        match=r"creating headgate-tests/outage/a\.json failed: .*SlowDown.*tried \d+ times in 0 s",
    ):
        store.create("a.json", b"x")
    assert 2 <= len(faulty.requests()) - before <= 8, "the pause grows"
    faulty.harm(1, 1.0, "refused")
    with pytest.raises(CheckpointError, match=r"reading .*a\.json failed: .*tried \d+ times"):
        store.read("a.json")


def test_what_does_not_pass_is_not_tried_again(faulty) -> None:
    store = Store("s3://no-such-bucket/x")
    before = len(faulty.requests())
    with pytest.raises(CheckpointError, match=r"no-such-bucket/x/a\.json failed: .*bucket"):
        store.create("a.json", b"x")
    assert len(faulty.requests()) == before + 1


def uploads(store: Store) -> list[dict[str, Any]]:
    found = store.fs.call_s3("list_multipart_uploads", Bucket=s3.BUCKET).get("Uploads", [])
    return [upload for upload in found if store.path().endswith(upload["Key"].partition("/")[0])]


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> bytes:
    monkeypatch.setattr(remote, "MULTIPART", 6 << 20)
    monkeypatch.setattr(remote, "PART", 5 << 20)
    return os.urandom(11 << 20)


@pytest.mark.parametrize("kind", ["503", "lost", "refused"])
def test_a_large_file_goes_in_parts_each_of_which_is_sent_again(kind, faulty, small_parts) -> None:
    store = at(f"large-{kind}")
    faulty.harm(3, 0.4, kind)
    assert store.write("state.hgs", [small_parts[:7], small_parts[7:]]) == len(small_parts)
    faulty.harm(0, 0.0)
    assert store.read("state.hgs") == small_parts
    sent = {path for method, path, _ in faulty.requests() if f"large-{kind}/" in path and method == "PUT"}
    assert len(sent) == 3, sent


def test_an_upload_that_fails_leaves_nothing_visible_and_nothing_behind(
    faulty, small_parts, monkeypatch
) -> None:
    store = at("aborted")
    monkeypatch.setattr(store._remote, "_part", lambda *of: (_ for _ in ()).throw(OSError("cut off")))
    with pytest.raises(CheckpointError, match="cut off"):
        store.write("state.hgs", [small_parts])
    assert store.names("") == []
    assert uploads(store) == []


def test_uploads_of_dead_drivers_are_aborted_by_the_next_one(faulty) -> None:
    store = at("unfinished")
    first = opened(store)
    key = store.path(f"state/000000000000-00000-{first.run}-0.hgs").partition("/")[2]
    store.fs.call_s3("create_multipart_upload", Bucket=s3.BUCKET, Key=key)
    assert len(uploads(store)) == 1
    run_batch(opened(store), 0)
    assert uploads(store) == []


def commit_under_harm(faulty: s3.Faulty, name: str, seed: int, batches: int, rate: float) -> None:
    """Drivers follow one another, each taking over from one that is at work; every batch is committed once."""
    store, done = at(name), 0
    faulty.harm(seed, rate)
    sleeping: list[Checkpoint] = []
    while done < batches:
        checkpoint = opened(store)
        assert (checkpoint.last.batch + 1 if checkpoint.last else 0) == done
        for old in sleeping:
            with pytest.raises(Superseded):
                run_batch(old, done)
        for _ in range(3):
            run_batch(checkpoint, done)
            done += 1
        sleeping = [checkpoint]
    faulty.harm(0, 0.0)
    assert len(journal_lines(store)) == done
    last = CommitLog(store).last()
    assert last is not None
    assert last.body is not None
    assert last.body["batch"] == done - 1
    assert {fault for *_, fault in faulty.requests()} > {""}


def test_batches_are_committed_once_under_harm(faulty) -> None:
    commit_under_harm(faulty, "commits", 1, 6, 0.2)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_batches_are_committed_once_under_harm(seed, faulty) -> None:
    commit_under_harm(faulty, f"commits-{seed}", seed, 30, 0.3)


def test_requests_are_counted(faulty) -> None:
    store = at("counted")
    before, sent = len(faulty.requests()), REQUESTS.sent
    store.create("a.json", b"x")
    store.write("b.hgs", [b"y" * 1000])
    store.read("a.json")
    store.read("b.hgs", -10)
    store.remove("a.json", "b.hgs", "c.hgs")
    assert REQUESTS.sent - sent == len(faulty.requests()) - before == 5


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:secret@bucket/x",
        "s3://key@bucket/x",
        "abfs://user:secret@account.dfs.core.windows.net/x",
        "az://box/x?sig=secret",
    ],
)
def test_a_url_with_credentials_is_refused_and_not_repeated(url) -> None:
    with pytest.raises(ConfigError, match="has credentials in it") as caught:
        Store(url)
    assert not re.search("secret|key@", str(caught.value))


def test_a_listing_of_output_may_be_out_of_date(faulty, monkeypatch) -> None:
    folder = ParquetFolder(f"s3://{s3.BUCKET}/stale-output")
    owner = Owner("stage", "checkpoint")
    folder.own(owner)
    shown = [list[str]()]
    for batch in range(4):
        folder.show(folder.output_store(), (), batch, again=False)
        shown.append(folder.store.names("_batches"))
    for listing in (shown[1], shown[2], [shown[4][0], shown[4][3]]):
        with monkeypatch.context() as patch:
            patch.setattr(Store, "names", lambda self, folder, listing=listing: listing)
            assert folder.batches() == [0, 1, 2, 3]
            folder.own(owner, committed=3)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "names", lambda self, folder: [])
        folder.own(owner, committed=3)
    folder.store.remove("_batches/000000000003.json")
    with monkeypatch.context() as patch:
        patch.setattr(Store, "names", lambda self, folder: shown[4])
        folder.own(owner, committed=2)
