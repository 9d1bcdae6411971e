"""The Parquet sink's folder: each batch whole and once on every store, whatever is interrupted, and only its owner's."""

import itertools

import pytest

from headgate.errors import CheckpointMismatch, CorruptState
from headgate.storage.commit_log import checksum, sealed
from headgate.storage.manifest import Written
from headgate.storage.parquet_folder import Owner, ParquetFolder
from headgate.storage.store import Store

OWNER = Owner("stage-a", "file:///ckpt")
STEPS = ("_move", "_move_folder")


class Stop(Exception):
    """The process dies here."""


@pytest.fixture
def folder(any_store):
    made = ParquetFolder(any_store("out").url)
    made.own(OWNER)
    return made


def staged_in(folder, batch, *, count=4, run="00000001.aaaaaaaa"):
    """So many files of a batch, waiting to be shown."""
    staged = folder.store.child("_staging")
    files = []
    staged.make(f"{batch:012d}-{run}")
    for n in range(count):
        data = f"rows of file {n} of batch {batch} by {run}".encode()
        name = f"{batch:012d}-{run}/part-{n}.parquet"
        staged.write(name, [data])
        files.append(Written(name, len(data), checksum(data)))
    return staged, tuple(files)


def seen(folder):
    """What a reader who goes by the rule sees."""
    names = [path.removeprefix(folder.path + "/") for path in folder.files()]
    return {name: folder.store.read(name) for name in names}


def test_a_batch_is_shown_once_and_again_with_no_harm(folder) -> None:
    staged, files = staged_in(folder, 0)
    assert folder.files() == []
    folder.show(staged, files, 0, again=False)
    shown = seen(folder)
    assert len(shown) == 4
    folder.show(staged, files, 0, again=True)
    assert seen(folder) == shown
    assert folder.batches() == [0]
    assert folder.files(0) == folder.files()


def test_a_batch_without_output_is_recorded(folder) -> None:
    folder.show(folder.store.child("_staging"), (), 3, again=False)
    assert (folder.batches(), folder.files()) == ([3], [])
    assert not folder.occupied()


@pytest.mark.parametrize("stop_at", range(8))
def test_interrupted_anywhere_a_batch_is_whole_or_absent_and_publishing_it_again_completes_it(
    folder, stop_at, monkeypatch
) -> None:
    before, first = staged_in(folder, 0)
    folder.show(before, first, 0, again=False)
    old = seen(folder)
    staged, files = staged_in(folder, 1)
    steps = itertools.count()

    def stopping(step):
        def stepped(*args, **options):
            if next(steps) == stop_at:
                raise Stop
            return step(*args, **options)

        return stepped

    with monkeypatch.context() as patched:
        for name in ("_move", "_move_folder"):
            patched.setattr(folder, name, stopping(getattr(folder, name)))
        for name in ("copy", "write_once"):
            patched.setattr(Store, name, stopping(getattr(Store, name)))
        try:
            folder.show(staged, files, 1, again=False)
        except Stop:
            assert seen(folder) == old
            if folder.store.local:  # nor does a reader who lists the folder see a part of it
                assert len(folder.store.names("batch=1")) in (0, 4)
    folder.show(staged, files, 1, again=True)
    assert len(seen(folder)) == 8


def test_damaged_output_that_waits_is_never_shown(folder) -> None:
    """Every byte of what was committed and not yet published."""
    staged, files = staged_in(folder, 0, count=1)
    good = staged.read(files[0].name)
    for at in range(len(good)):
        damaged = bytearray(good)
        damaged[at] ^= 1
        staged.replace(files[0].name, bytes(damaged))
        with pytest.raises(CorruptState, match=r"part-0\.parquet is damaged.*not published; restore it"):
            folder.show(staged, files, 0, again=True)
        assert folder.batches() == []
        if folder.store.local:  # it was gathered before it was looked at
            staged, files = staged_in(folder, 0, count=1)
            staged.remove(f"{files[0].name.rpartition('/')[0]}.ready")
    staged.replace(files[0].name, good)
    folder.show(staged, files, 0, again=True)
    assert list(seen(folder).values()) == [good]


def test_output_that_is_missing_is_named(folder) -> None:
    staged, files = staged_in(folder, 0)
    staged.remove(files[2].name)
    with pytest.raises(Exception, match=r"missing|part-2"):
        folder.show(staged, files, 0, again=True)
    assert folder.batches() == []


