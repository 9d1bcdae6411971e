"""What a driver says when another one is at work at the same moment, or when an answer of the store is lost.

The simulator of faults (`headgate chaos`) has found these; each was an error that named the wrong cause.
"""

import pytest
from tests.storage.checkpoints import IDENTITY, opened, run_batch

from headgate.errors import CheckpointError, Superseded
from headgate.storage.checkpoint import Checkpoint
from headgate.storage.commit_log import CommitLog
from headgate.storage.store import Store


@pytest.fixture
def lost_answers(monkeypatch):
    """Creating a file happens, and then its answer is lost."""

    def lose(name: str) -> None:
        create = Store.create

        def losing(self, file, data) -> None:
            create(self, file, data)
            if name in file:
                monkeypatch.setattr(Store, "create", create)
                raise CheckpointError("no answer")

        monkeypatch.setattr(Store, "create", losing)

    return lose


def test_a_driver_whose_commit_got_no_answer_is_still_the_newest(store, lost_answers) -> None:
    log = CommitLog(store)
    log.take()
    log.commit({"n": 1})
    lost_answers("000000000002")
    with pytest.raises(CheckpointError, match="no answer"):
        log.commit({"n": 2})
    assert log.is_mine()
    last = CommitLog(store).last()
    assert last is not None
    assert last.body == {"n": 2}
    CommitLog(store).take()
    assert not log.is_mine()


def test_a_claim_that_got_no_answer_is_made_again(store, lost_answers) -> None:
    lost_answers("log/")
    log = CommitLog(store)
    log.take()
    log.commit({"n": 1})
    assert log.run.startswith("00000001.")


def test_a_claim_that_fails_is_an_error(store, monkeypatch) -> None:
    def failing(self, file, data) -> None:
        raise CheckpointError("no permission")

    monkeypatch.setattr(Store, "create", failing)
    with pytest.raises(CheckpointError, match="no permission"):
        CommitLog(store).take()


def test_a_driver_whose_draft_of_a_claim_was_removed_claims_again(store, monkeypatch) -> None:
    """It slept between writing its draft and linking it; others committed, and swept the log."""
    first = opened(store)
    run_batch(first, 0)
    assert store.disk is not None
    link, busy = store.disk.link, False

    def linking(path, to) -> None:
        nonlocal busy
        if not busy:
            busy = True
            for batch in range(1, 4):
                run_batch(first, batch)
        link(path, to)

    monkeypatch.setattr(store.disk, "link", linking)
    second = opened(store)
    monkeypatch.undo()
    assert second.last is not None
    assert second.last.batch == 3
    with pytest.raises(Superseded):
        run_batch(first, 4)
    run_batch(second, 4)


def test_a_checkpoint_whose_first_batch_was_just_committed_is_not_taken_for_damaged(
    store, monkeypatch
) -> None:
    first = opened(store)
    last, busy = CommitLog.last, False

    def looking(self):
        nonlocal busy
        found = last(self)
        if not busy:
            busy = True
            run_batch(first, 0)  # after this driver has seen that nothing is committed
        return found

    monkeypatch.setattr(CommitLog, "last", looking)
    second = Checkpoint(store, IDENTITY)
    assert second.last is not None
    assert second.last.batch == 0
