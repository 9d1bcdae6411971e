"""The driver's checkpoint: whose it is, what is committed, what a crash leaves and what is removed."""

import json

import pytest

from headgate.errors import CheckpointError, CheckpointMismatch, CorruptState, NewerFormat
from headgate.spark import checkpoint as module
from headgate.spark.checkpoint import Checkpoint, starts_journal
from headgate.spark.manifest import Manifest, StateFile, live_files
from headgate.spark.store import Store

IDENTITY = {
    "key": [["user", "string"]],
    "bins": 4,
    "operator": "Aggregate(n=count())",
    "inputs": {"x": "int64"},
    "state": [["key", "bytes", 0], ["n:n", "i64", 0]],
}


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "checkpoint"), durable=False)


def line_of(batch):
    return json.dumps({"batch": batch})


def manifest_of(batch, *, run="run-a", before=None, bins=(0,), snapshots=()):
    """The commit of a batch that touches `bins`, all in one file."""
    bases = dict(before.bases) if before else {}
    for b in bins:
        bases.setdefault(b, batch)
    bases.update(dict.fromkeys(snapshots, batch))
    written = StateFile(f"{batch:012d}-{run}.hgs", batch, frozenset(bins) | frozenset(snapshots))
    files = live_files((*(before.files if before else ()), written), bases)
    return Manifest(batch=batch, run=run, channels=2, files=files, bases=bases, journal=line_of(batch))


def run_batch(checkpoint, batch, **kwargs):
    """What the stage does in one batch, in its order."""
    before = checkpoint.last
    manifest = manifest_of(batch, before=before, **kwargs)
    checkpoint.store.write(f"state/{manifest.files[-1].name}", [b"state"])
    checkpoint.store.make(f"output/{batch:012d}")
    checkpoint.store.write(f"output/{batch:012d}/part", [b"output"])
    checkpoint.commit(manifest)
    checkpoint.write_journal(manifest.journal, batch)
    checkpoint.retire(before, manifest)
    return manifest


# -- whose it is ----------------------------------------------------------------------------------------------------


def test_a_new_checkpoint_is_claimed_and_found_again(store):
    first = Checkpoint(store, IDENTITY)
    assert first.last is None
    again = Checkpoint(store, IDENTITY)
    assert again.stage == first.stage
    assert Checkpoint(store.child("other"), IDENTITY).stage != first.stage


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        (
            "key",
            [["name", "string"]],
            r'made with key = \[\["user", "string"\]\], and the stage now has \[\["name"',
        ),
        ("bins", 8, "made with bins = 4, and the stage now has 8"),
        (
            "operator",
            "HistoryWindow(3)",
            r'operator = "Aggregate\(n=count\(\)\)", and the stage now has "HistoryW',
        ),
        ("inputs", {"x": "int32"}, r'inputs = \{"x": "int64"\}, and the stage now has \{"x": "int32"\}'),
        ("state", [], "made with state = "),
        ("new", 1, "made with new = null"),
    ],
)
def test_a_changed_stage_is_refused_with_both_values(store, name, value, text):
    Checkpoint(store, IDENTITY)
    with pytest.raises(CheckpointMismatch, match=text) as caught:
        Checkpoint(store, IDENTITY | {name: value})
    assert store.path() in str(caught.value)
    assert "put it back as it was, or give the changed stage a checkpoint of its own" in str(caught.value)
    assert Checkpoint(store, IDENTITY).stage


def test_any_byte_of_the_identity_changed_is_an_error_by_name(store):
    Checkpoint(store, IDENTITY)
    good = store.read("headgate.json")
    for at in range(len(good)):
        damaged = bytearray(good)
        damaged[at] ^= 1
        store.replace("headgate.json", bytes(damaged))
        with pytest.raises((CorruptState, NewerFormat), match=r"headgate\.json"):
            Checkpoint(store, IDENTITY)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"null", b"1", b"\xff", b'{"format": "x", "stage": "s"}']
)
def test_an_identity_that_is_none_is_an_error_by_name(store, data):
    store.make("")
    store.create("headgate.json", data)
    with pytest.raises(CorruptState, match=r"headgate\.json cannot be read .*restore it from a backup"):
        Checkpoint(store, IDENTITY)


