"""Servers that share a task: answers do not depend on it, and there are fewer statements."""

from dataclasses import replace

import numpy as np
import pytest
from tests.service.local import Local, local_job, moments
from tests.service.test_service import JOINS, random_queries
from tests.sql.world import NAMES, asked, batches_of, named, oracle, rows_of

from headgate.service.batch.processor import BatchProcessor
from headgate.service.batch.units import by_server, united
from headgate.sql.engine import Engine


@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.full) for s in range(2, 8))])
def test_answers_do_not_depend_on_which_servers_share_a_task(tmp_path, seed) -> None:
    rng = np.random.default_rng(seed)
    local = Local(tmp_path, servers=4)
    queries = random_queries(rng, 20)
    numbers = local.add(*(text for text, _, _ in queries))
    joins = dict(zip(local.add(*JOINS), JOINS, strict=True))
    rows = rows_of(rng, 300)
    for at, batch in enumerate(batches_of(rows, rng.integers(0, 300, 8).tolist())):
        act = (seed + at) % 4
        if act == 0 and len(local.service.computations.alive) > 1:
            local.service.lose_server(int(rng.choice(sorted(local.service.computations.alive))))
        elif act == 1:
            local.service.add_server()
        elif act == 2:
            tasks = [None, 1, 2, 3][rng.integers(4)]
            local.processor = BatchProcessor(local.service, local_job, tasks=tasks)
        local.feed(batch)
    assert local.service.batch_log.last is not None
    marks = {s: t - 5_000_000 for s, t in local.service.batch_log.last.latest.items()}
    for number, (text, window, source) in zip(numbers, queries, strict=True):
        assert local.answers(number) == moments(oracle(text, window, rows, source, marks[source])), text
    tables = {name: named(rows, source) for source, name in enumerate(NAMES)}
    for number, text in joins.items():
        assert local.answers(number) == moments(asked(text, **tables)), text
    local.service.close()


def test_servers_that_share_a_task_share_its_statements(tmp_path, monkeypatch) -> None:
    asked_for = list[str]()
    ask = Engine.ask

    def counted(self, sql, **tables):
        asked_for.append(sql)
        return ask(self, sql, **tables)

    monkeypatch.setattr(Engine, "ask", counted)
    local = Local(tmp_path, servers=6, rule="on-rand", repair=0)
    local.add(*(f"SELECT x FROM {NAMES[i % 3]} WHERE n > {i}" for i in range(60)))
    rows = rows_of(np.random.default_rng(0), 50)
    asked_for.clear()
    local.feed(rows)
    assert len(asked_for) == 6
    local.processor = BatchProcessor(local.service, local_job, tasks=2)
    asked_for.clear()
    local.feed(rows)
    assert len(asked_for) == 2
    facts = local.service.facts
    assert facts[-1]["server_rows"] == facts[-2]["server_rows"]
    assert sorted(facts[-1]["busy_ms"]) == list(range(6))
    assert facts[-1]["sent_rows"] == facts[-1]["predicted_rows"] < facts[-2]["sent_rows"]
    local.service.close()


def test_a_unit_has_a_new_home_when_one_of_its_servers_is_lost(tmp_path) -> None:
    local = Local(tmp_path, servers=4)
    before = united(local.service.computations.snapshot(0), 2)
    local.service.lose_server(2)
    after = united(local.service.computations.snapshot(1), 2)
    assert before.homes[0] != after.homes[0]
    assert before.homes[1] == after.homes[1]
    assert len({*before.homes, *after.homes, *range(1000)}) == 1003
    local.service.close()


def test_the_time_of_a_unit_is_divided_among_its_servers(tmp_path) -> None:
    local = Local(tmp_path, servers=4)
    snapshot = replace(local.service.computations.snapshot(0), servers_of_source=[[0, 1], [0, 2], [3]])
    rows, busy = by_server(snapshot, {0: 10, 1: 30, 2: 5}, [70.0, 3.0])
    assert rows == {0: 40, 1: 10, 2: 30, 3: 5}
    assert busy == pytest.approx({0: 40.0, 2: 30.0, 1: 2.0, 3: 1.0})
    local.service.close()
