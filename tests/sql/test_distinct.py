# ruff: noqa: E501 (queries)
"""Counting different values: exactly up to a bound, and about beyond it, whatever the batches."""

import numpy as np
import pyarrow as pa
import pytest
from tests.sql.world import SECOND, Server, at_seconds, batches_of

from headgate.errors import QueryFailed
from headgate.sql import distinct
from headgate.sql.engine import Engine

TEXT = "SELECT approx_count_distinct(n), count(DISTINCT n) FROM alpha GROUP BY {}"
END = at_seconds((0, 100))


def numbers(values):
    """Rows of alpha within ten seconds, with these values of n."""
    count = len(values)
    return pa.table({"source": pa.array(np.zeros(count), pa.int32()), "time": pa.array(np.arange(count) * 9 * SECOND // max(count, 1), pa.timestamp("us")),
                     "d0": pa.array(np.ones(count)), "v0": pa.array(["a"] * count), "l0": pa.array(values, pa.int64())})  # fmt: skip


def answers(values, cuts=(), window="TUMBLE(time, INTERVAL '10 seconds')"):
    server = Server()
    server.add(1, TEXT.format(window))
    for batch in batches_of(numbers(values), cuts):
        server.feed(batch)
    server.feed(END)
    return server.answers()[1]


@pytest.mark.parametrize("count", [1, 2, 500, distinct.SIZE - 1, distinct.SIZE, 3_000, 20_000, 60_000])
def test_the_estimate_is_near_what_there_is(count) -> None:
    values = np.random.default_rng(count).permutation(np.repeat(np.arange(count) * 7919, 2))
    ((found, exact),) = answers(values)
    assert exact == count
    if count < distinct.SIZE:
        assert found == count
    assert found == pytest.approx(count, rel=4 / np.sqrt(distinct.SIZE - 2))


def test_batches_change_no_estimate() -> None:
    values = np.random.default_rng(1).integers(0, 10**9, 6_000)
    whole = answers(values)
    assert answers(values, range(0, 6_000, 250)) == whole, "more batches than pieces are kept apart"
    assert answers(np.random.default_rng(2).permutation(values), [10, 4_000]) == whole


def test_nothing_is_no_value() -> None:
    server = Server()
    server.add(
        1,
        "SELECT approx_count_distinct(x), count(DISTINCT x), count(*) FROM alpha GROUP BY TUMBLE(time, INTERVAL '10 seconds')",
    )
    server.add(
        2,
        "SELECT approx_count_distinct(x), count(DISTINCT x), median(n) FROM alpha GROUP BY TUMBLE(time, INTERVAL '10 seconds')",
    )
    rows = at_seconds((0, 1), (0, 2), (0, 13), (0, 14))
    server.feed(rows.set_column(2, "d0", pa.array([None, None, 2.0, None], pa.float64())))
    server.feed(END)
    assert server.answers() == {1: {(0, 0, 2): 1, (1, 1, 2): 1}, 2: {(0, 0, 1.0): 1, (1, 1, 1.0): 1}}


def test_the_last_rows_are_counted() -> None:
    found = answers(np.array([1, 1, 2, 3, 3]), [2], "LAST 3 ROWS")
    assert found == {(1, 1): 2, (2, 2): 2, (3, 3): 1}


def test_state_is_bounded_by_the_sketch_and_not_by_the_rows() -> None:
    server = Server()
    server.add(1, TEXT.format("TUMBLE(time, INTERVAL '1 hour')").replace(", count(DISTINCT n)", ""))
    for batch in batches_of(numbers(np.arange(30_000)), range(0, 30_000, 1_000)):
        server.feed(batch)
    (state,) = server.states.values()
    pieces = [piece.ref for pieces in state.values() for piece in pieces]
    assert max(len(hashes) for piece in pieces for hashes in piece.column("x0").to_pylist()) <= distinct.SIZE


def test_too_many_values_stop_the_query_with_advice() -> None:
    engine = Engine()
    assert engine.ask("SELECT hg_counted(100000) AS n, hg_counted(NULL) AS m").to_pylist() == [
        {"n": 100_000, "m": 0}
    ]
    with pytest.raises(QueryFailed, match="use approx_count_distinct"):
        engine.ask("SELECT hg_counted(x) AS n FROM t", t=pa.table({"x": [100_001]}))
    engine.close()