def test_a_newer_identity_is_named(store):
    Checkpoint(store, IDENTITY)
    found = json.loads(store.read("headgate.json")) | {"format": 2}
    store.replace("headgate.json", json.dumps(found).encode())
    with pytest.raises(NewerFormat, match="has format 2, and this headgate reads up to 1; upgrade"):
        Checkpoint(store, IDENTITY)


def test_a_lost_identity_beside_commits_is_not_made_anew(store):
    run_batch(Checkpoint(store, IDENTITY), 0)
    store.remove("headgate.json")
    with pytest.raises(CorruptState, match=r"headgate\.json is missing beside committed batches"):
        Checkpoint(store, IDENTITY)


def test_two_runs_that_claim_at_once_get_one_stage(store, monkeypatch):
    first = Checkpoint(store, IDENTITY)
    monkeypatch.setattr(store, "exists", lambda name: False)  # looked before the first had written
    assert Checkpoint(store, IDENTITY).stage == first.stage
    with pytest.raises(CheckpointMismatch):
        Checkpoint(store, IDENTITY | {"bins": 8})


# -- what is committed ----------------------------------------------------------------------------------------------


def test_the_last_commit_is_the_truth(store):
    checkpoint = Checkpoint(store, IDENTITY)
    for batch in range(12):
        last = run_batch(checkpoint, batch)
    assert Checkpoint(store, IDENTITY).last == last
    assert store.names("commits") == ["000000000010.json", "000000000011.json"]


def test_a_damaged_last_commit_is_an_error_and_not_passed_over(store):
    checkpoint = Checkpoint(store, IDENTITY)
    for batch in range(2):
        run_batch(checkpoint, batch)
    name = "commits/000000000001.json"
    store.replace(name, store.read(name)[:-3])
    with pytest.raises(CorruptState, match=r"000000000001\.json is damaged"):
        Checkpoint(store, IDENTITY)


def test_a_second_run_cannot_commit_the_same_batch(store):
    first, second = Checkpoint(store, IDENTITY), Checkpoint(store, IDENTITY)
    run_batch(first, 0, run="run-a")
    with pytest.raises(
        CheckpointError, match=r"000000000000\.json exists: another run .* stop one of the two"
    ):
        run_batch(second, 0, run="run-b")
    assert second.last is None
    assert Checkpoint(store, IDENTITY).last.run == "run-a"
    run_batch(first, 1, run="run-a")


def test_a_commit_whose_answer_was_lost_is_recognised_as_ours(store):
    checkpoint, manifest = Checkpoint(store, IDENTITY), manifest_of(0)
    store.create("commits/000000000000.json", manifest.encode())
    checkpoint.commit(manifest)
    assert checkpoint.last == manifest


@pytest.mark.parametrize("slow_commits", [True, False])
def test_a_run_thought_dead_that_still_commits_finds_its_files(store, slow_commits):
    """A second run opens the checkpoint while the first has written its files and not yet committed.

    Only one of them may commit, and that one must find every file that its commit names.
    """
    slow = Checkpoint(store, IDENTITY)
    before = run_batch(slow, 0, run="slow")
    manifest = manifest_of(1, before=before, run="slow")
    store.write(f"state/{manifest.files[-1].name}", [b"state"])
    fast = Checkpoint(store, IDENTITY)
    if slow_commits:
        slow.commit(manifest)
        with pytest.raises(CheckpointError, match="another run"):
            run_batch(fast, 1, run="fast")
    else:
        run_batch(fast, 1, run="fast")
        with pytest.raises(CheckpointError, match="another run"):
            slow.commit(manifest)
    last = Checkpoint(store, IDENTITY).last
    assert last.run == ("slow" if slow_commits else "fast")
    assert {f.name for f in last.files} <= set(store.names("state"))


# -- what is removed ------------------------------------------------------------------------------------------------


