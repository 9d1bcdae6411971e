"""The log: sealed records, numbers that are taken once, and what is said of entries that are not what they should be."""

from typing import Never
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import CorruptState, NewerFormat, OlderFormat, Superseded
from headgate.storage.commit_log import FORMAT, CommitLog, checksum, sealed, unsealed
from headgate.storage.store import Store


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path), durable=False)


def committed(store, *bodies):
    """A log with these commits."""
    log = CommitLog(store)
    log.take()
    for body in bodies:
        log.commit({"n": body})
    return log


BODY = {"batch": 3, "files": [["a", 1, "f"]], "text": "é"}


def test_a_record_there_and_back() -> None:
    assert unsealed(sealed(BODY), "here") == BODY


def test_a_record_cut_short_at_any_length() -> None:
    data = sealed(BODY)
    for size in range(len(data)):
        with pytest.raises(CorruptState, match=r"here .*restore it from a backup of the checkpoint"):
            unsealed(data[:size], "here")


def test_a_record_with_any_byte_changed() -> None:
    data = sealed(BODY)
    for at in range(len(data)):
        for flip in (1, 2, 8, 32, 128, 255):
            damaged = bytearray(data)
            damaged[at] ^= flip
            if at < data.index(b"\n") and damaged.split() == data.split():  # another space between words
                assert unsealed(bytes(damaged), "here") == BODY
                continue
            with pytest.raises((CorruptState, NewerFormat, OlderFormat), match="here"):
                unsealed(bytes(damaged), "here")


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"headgate", b"headgate 0 x\n", b"headgate \xc2\xb2 x\n", b"{}", b"\xff\xfe"]
)
def test_what_is_no_record_is_named(data) -> None:
    with pytest.raises(CorruptState, match="here is not a headgate record"):
        unsealed(data, "here")


@pytest.mark.parametrize(
    ("version", "kind", "text"),
    [(FORMAT + 1, NewerFormat, "upgrade headgate"), (1, OlderFormat, "cannot read")],
)
def test_another_format_is_named_whatever_comes_after(version, kind, text) -> None:
    content = b"another shape"
    data = f"headgate {version} {checksum(content)}\n".encode() + content
    with pytest.raises(kind, match=f"here has format {version}, .*{text}"):
        unsealed(data, "here")


def number(entry):
    return entry.body["n"]


def last_body(store):
    last = CommitLog(store).last()
    assert last is not None
    return last.body


def test_a_log_is_read_without_a_claim(store) -> None:
    assert CommitLog(store).last() is None
    committed(store, 1, 2)
    names = store.names("log")
    assert last_body(store) == {"n": 2}
    assert store.names("log") == names


def test_a_claim_keeps_the_last_commit(store) -> None:
    committed(store, 1)
    for _ in range(3):
        taken = CommitLog(store).take()
        assert taken is not None
        assert taken.body == {"n": 1}
    assert last_body(store) == {"n": 1}


def test_claims_of_one_process_in_one_second_differ(store) -> None:
    first, second = CommitLog(store), CommitLog(store)
    first.take()
    second.take()
    assert first.run != second.run
    with pytest.raises(Superseded):
        first.commit({"n": 1})
    second.commit({"n": 2})


def test_a_commit_whose_answer_was_lost_is_recognised_as_ours(store, monkeypatch) -> None:
    log = committed(store, 1)
    create = Store.create

    def lost(self, name, data) -> Never:
        create(self, name, data)
        raise FileExistsError(name)  # as after a retry of the request

    monkeypatch.setattr(Store, "create", lost)
    log.commit({"n": 2})
    assert last_body(store) == {"n": 2}


def test_history_goes_back_as_far_as_it_is_kept(store) -> None:
    log = committed(store, 1, 2, 3)
    assert [number(entry) for entry in log.history(log.last(), 9)] == [1, 2, 3]
    assert [number(entry) for entry in log.history(log.last(), 2)] == [2, 3]
    third = log.last()
    assert third is not None
    log.commit({"n": 4})
    log.forget(third.link)
    assert [number(entry) for entry in log.history(log.last(), 9)] == [3, 4]


