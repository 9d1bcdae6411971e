"""The service as a whole: every query is answered, whichever servers come and go and however often it restarts."""

import numpy as np
import pytest
from tests.service.local import Local, moments
from tests.sql.test_shared import FAMILIES, JOIN
from tests.sql.world import NAMES, asked, batches_of, named, oracle, rows_of


def random_queries(rng, count):
    found = []
    for _ in range(count):
        text, window = FAMILIES[rng.choice(sorted(FAMILIES))]
        source = int(rng.integers(3))
        filled = text.format(s=NAMES[source], a=rng.integers(4), b=rng.choice(["-5", "0.25", "4"]), c=rng.choice(["ash", "birch"]),
                             d=rng.integers(3), w=window[0] if window else "")  # fmt: skip
        found.append((filled, window, source))
    return found


JOINS = [
    f"SELECT a.time, a.x, b.x {JOIN} WHERE a.x > 1",
    f"SELECT a.time, b.n {JOIN} WHERE b.n = 2",
    "SELECT a.time, b.x FROM beta a JOIN gamma b ON b.time BETWEEN a.time - INTERVAL '1 second' AND a.time + INTERVAL '1 second' WHERE b.x > a.x",  # noqa: E501
    f"SELECT a.time, c.x {JOIN} JOIN gamma c ON c.n = b.n AND c.time BETWEEN a.time AND a.time + INTERVAL '9 seconds'",
]


@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.full) for s in range(2, 8))])
def test_answers_do_not_depend_on_servers_or_restarts(tmp_path, seed) -> None:
    rng = np.random.default_rng(seed)
    local = Local(tmp_path)
    queries = random_queries(rng, 25)
    numbers = local.add(*(text for text, _, _ in queries))
    joins = dict(zip(local.add(*JOINS), JOINS, strict=True))
    rows = rows_of(rng, 300)
    for batch in batches_of(rows, rng.integers(0, 300, 7).tolist()):
        act = rng.integers(4)
        if act == 0 and len(local.service.computations.alive) > 1:
            local.service.lose_server(int(rng.choice(sorted(local.service.computations.alive))))
        elif act == 1:
            local.service.add_server()
        elif act == 2:
            before = {i: c.server for i, c in local.service.computations.by_id.items()}
            local.restart()
            assert {i: c.server for i, c in local.service.computations.by_id.items()} == before
        local.feed(batch)
        local.processor.process(batch, local.batch - 1)  # delivered again: nothing happens
    assert local.service.batch_log.last is not None
    marks = {s: t - 5_000_000 for s, t in local.service.batch_log.last.latest.items()}
    for number, (text, window, source) in zip(numbers, queries, strict=True):
        assert local.answers(number) == moments(oracle(text, window, rows, source, marks[source])), text
    tables = {name: named(rows, source) for source, name in enumerate(NAMES)}
    for number, text in joins.items():
        assert local.answers(number) == moments(asked(text, **tables)), text
    local.service.close()
