# ruff: noqa: E501 (queries)
"""Queries over several sources in the service: servers come and go, it restarts, and every answer is right."""

import numpy as np
import pytest
from tests.service.local import Local, moments
from tests.sql.test_union import BUCKET, LATER, LEFT, ROWS
from tests.sql.world import NAMES, SECOND, asked, at_seconds, batches_of, named, rows_of

UNION = "SELECT city, count(*), sum(y), approx_count_distinct(y) FROM (SELECT time, x AS y, city FROM alpha UNION ALL SELECT time, n, city FROM gamma) u GROUP BY city, {}"


@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.full) for s in range(2, 8))])
def test_unions_and_outer_joins_survive_servers_and_restarts(tmp_path, seed) -> None:
    rng = np.random.default_rng(seed)
    local = Local(tmp_path)
    texts = [*ROWS, *LEFT, UNION.format("TUMBLE(time, INTERVAL '10 seconds')")]
    numbers = local.add(*texts)
    rows = rows_of(rng, 240)
    for batch in batches_of(rows, rng.integers(0, 240, 5).tolist()):
        act = rng.integers(4)
        if act <= 1 and len(local.service.computations.alive) > 1:
            local.service.lose_server(int(rng.choice(sorted(local.service.computations.alive))))
        elif act == 2:
            local.service.add_server()
        elif act == 3:
            local.restart()
        local.feed(batch)
    assert local.service.batch_log.last is not None
    marks = {s: t - 5 * SECOND for s, t in local.service.batch_log.last.latest.items()}
    tables = {name: named(rows, source) for source, name in enumerate(NAMES)}
    for number, text in zip(numbers, texts, strict=True):
        plain = text
        if text in LEFT:
            mark = min(marks[0], marks[1] - LATER[LEFT.index(text)] * SECOND)
            settled = f"(b.time IS NOT NULL OR a.time < make_timestamp({mark}))"
            plain = f"{text} AND {settled}" if " WHERE " in text else f"{text} WHERE {settled}"
        elif text not in ROWS:
            bucket, mark = BUCKET.format("time"), min(marks[0], marks[2])
            plain = UNION.format(bucket).replace(
                " GROUP", f" WHERE {bucket} + INTERVAL '10 seconds' <= make_timestamp({mark}) GROUP"
            )
            plain = plain.replace("approx_count_distinct", "count(DISTINCT ").replace(
                "(DISTINCT (", "(DISTINCT "
            )
        assert local.answers(number) == moments(asked(plain, **tables)), text
    local.service.close()


def test_a_row_whose_partner_came_before_the_query_is_not_said_to_have_none(local) -> None:
    text = "SELECT a.n, b.n FROM alpha a LEFT JOIN beta b ON b.time BETWEEN a.time - INTERVAL '10 seconds' AND a.time"
    local.add(
        "SELECT x FROM alpha UNION ALL SELECT x FROM beta"
    )  # of a source that nobody reads nothing is known
    local.feed(at_seconds((1, 20), (0, 15)))
    (number,) = local.add(text)
    local.feed(at_seconds((0, 25), (0, 40), (1, 41)))
    local.feed(at_seconds((0, 90), (1, 90)))
    assert local.answers(number) == {(1, None): 1, (1, 1): 1}, (
        "of 40 and 90; the row at 25 had a partner at 20"
    )


def test_a_full_join_says_nothing_of_rows_whose_partner_may_have_come_before_the_query(local) -> None:
    text = "SELECT a.n, b.n FROM alpha a FULL JOIN beta b ON b.time BETWEEN a.time - INTERVAL '10 seconds' AND a.time"
    local.add("SELECT x FROM alpha UNION ALL SELECT x FROM beta")
    local.feed(at_seconds((1, 20), (0, 15)))
    (number,) = local.add(text)
    local.feed(at_seconds((0, 25), (0, 40), (1, 41)))
    local.restart()
    local.feed(at_seconds((0, 90), (1, 90)))
    assert local.answers(number) == {(1, None): 1, (None, 1): 1, (1, 1): 1}, "of 40, 41 and 90"
