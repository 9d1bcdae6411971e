"""A server's task: a query that fails or goes beyond a limit stops alone."""

import numpy as np
from tests.service.local import Local
from tests.sql.world import asked, batches_of, named, rows_of

from headgate.sql.engine import Function
from headgate.sql.limits import Limits


def test_a_query_that_fails_stops_alone_with_its_reason(local) -> None:
    bad, good = local.add(
        "SELECT CAST(city AS BIGINT) FROM alpha WHERE n > 0",
        "SELECT CAST(city AS BIGINT) FROM alpha WHERE n > 9",
    )
    rows = rows_of(np.random.default_rng(5), 100)
    local.feed(rows)
    one = local.service.get_query(local.ann, bad)
    assert one.state == "failed"
    assert "is no bigint: TRY_CAST gives NULL instead" in one.why
    assert local.service.get_query(local.ann, good).state == "active"
    local.feed(rows)


def test_a_registered_function_that_raises_stops_its_queries_alone(tmp_path) -> None:
    def shaky(x):
        if x.to_pylist().count(None):
            raise ValueError("no nulls please")
        return x

    local = Local(tmp_path, functions={"shaky": Function("shaky", ("double",), "double", shaky)})
    bad, good = local.add("SELECT shaky(x) FROM alpha", "SELECT shaky(x) FROM alpha WHERE x IS NOT NULL")
    local.feed(rows_of(np.random.default_rng(5), 100))
    assert "no nulls please" in local.service.get_query(local.ann, bad).why
    assert local.service.get_query(local.ann, good).state == "active"
    assert local.answers(good)
    local.service.close()


def test_a_join_that_keeps_too_much_stops_alone(tmp_path) -> None:
    local = Local(tmp_path, limits=Limits(state_rows=40), servers=1)
    text = "SELECT a.x, b.x FROM alpha a JOIN beta b ON a.n = b.n AND b.time BETWEEN a.time - INTERVAL '{} seconds' AND a.time"
    long, short = local.add(text.format(600), text.format(1))
    rows = rows_of(np.random.default_rng(5), 400)
    for batch in batches_of(rows, range(0, 400, 20)):
        local.feed(batch)
    assert "rows of one source, and 40 is the limit" in local.service.get_query(local.ann, long).why
    assert local.answers(short) == asked(text.format(1), alpha=named(rows, 0), beta=named(rows, 1))
    local.service.close()
