"""The driver's checkpoint: whose it is, what is committed, what a crash leaves and what is removed."""

import json

import pytest
from tests.storage.checkpoints import IDENTITY, line_of, manifest_of, opened, run_batch

from headgate.errors import (
    BatchOrder,
    CheckpointMismatch,
    CorruptState,
    NewerFormat,
    OlderFormat,
    Superseded,
)
from headgate.storage.checkpoint import Checkpoint, check_order, check_origin
from headgate.storage.journal_files import journal_lines


def test_a_new_checkpoint_is_made_and_found_again(store) -> None:
    first = opened(store)
    assert first.last is None
    assert Checkpoint(store, IDENTITY).stage == first.stage
    assert opened(store.child("other")).stage != first.stage


def last_of(store):
    last = Checkpoint(store, IDENTITY).last
    assert last is not None
    return last


def test_opening_a_checkpoint_changes_nothing(store, tmp_path) -> None:
    Checkpoint(store, IDENTITY)
    assert not (tmp_path / "checkpoint").exists()
    run_batch(opened(store), 0)
    before = sorted(path for path in tmp_path.rglob("*"))
    assert last_of(store).batch == 0
    assert sorted(path for path in tmp_path.rglob("*")) == before


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
def test_a_changed_stage_is_refused_with_both_values(store, name, value, text) -> None:
    run_batch(opened(store), 0)
    with pytest.raises(CheckpointMismatch, match=text) as caught:
        Checkpoint(store, IDENTITY | {name: value})
    assert store.path() in str(caught.value)
    assert "put it back as it was, or give the changed stage a checkpoint of its own" in str(caught.value)
    assert Checkpoint(store, IDENTITY).stage


def test_any_byte_of_the_identity_changed_is_an_error_by_name(store) -> None:
    opened(store)
    good = store.read("headgate.json")
    for at in range(len(good)):
        damaged = bytearray(good)
        damaged[at] ^= 1
        store.replace("headgate.json", bytes(damaged))
        with pytest.raises((CorruptState, NewerFormat, OlderFormat), match=r"headgate\.json"):
            Checkpoint(store, IDENTITY)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"null", b"1", b"\xff", b'{"format": "x", "stage": "s"}']
)
def test_an_identity_that_is_none_is_an_error_by_name(store, data) -> None:
    store.make("")
    store.create("headgate.json", data)
    with pytest.raises(CorruptState, match=r"headgate\.json cannot be read .*restore it from a backup"):
        Checkpoint(store, IDENTITY)


@pytest.mark.parametrize(
    ("version", "kind", "text"),
    [
        (4, NewerFormat, "has format 4, and this headgate reads format 3; upgrade"),
        (1, OlderFormat, "has format 1, which this headgate cannot read"),
    ],
)
def test_an_identity_of_another_format_is_named(store, version, kind, text) -> None:
    opened(store)
    found = json.loads(store.read("headgate.json")) | {"format": version}
    store.replace("headgate.json", json.dumps(found).encode())
    with pytest.raises(kind, match=text):
        Checkpoint(store, IDENTITY)


def test_a_lost_identity_beside_commits_is_not_made_anew(store) -> None:
    run_batch(opened(store), 0)
    store.remove("headgate.json")
    with pytest.raises(CorruptState, match=r"headgate\.json is missing beside committed batches"):
        Checkpoint(store, IDENTITY)


def test_two_drivers_that_begin_at_once_get_one_stage(store) -> None:
    first, second = Checkpoint(store, IDENTITY), Checkpoint(store, IDENTITY)
    first.identify()
    second.identify()
    assert second.stage == first.stage


def test_a_stage_may_be_corrected_until_its_first_commit(store) -> None:
    first = opened(store)
    changed = Checkpoint(store, IDENTITY | {"bins": 8})
    changed.identify()
    changed.take()
    assert changed.identity is not None
    assert (changed.stage, changed.identity["bins"]) == (first.stage, 8)
    with pytest.raises(Superseded):
        run_batch(first, 0)
    run_batch(changed, 0)
    with pytest.raises(CheckpointMismatch, match="made with bins = 8, and the stage now has 4"):
        Checkpoint(store, IDENTITY)


def test_a_stage_that_was_corrected_too_late_is_refused(store) -> None:
    first = opened(store)
    changed = Checkpoint(store, IDENTITY | {"bins": 8})
    run_batch(first, 0)
    with pytest.raises(CheckpointMismatch):
        changed.take()
    assert last_of(store).batch == 0


def test_the_last_commit_is_the_truth(store) -> None:
    checkpoint = opened(store)
    for batch in range(12):
        last = run_batch(checkpoint, batch)
    assert Checkpoint(store, IDENTITY).last == last
    kept = ["000000000000.json", "000000000011.json", "000000000012.json", "cleared"]
    assert store.names("log") == kept, "the claim, and the last two commits"


def test_a_damaged_last_commit_is_an_error_and_not_passed_over(store) -> None:
    checkpoint = opened(store)
    for batch in range(2):
        run_batch(checkpoint, batch)
    name = "log/000000000002.json"
    store.replace(name, store.read(name)[:-3])
    with pytest.raises(CorruptState, match=r"000000000002\.json is damaged"):
        Checkpoint(store, IDENTITY)


def test_a_log_that_was_deleted_is_not_begun_anew(store) -> None:
    """Else the state would start empty, and the sweep would remove what is there."""
    run_batch(opened(store), 0)
    store.remove("log")
    with pytest.raises(CorruptState, match=r"log holds no commit, but .*journal has batches.*restore it"):
        Checkpoint(store, IDENTITY)


