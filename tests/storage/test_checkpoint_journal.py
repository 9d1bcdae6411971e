"""The journal beside a checkpoint: whole, torn, damaged, long, and on an object store."""

import pytest
from tests.storage.checkpoints import line_of, opened, run_batch

from headgate.errors import (
    CorruptState,
)
from headgate.storage import journal_files as module
from headgate.storage.journal_files import journal_lines


@pytest.fixture
def journaled(store):
    """A checkpoint with three batches, and the journal's only file."""
    checkpoint = opened(store)
    for batch in range(3):
        run_batch(checkpoint, batch)
    (name,) = store.names("journal")
    return store, f"journal/{name}"


WHOLE = "".join(f"{line_of(batch)}\n" for batch in range(3))


LINES = WHOLE.splitlines()


def test_a_whole_journal_is_left_alone(journaled) -> None:
    store, name = journaled
    opened(store)
    assert store.names("journal") == [name.removeprefix("journal/")]
    assert store.read(name).decode() == WHOLE


def test_a_journal_torn_anywhere_in_its_last_line_is_completed_by_the_next_driver(journaled) -> None:
    store, name = journaled
    start = len(WHOLE) - len(line_of(2)) - 1
    for size in range(start, len(WHOLE)):
        store.remove(*(f"journal/{n}" for n in store.names("journal")))
        store.replace(name, WHOLE.encode()[:size])
        opened(store)
        assert journal_lines(store) == LINES
        assert store.read(name) == WHOLE.encode()[:size], "nobody writes in another driver's file"


def test_a_line_torn_by_bytes_that_are_no_text_is_passed_over(journaled) -> None:
    store, name = journaled
    store.replace(name, WHOLE.encode()[:-4] + b"\xff\xfe")
    opened(store)
    assert journal_lines(store) == LINES


def test_a_journal_on_an_object_store_has_a_file_for_a_few_lines(any_store) -> None:
    """Until it is written, the lines are in the log; the next driver writes those that are missing."""
    store = any_store("journaled")
    first = opened(store)
    lines = [line_of(batch) for batch in range(14)]
    for batch in range(13):
        run_batch(first, batch)
        assert journal_lines(store) == lines[: batch + 1]
    run_batch(opened(store), 13)
    assert journal_lines(store) == lines
    assert [line for n in range(14) for line in journal_lines(store, n) if line == lines[n]] == lines
    assert len(store.names("journal")) == 2


def test_a_damaged_journal_is_named_and_stops_no_driver(journaled) -> None:
    store, name = journaled
    store.replace(name, b"rubbish\n" + WHOLE.encode())
    with pytest.raises(CorruptState, match="journal line 1, cannot be read: 'rubbish'; remove the line"):
        journal_lines(store)
    run_batch(opened(store), 3)


def test_a_driver_that_appends_late_changes_nothing(journaled) -> None:
    store, name = journaled
    successor = opened(store)
    run_batch(successor, 3)
    store.append(name, line_of(2))
    store.append(name, line_of(3))
    assert journal_lines(store) == [*LINES, line_of(3)]


def test_a_long_journal_is_in_several_files(store, monkeypatch) -> None:
    monkeypatch.setattr(module, "LINES_PER_JOURNAL", 2)
    checkpoint = opened(store)
    starts = []
    for batch in range(5):
        starts.append(checkpoint.starts_journal(batch))
        run_batch(checkpoint, batch)
    assert store.names("journal") == [f"{n:06d}-{checkpoint.run}.jsonl" for n in range(3)]
    assert journal_lines(store) == [line_of(batch) for batch in range(5)]
    assert starts == [True, False, True, False, True]
    assert opened(store).starts_journal(5), "a driver's first line says where it starts"
