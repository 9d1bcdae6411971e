"""Repair in the service: computations move while batches run, with their state, and nobody sees it in the answers."""

import numpy as np
import pytest
from tests.service.local import Local, local_job, moments
from tests.service.test_service import JOINS, random_queries
from tests.sql.world import NAMES, asked, batches_of, named, oracle, rows_of

from headgate.errors import CheckpointError
from headgate.service.batch.processor import BatchProcessor
from headgate.service.batch.residence import Residence


def shuffle(local, rng, most) -> None:
    """Moves as repair makes them, to any server, so that computations also come back to where they were."""
    computations = local.service.computations

    def anywhere(moves, examine):
        found = []
        for number in rng.permutation(sorted(computations.by_id))[:moves].tolist():
            others = sorted(computations.alive - {computations.by_id[number].server})
            if others:
                found.append(computations.host.move(str(number), int(rng.choice(others))))
        return found

    computations.host.repair = anywhere
    computations.moves.repairs_from = 0
    local.service.settings = local.service.settings.__class__(
        **{**vars(local.service.settings), "repair": most}
    )


def failing(local):
    """A processor whose job fails, after the snapshot was taken."""

    def fails(rows, snapshot, task):
        raise CheckpointError("the job fails")

    return BatchProcessor(local.service, fails, tasks=local.tasks)


def check(local, numbers, queries, joins, rows) -> None:
    assert local.service.batch_log.last is not None
    marks = {s: t - 5_000_000 for s, t in local.service.batch_log.last.latest.items()}
    for number, (text, window, source) in zip(numbers, queries, strict=True):
        assert local.answers(number) == moments(oracle(text, window, rows, source, marks[source])), text
    tables = {name: named(rows, source) for source, name in enumerate(NAMES)}
    for number, text in joins.items():
        assert local.answers(number) == moments(asked(text, **tables)), text


ACTS = ["lose", "add", "restart", "fail", "fail, lose", "tasks", ""]


@pytest.mark.parametrize("seed", [4, 7, *(pytest.param(s, marks=pytest.mark.full) for s in range(8, 20))])
def test_answers_do_not_depend_on_moves(tmp_path, seed) -> None:
    rng = np.random.default_rng(seed)
    acts = rng.choice(ACTS, 6).tolist()
    local = Local(tmp_path, servers=3)
    queries = random_queries(rng, 12)
    numbers = local.add(*(text for text, _, _ in queries))
    joins = dict(zip(local.add(*JOINS), JOINS, strict=True))
    rows = rows_of(rng, 240)
    for act, batch in zip(acts, batches_of(rows, rng.integers(0, 240, 5).tolist()), strict=True):
        shuffle(local, rng, 6)
        if "fail" in act:
            with pytest.raises(CheckpointError):
                failing(local).process(batch, local.batch)
        if "lose" in act and len(local.service.computations.alive) > 1:
            local.service.lose_server(int(rng.choice(sorted(local.service.computations.alive))))
        elif act == "add":
            local.service.add_server()
        elif act == "restart":
            local.restart()
            shuffle(local, rng, 6)
        elif act == "tasks":
            local.tasks = [None, 1, 2][rng.integers(3)]
        local.processor = BatchProcessor(local.service, local_job, tasks=local.tasks)
        local.feed(batch)
    check(local, numbers, queries, joins, rows)
    assert any(manifest.moves for manifest in local.service.batch_log.history)
    local.service.close()


LONG = ("TUMBLE(time, INTERVAL '30 seconds')", 30, 30)


@pytest.mark.parametrize("lose", [False, True])
def test_who_goes_to_and_fro_meets_nothing_of_its_own(tmp_path, lose) -> None:
    """Windows are open for many batches, and what a computation left behind on a server is there when it comes back."""
    local = Local(tmp_path, servers=3)
    texts = [
        f"SELECT city, count(*), sum(x) FROM alpha WHERE n >= 0 AND x > -{i} GROUP BY city, {LONG[0]}"
        for i in range(12)
    ]
    numbers = local.add(*texts)
    rng = np.random.default_rng(6)
    rows = rows_of(rng, 400)
    for at, batch in enumerate(batches_of(rows, range(0, 400, 25))):
        shuffle(local, rng, 6)
        if lose and at in (7, 11):
            local.service.lose_server(min(local.service.computations.alive))
        if at in (5, 9):
            local.restart()
        local.feed(batch)
    check(local, numbers, [(text, LONG, 0) for text in texts], {}, rows)
    local.service.close()


def test_repair_is_on_and_falls_silent(tmp_path) -> None:
    local = Local(tmp_path, servers=3)
    rng = np.random.default_rng(4)
    for group in range(8):  # arrivals in groups, so that the rule spreads what repair brings together
        local.add(*(f"SELECT x FROM {NAMES[rng.integers(3)]} WHERE n > {100 * group + i}" for i in range(9)))
        local.feed(rows_of(rng, 5))
    before = local.service.computations.host.status().replication
    moved = []
    for _ in range(12):
        local.feed(rows_of(rng, 5))
        moved.append(local.service.facts[-1]["moved"])
    status = local.service.computations.host.status()
    assert status.replication <= before
    assert moved[-3:] == [0, 0, 0]
    limit = local.service.computations.host.limit_of(0)
    assert max(status.loads.values()) <= limit * (1 + 1e-6)
    local.service.close()


def test_repair_waits_until_what_it_had_written_anew_is_little_for_a_batch(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("headgate.service.moves.REWRITTEN", 20)
    local = Local(tmp_path, servers=2)
    rng = np.random.default_rng(6)
    texts = [f"SELECT x FROM {NAMES[0]} WHERE n > {i}" for i in range(30)]
    local.add(*texts)
    rows = rows_of(rng, 100)
    parts = batches_of(rows, list(range(10, 100, 10)))
    local.feed(parts[0])
    shuffle(local, rng, 1)
    for part in parts[1:]:
        local.feed(part)
    moving = [at for at, fact in enumerate(local.service.facts) if fact["moved"]]
    # Both tables of the template, 30 rows, are written twice: the work of three batches.
    assert moving == [1, 4, 7]
    local.service.close()


def test_a_crash_between_commit_and_registry_forgets_no_move(tmp_path, monkeypatch) -> None:
    local = Local(tmp_path, servers=3)
    rng = np.random.default_rng(5)
    queries = random_queries(rng, 10)
    numbers = local.add(*(text for text, _, _ in queries))
    rows = rows_of(rng, 200)
    first, second, third = batches_of(rows, [70, 140])
    local.feed(first)
    shuffle(local, rng, 5)
    monkeypatch.setattr(local.service, "batch_committed", lambda manifest: None)  # it dies before it is told
    local.feed(second)
    last = local.service.batch_log.last
    assert last is not None
    moves = last.moves
    assert moves
    local.restart()
    assert {number: local.service.computations.by_id[number].server for number in moves} == dict(moves)
    local.feed(third)
    check(local, numbers, queries, {}, rows)
    local.service.close()


def test_state_from_before_a_computation_came_is_out_of_date() -> None:
    import pyarrow as pa

    here = Residence(pa.table({"id": [1, 2, 3], "here": [0, 5, 7], "since": [0, 5, 4]}))
    piece = pa.table({"id": [1, 2, 3, 9], "x": [1, 2, 3, 9]})
    assert here.own(piece, 4).column("x").to_pylist() == [1, 9]
    assert here.own(piece, 7).column("x").to_pylist() == [1, 2, 3, 9]
    assert here.arriving(piece, 4).column("x").to_pylist() == [1, 3]
    assert here.coming(7).arriving(piece, 6).column("x").to_pylist() == [3]