def test_only_the_newest_driver_commits(store) -> None:
    first = opened(store)
    run_batch(first, 0)
    second = opened(store)
    with pytest.raises(
        Superseded, match=r"another driver has taken over .*process \d+ on .*, since .*stop the other"
    ):
        run_batch(first, 1)
    assert first.last.batch == 0
    run_batch(second, 1)
    assert last_of(store).run == second.run


def test_a_driver_that_slept_while_its_successor_committed_much_neither_commits_nor_removes(store) -> None:
    sleeper = opened(store)
    before = run_batch(sleeper, 0)
    manifest = manifest_of(1, before=before, run=sleeper.run)
    store.write(f"state/{manifest.state.files[-1].name}", [b"state"])
    successor = opened(store)
    for batch in range(1, 9):
        run_batch(successor, batch, bins=(batch % 3,))
    names = {folder: store.names(folder) for folder in ("state", "output", "journal")}
    assert "000000000001.json" not in store.names("log"), "the entry that the sleeper wants is gone"
    with pytest.raises(Superseded):
        sleeper.commit(manifest)
    assert {folder: store.names(folder) for folder in names} == names
    last = opened(store).last
    assert (last.batch, last.run) == (8, successor.run)
    assert {f.name for f in last.state.files} <= set(store.names("state"))


def test_a_driver_that_slept_after_its_commit_removes_nothing_of_its_successor(store) -> None:
    sleeper = opened(store)
    before = run_batch(sleeper, 0)
    manifest = manifest_of(1, before=before, run=sleeper.run)
    store.write(f"state/{manifest.state.files[-1].name}", [b"state"])
    sleeper.commit(manifest)
    successor = opened(store)
    for batch in range(2, 6):
        last = run_batch(successor, batch, bins=(batch % 3,))
    sleeper._swept = False
    sleeper.write_journal(manifest.journal, 1)
    sleeper.retire(before, manifest)
    assert {f.name for f in last.state.files} <= set(store.names("state"))
    assert last.folder in store.names("output")
    assert journal_lines(store) == [line_of(batch) for batch in range(6)]


@pytest.mark.parametrize(
    ("batch", "last", "options", "text"),
    [
        (0, None, {}, None),
        (4, None, {}, r"nothing is committed in here: .*Stage\(first_batch=4\)"),
        (4, None, {"first": 4}, None),
        (0, None, {"first": 4}, "first_batch=4 says that its state begins with batch 4"),
        (9, None, {"first": 4}, "first_batch=4 says"),
        (5, 4, {}, None),
        (5, 4, {"part": True}, "only up to a part of batch 4"),
        (4, 4, {}, "has committed up to batch 4"),
        (0, 4, {}, "has committed up to batch 4"),
        (6, 4, {}, "only up to batch 4: the rows in between would be missing"),
        (6, 4, {"first": 6}, "only up to batch 4"),
    ],
)
def test_the_order_of_batches(batch, last, options, text) -> None:
    if text is None:
        check_order(batch, last, "here", **options)
        return
    with pytest.raises(BatchOrder, match=text):
        check_order(batch, last, "here", **options)


def test_the_origin_of_batches() -> None:
    check_origin("a", "a", "here")
    check_origin(None, None, "here")
    check_origin("b", "a", "here", continues="a")
    for origin, last, options in (
        ("b", "a", {}),
        (None, "a", {}),
        ("a", None, {}),
        ("c", "b", {"continues": "a"}),
    ):
        with pytest.raises(
            CheckpointMismatch, match=r"here holds the state of .* and these batches come from "
        ):
            check_origin(origin, last, "here", **options)
    with pytest.raises(CheckpointMismatch, match=r"the stage x.* the streaming query b.*continues='stage:x'"):
        check_origin("b", "stage:x", "here")


def test_files_go_when_no_bin_needs_them_and_not_before(store) -> None:
    checkpoint = opened(store)
    run_batch(checkpoint, 0, bins=(0, 1))
    run_batch(checkpoint, 1, bins=(0,))
    names = [f"{batch:012d}-{checkpoint.run}.hgs" for batch in range(4)]
    assert store.names("state") == names[:2]
    run_batch(checkpoint, 2, bins=(1,), snapshots=(0,))  # bin 1 still needs batch 0; nobody needs batch 1
    assert store.names("state") == [names[0], names[2]]
    last = run_batch(checkpoint, 3, snapshots=(1,))
    assert store.names("state") == names[2:]
    assert store.names("output") == [last.folder]


def test_rubbish_is_swept_after_the_first_commit(store) -> None:
    dead = opened(store)
    first = run_batch(dead, 0)
    rubbish = f"000000000001-00003-{dead.run}-7"
    for name in (f"state/{rubbish}.hgs", f"backlog/{rubbish}.hgb", "log/000000000000.json.0f.tmp"):
        store.write(name, [b"rubbish"])
    store.make(f"output/000000000001-{dead.run}")
    store.write(f"output/000000000001-{dead.run}/part-dead", [b"rubbish"])
    store.write("state/a file of the user", [b""])
    again = opened(store)
    assert again.last.batch == 0
    last = run_batch(again, 1)
    assert store.names("state") == sorted(
        ["a file of the user", first.state.files[0].name, last.state.files[-1].name]
    )
    assert store.names("backlog") == []
    assert store.names("output") == [last.folder]
    run_batch(again, 2)
    assert not [name for name in store.names("log") if name.endswith("tmp")]


def test_sweeping_happens_once(store, monkeypatch) -> None:
    checkpoint = opened(store)
    run_batch(checkpoint, 0)
    monkeypatch.setattr(checkpoint, "_sweep", lambda last: pytest.fail("swept again"))
    run_batch(checkpoint, 1)
