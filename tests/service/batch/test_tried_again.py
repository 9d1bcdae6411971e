"""A batch that failed is tried again: whatever users did meanwhile, nothing is lost and nothing comes twice."""

import numpy as np
import pytest
from tests.service.local import Local, local_job
from tests.sql.world import batches_of, oracle, rows_of

from headgate.errors import CheckpointError, Superseded
from headgate.service.batch.processor import BatchProcessor
from headgate.service.batch_log import BatchLog
from headgate.service.service import Service
from headgate.service.settings import Settings

COUNT = "SELECT count(*), sum(n) FROM alpha WHERE n > {} GROUP BY TUMBLE(time, INTERVAL '10 seconds')"
WINDOW = ("TUMBLE(time, INTERVAL '10 seconds')", 10, 10)


def failing(local, meanwhile):
    """A processor whose job fails after users have done something."""

    def job(rows, snapshot, task):
        local_job(rows, snapshot, task)
        meanwhile()
        raise CheckpointError("no answer")

    return BatchProcessor(local.service, job)


def right(local, number, text, rows):
    mark = local.service.batch_log.last.latest[0] - 5_000_000
    return local.answers(number) == oracle(text, WINDOW, rows, 0, mark)


@pytest.mark.parametrize("restart", [False, True])
def test_a_server_that_is_lost_while_a_batch_fails_takes_no_state_with_it(local, restart) -> None:
    texts = [COUNT.format(n) for n in range(3)]
    numbers = local.add(*texts)
    rows = rows_of(np.random.default_rng(3), 300)
    parts = batches_of(rows, [90, 100])
    local.feed(parts[0])

    def lose() -> None:
        alive = local.service.computations.alive
        local.service.lose_server(min(alive))

    for _ in range(2):  # computations may move twice before a batch is committed
        with pytest.raises(CheckpointError):
            failing(local, lose).process(parts[1], 1)
    if restart:
        local.restart()
    local.feed(parts[1])
    local.feed(parts[2])
    for number, text in zip(numbers, texts, strict=True):
        assert right(local, number, text, rows)


def test_constants_that_change_while_a_batch_fails_are_not_mistaken_for_those_before(local) -> None:
    text = "SELECT x FROM alpha WHERE n > -{}"
    first, second = batches_of(rows_of(np.random.default_rng(3), 200), [100])
    local.add(text.format(0))
    numbers = list[int]()
    processor = failing(local, lambda: numbers.extend(local.add(*(text.format(n) for n in range(1, 6)))))
    with pytest.raises(CheckpointError):
        processor.process(first, 0)
    processor._job = local_job
    processor.process(first, 0)
    processor.process(second, 1)
    assert all(local.answers(number) for number in numbers)


@pytest.mark.parametrize("restart", [False, True])
def test_a_query_that_is_registered_while_a_batch_fails_has_no_half_window(local, restart) -> None:
    local.add(COUNT.format(0))
    rows = rows_of(np.random.default_rng(3), 300)
    parts = batches_of(rows, [100, 150])
    local.feed(parts[0])
    with pytest.raises(CheckpointError):
        failing(local, lambda: local.add(COUNT.format(0))).process(parts[1], 1)
    if restart:
        local.restart()
    began = local.service.batch_log.last.latest[0]  # the batch that is tried again is the first that it sees
    local.feed(parts[1])
    local.feed(parts[2])
    windows = [row["window"]["start"] for row in local.service.read(local.ann, 1)[0]]
    all_windows = [row["window"]["start"] for row in local.service.read(local.ann, 0)[0]]
    assert windows == [at for at in all_windows if at > np.datetime64(began, "us").item().isoformat()]
    assert 0 < len(windows) < len(all_windows)


def test_an_equal_query_begins_no_earlier_than_what_it_shares(local) -> None:
    rows = rows_of(np.random.default_rng(3), 100)
    with pytest.raises(CheckpointError):
        failing(local, lambda: local.add(COUNT.format(0))).process(rows, 0)
    local.restart()
    (number,) = local.add(COUNT.format(0))
    assert local.service.get_query(local.ann, number).since == 1


def test_a_service_that_was_overtaken_while_it_commits_is_superseded(local, monkeypatch) -> None:
    old, rows = local.processor, rows_of(np.random.default_rng(3), 100)
    commits = local.service.batch_log.commits
    local.start()

    def unanswered(body) -> None:
        raise CheckpointError("the draft of the entry is gone")

    monkeypatch.setattr(commits, "commit", unanswered)
    with pytest.raises(Superseded):
        old.process(rows, 0)
    assert old.superseded


def test_a_commit_whose_answer_was_lost_is_found(local, monkeypatch) -> None:
    (number,) = local.add(COUNT.format(0))
    rows = rows_of(np.random.default_rng(3), 300)
    parts = batches_of(rows, [100, 200])
    local.feed(parts[0])
    commit = local.service.batch_log.commits.commit

    def unanswered(body) -> None:
        commit(body)
        local.service.batch_log.commits._at -= 1
        raise CheckpointError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(local.service.batch_log.commits, "commit", unanswered)
        with pytest.raises(CheckpointError):
            local.processor.process(parts[1], 1)
    local.feed(parts[1])
    local.feed(parts[2])
    assert right(local, number, COUNT.format(0), rows)


def test_a_service_knows_what_was_registered_until_its_claim(tmp_path, monkeypatch) -> None:
    local = Local(tmp_path)
    old = local.service
    monkeypatch.setattr(
        "headgate.service.service.BatchLog",
        lambda *given: [old.register(local.ann, [("SELECT x FROM alpha", "late")]), BatchLog(*given)][1],
    )
    new = Service(Settings(tmp_path))
    assert [query.name for query in new.queries.by_id.values()] == ["late"]
    new.close()
    old.close()


def test_state_may_be_elsewhere(tmp_path) -> None:
    local = Local(tmp_path / "folder", state=f"memory://{tmp_path.name}/service")
    (number,) = local.add(COUNT.format(0))
    rows = rows_of(np.random.default_rng(3), 300)
    for part in batches_of(rows, [100]):
        local.feed(part)
        local.restart()
    assert right(local, number, COUNT.format(0), rows)
    assert not (tmp_path / "folder" / "state").exists()
    local.service.close()