def test_files_go_when_no_bin_needs_them_and_not_before(store):
    checkpoint = Checkpoint(store, IDENTITY)
    run_batch(checkpoint, 0, bins=(0, 1))
    run_batch(checkpoint, 1, bins=(0,))
    names = [f"{batch:012d}-run-a.hgs" for batch in range(4)]
    assert store.names("state") == names[:2]
    run_batch(checkpoint, 2, bins=(1,), snapshots=(0,))  # bin 1 still needs batch 0; nobody needs batch 1
    assert store.names("state") == [names[0], names[2]]
    run_batch(checkpoint, 3, snapshots=(1,))
    assert store.names("state") == names[2:]
    assert store.names("output") == ["000000000003"]


def test_rubbish_is_swept_after_the_first_commit(store):
    checkpoint = Checkpoint(store, IDENTITY)
    run_batch(checkpoint, 0)
    for name in ("state/000000000001-dead.hgs", "commits/000000000001.json.0f.tmp"):
        store.write(name, [b"rubbish"])
    store.make("output/000000000001")
    store.write("output/000000000001/part-dead", [b"rubbish"])
    again = Checkpoint(store, IDENTITY)
    assert again.last.batch == 0
    run_batch(again, 1, run="run-b")
    assert store.names("state") == ["000000000000-run-a.hgs", "000000000001-run-b.hgs"]
    assert store.names("commits") == ["000000000000.json", "000000000001.json"]
    assert store.names("output") == ["000000000001"]


def test_sweeping_happens_once(store, monkeypatch):
    checkpoint = Checkpoint(store, IDENTITY)
    run_batch(checkpoint, 0)
    monkeypatch.setattr(checkpoint, "_sweep", lambda last: pytest.fail("swept again"))
    run_batch(checkpoint, 1)


# -- the journal ----------------------------------------------------------------------------------------------------


@pytest.fixture
def journaled(store):
    """A checkpoint with three batches."""
    checkpoint = Checkpoint(store, IDENTITY)
    for batch in range(3):
        run_batch(checkpoint, batch)
    return store


JOURNAL = "journal/000000.jsonl"
WHOLE = "".join(f"{line_of(batch)}\n" for batch in range(3))


def test_a_whole_journal_is_left_alone(journaled, monkeypatch):
    monkeypatch.setattr(Store, "replace", lambda *args: pytest.fail("written again"))
    assert Checkpoint(journaled, IDENTITY).journal_lines() == [line_of(batch) for batch in range(3)]


def test_a_journal_torn_anywhere_in_its_last_line_is_mended(journaled):
    start = len(WHOLE) - len(line_of(2)) - 1
    for size in range(start, len(WHOLE)):
        journaled.replace(JOURNAL, WHOLE.encode()[:size])
        Checkpoint(journaled, IDENTITY)
        assert journaled.read(JOURNAL).decode() == WHOLE


def test_a_line_torn_by_bytes_that_are_no_text_is_mended(journaled):
    journaled.replace(JOURNAL, WHOLE.encode()[:-4] + b"\xff\xfe")
    Checkpoint(journaled, IDENTITY)
    assert journaled.read(JOURNAL).decode() == WHOLE


def test_a_journal_that_is_gone_begins_with_the_last_line(journaled):
    journaled.remove(JOURNAL)
    assert Checkpoint(journaled, IDENTITY).journal_lines() == [line_of(2)]


def test_mending_leaves_the_journal_whole_if_it_fails(journaled, monkeypatch):
    torn = WHOLE.encode()[:-4]
    journaled.replace(JOURNAL, torn)

    def full(*args):
        raise OSError("full")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(CheckpointError):
        Checkpoint(journaled, IDENTITY)
    assert journaled.read(JOURNAL) == torn


def test_a_long_journal_is_in_several_files(store, monkeypatch):
    monkeypatch.setattr(module, "LINES_PER_JOURNAL", 2)
    checkpoint = Checkpoint(store, IDENTITY)
    for batch in range(5):
        run_batch(checkpoint, batch)
    assert store.names("journal") == ["000000.jsonl", "000001.jsonl", "000002.jsonl"]
    assert checkpoint.journal_lines() == [line_of(batch) for batch in range(5)]
    assert [starts_journal(batch) for batch in range(4)] == [True, False, True, False]
    assert Checkpoint(store, IDENTITY).journal_lines() == checkpoint.journal_lines()