def test_a_driver_that_comes_too_late_finds_the_claim_of_its_successor(store) -> None:
    old = committed(store, 1)
    new = CommitLog(store)
    new.take()
    commit_and_forget(new, 2, 3, 4)
    assert store.names("log") == [f"{n:012d}.json" for n in (0, 2, 5)] + ["cleared"]
    with pytest.raises(Superseded):
        old.commit({"n": "late"})
    assert not old.is_mine()
    assert [number(entry) for entry in new.history(new.last(), 9)] == [4]


@pytest.mark.parametrize("before", [[], [1]])
def test_a_claim_where_commits_were_removed_has_no_effect(store, monkeypatch, before) -> None:
    """A driver looks at the log and falls asleep; meanwhile the other one commits, and removes commits."""
    other = committed(store, *before)
    late = CommitLog(store)
    look = CommitLog._look

    def slowly(self) -> object:
        seen = look(self)
        monkeypatch.setattr(CommitLog, "_look", look)
        commit_and_forget(other, 2, 3, 4)
        return seen

    monkeypatch.setattr(CommitLog, "_look", slowly)
    taken = late.take()
    assert taken is not None
    assert taken.body == {"n": 4}
    with pytest.raises(Superseded):
        other.commit({"n": 5})
    late.commit({"n": 5})
    assert last_body(store) == {"n": 5}


@given(st.lists(st.sampled_from(["commit", "take"]), max_size=12), st.data())
def test_listings_may_be_stale(doings, data) -> None:
    """A listing may show what was there some time ago, three times in a row."""
    store = Store(f"memory://stale-{uuid4().hex}")
    log, n, shown, turns = CommitLog(store), 0, [list[str]()], list[bool]()
    log.take()
    with pytest.MonkeyPatch.context() as patch:
        names = Store.names

        def stale(self, folder) -> list[str]:
            shown.append(names(self, folder))
            turns.append(data.draw(st.booleans()) and any(not turn for turn in turns[-3:]))
            return data.draw(st.sampled_from(shown[-6:])) if turns[-1] else shown[-1]

        patch.setattr(Store, "names", stale)
        for doing in doings:
            if doing == "commit":
                n += 1
                before = log.newest
                log.commit({"n": n})
                if before is not None:
                    log.forget(before)
            else:
                old, log = log, CommitLog(store)
                taken = log.take()
                assert (taken.body if taken else None) == ({"n": n} if n else None)
                with pytest.raises(Superseded):
                    old.commit({"n": "late"})
            shown.append(names(store, "log"))
    assert (log.last() is None) == (n == 0)


def commit_and_forget(log, *numbers) -> None:
    for n in numbers:
        log.commit({"n": n})
        assert log.newest is not None
        log.forget(log.newest)


def test_an_entry_in_the_place_of_another_is_named(store) -> None:
    committed(store, 1, 2)
    store.replace("log/000000000002.json", store.read("log/000000000001.json"))
    with pytest.raises(CorruptState, match=r"000000000002\.json holds entry 1 .*in another's place; restore"):
        CommitLog(store).last()


def test_a_last_commit_that_is_missing_or_another_is_named(store) -> None:
    committed(store, 1)
    CommitLog(store).take()
    store.remove("log/000000000001.json")
    with pytest.raises(
        CorruptState, match=r"000000000001\.json is missing, though entry 2 of the log names it"
    ):
        CommitLog(store).last()
    store.create(
        "log/000000000001.json",
        sealed({"entry": 1, "driver": ["h", 1, "t", "x"], "before": None, "body": {}}),
    )
    with pytest.raises(CorruptState, match="is not the commit that was made there"):
        CommitLog(store).last()
