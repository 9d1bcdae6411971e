"""The log of files: one order for all drivers, through races, merges and crashes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import CorruptState
from headgate.sources import file_log
from headgate.sources.file_log import FileLog
from headgate.sources.place import Entry
from headgate.storage.commit_log import sealed, unsealed
from headgate.storage.store import Store


def entries(*names):
    return [Entry(name, len(name), at) for at, name in enumerate(names)]


def test_a_log_there_and_back(store) -> None:
    log = FileLog(store)
    log.append(entries("a", "b/c", "é\udc80"))
    log.append(entries("b/c", "d"))
    again = FileLog(store)
    assert again.paths == log.paths == ["a", "b/c", "é\udc80", "d"]
    assert [again[at] for at in range(4)] == [log[at] for at in range(4)]


def test_the_loser_of_a_race_takes_the_winners_order(store) -> None:
    first, second = FileLog(store), FileLog(store)
    first.append(entries("a", "b"))
    second.append(entries("b", "c", "a"))
    assert second.paths == ["a", "b", "c"]
    first.append(entries("d"))
    assert first.paths == FileLog(store).paths == ["a", "b", "c", "d"]


def test_a_driver_that_lags_behind_a_merge_changes_nothing(store, monkeypatch) -> None:
    monkeypatch.setattr(file_log, "MANY", 4)
    first, second = FileLog(store), FileLog(store)
    for name in "abcdefgh":
        first.append(entries(name))
    assert "000000000000.json" not in store.names("")
    second.append(entries("z"))  # it creates the first segment anew, and takes it back
    first.append(entries("y"))
    assert second.paths == [*"abcdefgh", "z"]
    assert first.paths == FileLog(store).paths == [*"abcdefgh", "z", "y"]
    assert len(store.names("")) <= 4


def test_segments_stay_few(store, monkeypatch) -> None:
    monkeypatch.setattr(file_log, "MANY", 4)
    log = FileLog(store)
    for at in range(300):
        log.append(entries(f"f{at}"))
    assert len(store.names("")) < 14
    assert FileLog(store).paths == [f"f{at}" for at in range(300)]


def test_many_entries_are_several_segments(store, monkeypatch) -> None:
    monkeypatch.setattr(file_log, "SEGMENT", 3)
    FileLog(store).append(entries(*"abcdefgh"))
    assert len(store.names("")) == 3
    assert FileLog(store).paths == [*"abcdefgh"]


@pytest.mark.parametrize("data", [b'{"paths":', sealed({}), sealed({"paths": [], "sizes": [], "mtimes": []})])
def test_a_damaged_segment_is_named(store, data) -> None:
    FileLog(store).append(entries("a"))
    store.replace("000000000000.json", data)
    with pytest.raises(CorruptState, match=r"000000000000\.json is not a .*restore it from a backup"):
        FileLog(store)


class Crash(Exception):
    """The driver dies."""


class Fragile(Store):
    """A store that dies after some changes."""

    left = 1 << 30

    def _count(self):
        if self.left == 0:
            raise Crash
        self.left -= 1

    def create(self, name, data):
        self._count()
        super().create(name, data)

    def remove(self, *names):
        for name in names:
            self._count()
            super().remove(name)


steps = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(0, 9)),
    max_size=25,
)


@settings(max_examples=80, deadline=None)
@given(steps)
def test_drivers_that_race_and_crash_never_disagree(tmp_path_factory, steps) -> None:
    """Three drivers append what they find. What any of them holds in memory is the beginning of one and the same order."""
    was, file_log.MANY = file_log.MANY, 3
    try:
        url = str(tmp_path_factory.mktemp("log"))
        stores = [Fragile(url, durable=False) for _ in range(3)]
        logs = [FileLog(store) for store in stores]
        longest: list[str] = []
        for who, names, life in steps:
            stores[who].left = life
            try:
                logs[who].append(entries(*(f"f{name}" for name in names)))
            except Crash:
                stores[who].left = 1 << 30
                logs[who] = FileLog(stores[who])
            for log in logs:
                short, long = sorted((log.paths, longest), key=len)
                assert long[: len(short)] == short
                longest = list(long)
        assert FileLog(stores[0]).paths == longest
        assert len(set(longest)) == len(longest)
    finally:
        file_log.MANY = was


def test_entries_are_kept_as_a_sealed_record(store) -> None:
    FileLog(store).append([Entry("a", 5, 1_700_000_000_123_456_789)])
    assert unsealed(store.read("000000000000.json"), "the segment") == {
        "paths": ["a"],
        "sizes": [5],
        "mtimes": [1_700_000_000_123_456_789],
    }


class Interrupted(Store):
    """A store before each of whose operations another driver may do something."""

    meanwhile: list = []  # noqa: RUF012

    def _pause(self):
        if self.meanwhile and (action := self.meanwhile.pop(0)) is not None:
            action()

    def create(self, name, data):
        self._pause()
        super().create(name, data)

    def read(self, name, *span):
        self._pause()
        return super().read(name, *span)

    def names(self, folder):
        self._pause()
        found = super().names(folder)
        self._pause()
        return found

    def remove(self, *names):
        for name in names:
            self._pause()
            super().remove(name)


finds = st.lists(st.integers(0, 40), min_size=1, max_size=3)
turns = st.lists(st.tuples(finds, st.lists(st.none() | finds, max_size=12)), max_size=12)


@settings(max_examples=80, deadline=None)
@given(turns)
def test_drivers_that_interrupt_each_other_never_disagree(tmp_path_factory, turns) -> None:
    """Whatever a second driver does between any two operations of the first, there is one order."""
    was, file_log.MANY = file_log.MANY, 2
    try:
        url = str(tmp_path_factory.mktemp("log"))
        store = Interrupted(url, durable=False)
        first, second = FileLog(store), FileLog(Store(url, durable=False))

        def found(names):
            return None if names is None else lambda: second.append(entries(*(f"f{name}" for name in names)))

        wanted = set()
        for names, others in turns:
            wanted |= {f"f{name}" for name in names}
            store.meanwhile = [found(other) for other in others]
            first.append(entries(*(f"f{name}" for name in names)))
            store.meanwhile = []
            short, long = sorted((first.paths, second.paths), key=len)
            assert long[: len(short)] == short
        last = FileLog(Store(url, durable=False)).paths
        assert len(set(last)) == len(last)
        assert wanted <= set(last)
        for log in (first, second):
            assert last[: len(log)] == log.paths
    finally:
        file_log.MANY = was