def test_a_batch_that_something_else_wrote_is_not_taken_for_ours(folder) -> None:
    staged, files = staged_in(folder, 0)
    folder.show(staged, files, 0, again=False)
    shown = seen(folder)
    other, others = staged_in(folder, 0, run="00000009.bbbbbbbb", count=3)
    with pytest.raises(
        CheckpointMismatch, match=r"batch=0 has other files than batch 0 of this stage committed"
    ):
        folder.show(other, others, 0, again=False)
    assert seen(folder) == shown
    if folder.store.local:
        folder.store.make("batch=1")
        folder.store.write("batch=1/part-x.parquet", [b"?"])
        third = staged_in(folder, 1)
        with pytest.raises(CheckpointMismatch, match="something else wrote"):
            folder.show(*third, 1, again=False)


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (
            Owner("stage-b", "file:///other"),
            r"of another stage, stage-a with the checkpoint file:///ckpt; this is",
        ),
        (
            Owner("stage-a", "file:///ckpt", "rows aside"),
            "holds the output of this stage, and cannot hold its rows aside too",
        ),
    ],
    ids=["another stage", "the rows aside"],
)
def test_a_folder_has_one_owner(folder, any_store, other, text) -> None:
    ParquetFolder(any_store("out").url).own(OWNER)
    ParquetFolder(any_store("out").url).own(
        Owner("stage-a", "file:///moved")
    )  # folders may be moved together
    with pytest.raises(CheckpointMismatch, match=text):
        ParquetFolder(any_store("out").url).own(other)


@pytest.mark.parametrize(
    ("shown", "committed", "first", "text"),
    [
        (0, None, None, None),
        (0, 0, None, None),
        (3, 2, None, None),
        (2, 2, None, None),
        (
            3,
            1,
            None,
            r"holds the batches 2 to 2, which this stage has not committed: .*batch=2 and _batches/0+2\.json",
        ),
        (3, None, None, "holds the batches 0 to 2, which this stage has not committed"),
        (1, 2, None, r"has only batches up to 0, though .* up to batch 2.*first_batch=3"),
        (0, 2, None, r"has no batch, though this stage has committed up to batch 2.*first_batch=3"),
        (0, 2, 3, None),
        (0, 2, 2, None),
        (0, 2, 1, "has no batch"),
        (1, 2, 3, "has only batches up to 0"),
    ],
)
def test_a_folder_has_the_batches_that_are_committed(any_store, shown, committed, first, text) -> None:
    folder = ParquetFolder(any_store("out").url, first=first)
    folder.own(OWNER) if first is None else None
    for batch in range(shown):
        folder.store.make("_staging", "_batches")
        staging, files = staged_in(folder, batch, count=1)
        folder.show(staging, files, batch, again=False)
    if first is not None and shown:
        ParquetFolder(any_store("out").url).store.write_once(
            "_headgate.json", sealed({"stage": "stage-a", "checkpoint": "x", "what": "output"})
        )
    if text is None:
        folder.own(OWNER, committed)
        return
    with pytest.raises(CheckpointMismatch, match=text):
        folder.own(OWNER, committed)


def test_an_owners_record_of_another_kind_is_named(folder) -> None:
    folder.show(*staged_in(folder, 0), 0, again=False)
    folder.store.replace("_headgate.json", folder.store.read("_batches/000000000000.json"))
    with pytest.raises(CorruptState, match=r"_headgate\.json does not say whose folder this is"):
        folder.own(OWNER, 0)


def test_batches_without_an_owner_are_refused(any_store) -> None:
    store = any_store("old")
    store.make("batch=0")
    store.write("batch=0/part.parquet", [b"x"])
    with pytest.raises(CheckpointMismatch, match="nothing says whose they are"):
        ParquetFolder(store.url).own(OWNER)


def test_a_record_that_is_missing_between_others_is_named(folder) -> None:
    for batch in range(4):
        folder.show(*staged_in(folder, batch), batch, again=False)
    folder.store.remove("_batches/000000000000.json")  # the oldest may be removed
    assert folder.batches() == [1, 2, 3]
    folder.store.remove("_batches/000000000002.json")
    with pytest.raises(
        CorruptState, match=r"_batches/000000000002\.json is missing, though batches after it"
    ):
        folder.files()


def test_a_record_of_another_kind_is_named(folder) -> None:
    folder.show(*staged_in(folder, 0), 0, again=False)
    folder.store.replace("_batches/000000000000.json", folder.store.read("_headgate.json"))
    with pytest.raises(CorruptState, match=r"000000000000\.json is not the record of batch 0"):
        folder.files()


def test_a_damaged_record_is_named(folder) -> None:
    staged, files = staged_in(folder, 0)
    folder.show(staged, files, 0, again=False)
    name = "_batches/000000000000.json"
    folder.store.replace(name, folder.store.read(name)[:-2])
    with pytest.raises(CorruptState, match=r"_batches/000000000000\.json is damaged"):
        folder.files()
