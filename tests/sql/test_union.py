# ruff: noqa: E501 (queries)
"""UNION ALL of sources and outer joins against plain DuckDB over all rows at once, however the rows are batched."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sql.world import (
    KINDS,
    NAMES,
    PREPARER,
    SECOND,
    Server,
    asked,
    at_seconds,
    batches_of,
    named,
    rows_of,
)

from headgate.errors import QueryRefused

CUTS = st.lists(st.integers(0, 10**6), max_size=8)
BUCKET = "time_bucket(INTERVAL '10 seconds', {}, TIMESTAMP '1970-01-01')"


def fed(texts, rows, cuts):
    server = Server()
    for number, text in enumerate(texts):
        server.add(number, text)
    for batch in batches_of(rows, cuts):
        server.feed(batch)
    return server, {name: named(rows, i) for i, name in enumerate(NAMES)}


ROWS = [
    "SELECT x, city FROM alpha WHERE n > 1 UNION ALL SELECT n, upper(city) FROM beta WHERE x > 0",
    "SELECT x, city FROM alpha WHERE n > 3 UNION ALL SELECT n, upper(city) FROM gamma WHERE x > 2",
    "SELECT time, city || y AS cy, n FROM (SELECT time, city, n AS y, n FROM alpha UNION ALL SELECT time, city, x, n FROM alpha UNION ALL (SELECT time, 'c', 0.5e0, 7 FROM gamma)) u WHERE u.n > 2",
    "SELECT y + 1 FROM (SELECT x * 2 AS y FROM beta WHERE n = 1)",
]


@settings(max_examples=3)
@given(st.integers(0, 10**6), CUTS)
def test_a_union_has_the_rows_of_its_parts(seed, cuts) -> None:
    rows = rows_of(np.random.default_rng(seed), 120)
    server, tables = fed(ROWS, rows, cuts)
    assert len(server.templates) == 3
    for number, text in enumerate(ROWS):
        assert server.answers().get(number, {}) == asked(text, **tables), text


@settings(max_examples=3)
@given(st.integers(0, 10**6), CUTS)
def test_windows_over_a_union_close_when_all_its_sources_have_passed(seed, cuts) -> None:
    inner = "(SELECT time, x AS y, city FROM alpha WHERE n > {} UNION ALL SELECT time, n * 2, upper(city) FROM beta UNION ALL SELECT time, x, city FROM alpha WHERE n = 0) u"
    text = "SELECT city, count(*), sum(y), avg(y), count(DISTINCT y) FROM {} WHERE y > 0 GROUP BY city, {}"
    texts = [text.format(inner.format(n), "TUMBLE(time, INTERVAL '10 seconds')") for n in (1, 3)]
    last = "SELECT city, sum(y) FROM (SELECT time, x AS y, city FROM alpha UNION ALL SELECT time, n, city FROM beta) GROUP BY city, LAST 3 ROWS"
    rows = rows_of(np.random.default_rng(seed), 120)
    server, tables = fed([*texts, last], rows, cuts)
    mark = min(server.mark(0), server.mark(1))
    bucket = BUCKET.format("time")
    done = f"WHERE {bucket} + INTERVAL '10 seconds' <= make_timestamp({mark}) AND "
    for number, n in enumerate((1, 3)):
        plain = text.format(inner.format(n), bucket).replace("WHERE y", f"{done} y")
        assert server.answers().get(number, {}) == asked(plain, **tables)
    over = (
        "SELECT city, s FROM (SELECT time, city, sum(y) OVER (PARTITION BY city ORDER BY time, y ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) s FROM "
        f"(SELECT time, x AS y, city FROM alpha UNION ALL SELECT time, n, city FROM beta)) WHERE time < make_timestamp({mark})"
    )
    assert server.answers().get(2, {}) == asked(over, **tables)


def test_a_silent_source_holds_the_windows_of_a_union_open() -> None:
    text = "SELECT count(*) FROM (SELECT time FROM alpha UNION ALL SELECT time FROM beta) GROUP BY TUMBLE(time, INTERVAL '10 seconds')"
    server = Server()
    server.add(1, text)
    server.feed(at_seconds((0, 1), (0, 12), (0, 40)))
    assert server.answers() == {}
    server.feed(at_seconds((1, 3), (1, 17)))
    assert server.answers() == {1: {(2,): 1}}


LEFT = [
    "SELECT a.time, a.x, a.city, b.x, b.time, coalesce(b.n, -1) FROM alpha a LEFT JOIN beta b ON a.city = b.city AND b.n > 1 AND b.time BETWEEN a.time - INTERVAL '2 seconds' AND a.time + INTERVAL '3 seconds' WHERE a.n > 0",
    "SELECT a.time, a.x, a.city, b.x, b.time, coalesce(b.n, -1) FROM alpha a LEFT JOIN beta b ON a.city = b.city AND b.n > 2 AND b.time BETWEEN a.time - INTERVAL '2 seconds' AND a.time + INTERVAL '3 seconds' WHERE a.n > 2",
    "SELECT a.time, a.n FROM alpha a LEFT JOIN beta b ON b.n = a.n AND b.time BETWEEN a.time - INTERVAL '4 seconds' AND a.time - INTERVAL '1 second' WHERE b.time IS NULL",
    "SELECT * FROM beta b RIGHT OUTER JOIN alpha a ON a.n = b.n AND b.x > 4 AND b.time BETWEEN a.time + INTERVAL '1 second' AND a.time + INTERVAL '2 seconds'",
]
LATER = (3, 3, 0, 2)
"""How many seconds after a row of alpha a partner may come."""


@settings(max_examples=3)
@given(st.integers(0, 10**6), CUTS)
def test_an_outer_join_has_every_pair_once_and_every_row_that_has_none(seed, cuts) -> None:
    rows = rows_of(np.random.default_rng(seed), 120)
    server, tables = fed(LEFT, rows, cuts)
    for number, text in enumerate(LEFT):
        mark = min(server.mark(0), server.mark(1) - LATER[number] * SECOND)
        settled = f"(b.time IS NOT NULL OR a.time < make_timestamp({mark}))"
        plain = f"{text} AND {settled}" if " WHERE " in text else f"{text} WHERE {settled}"
        expected = asked(plain, **tables)
        assert server.answers().get(number, {}) == expected, text
        assert number == 3 or len(expected) > 1


@settings(max_examples=3)
@given(st.integers(0, 10**6), CUTS)
def test_windows_over_an_outer_join(seed, cuts) -> None:
    text = "SELECT a.city, count(*), count(b.x), sum(b.n), count(DISTINCT b.n) FROM alpha a LEFT JOIN beta b ON a.n = b.n AND b.x > 2 AND b.time BETWEEN a.time AND a.time + INTERVAL '3 seconds' {} GROUP BY a.city, {}"
    rows = rows_of(np.random.default_rng(seed), 120)
    server, tables = fed([text.format("", "TUMBLE(a.time, INTERVAL '10 seconds')")], rows, cuts)
    mark = min(server.mark(0), server.mark(1) - 3 * SECOND)
    bucket = BUCKET.format("a.time")
    done = f"WHERE {bucket} + INTERVAL '10 seconds' <= make_timestamp({mark})"
    assert server.answers().get(0, {}) == asked(text.format(done, bucket), **tables)


FULL = [
    ("SELECT a.time, a.x, b.x, b.time, coalesce(a.n, b.n) FROM alpha a FULL JOIN beta b ON a.city = b.city AND b.n > 1 AND b.time BETWEEN a.time - INTERVAL '2 seconds' AND a.time + INTERVAL '3 seconds'", 2, 3),
    ("SELECT * FROM alpha a FULL OUTER JOIN beta b ON a.n = b.n AND a.x > 3 AND b.time BETWEEN a.time - INTERVAL '5 seconds' AND a.time WHERE coalesce(a.n, b.n) > 1", 5, 0),
    ("SELECT a.time, b.time FROM alpha a FULL JOIN beta b ON b.n = a.n AND a.time BETWEEN b.time + INTERVAL '1 second' AND b.time + INTERVAL '4 seconds' WHERE a.n IS NULL OR b.n IS NULL", 4, 0),
    ("SELECT a.city, b.city FROM beta b FULL JOIN alpha a ON b.n = a.n AND a.time BETWEEN b.time - INTERVAL '1 second' AND b.time + INTERVAL '6 seconds'", 1, 6),
]  # fmt: skip
"""Texts, and how many seconds the second source's rows may be before and after those of the first."""


@settings(max_examples=4)
@given(st.integers(0, 10**6), CUTS)
def test_a_full_join_has_every_pair_once_and_every_row_that_has_none(seed, cuts) -> None:
    rows = rows_of(np.random.default_rng(seed), 120)
    server, tables = fed([text for text, _, _ in FULL], rows, cuts)
    for number, (text, before, after) in enumerate(FULL):
        first, second = (1, 0) if "FROM beta" in text else (0, 1)
        mark = min(server.mark(first) - before * SECOND, server.mark(second) - after * SECOND)
        done = f"(a.time IS NOT NULL AND b.time IS NOT NULL OR coalesce(a.time, b.time) < make_timestamp({mark}))"
        given, _, asked_for = text.partition(" WHERE ")
        expected = asked(f"{given} WHERE {done} AND ({asked_for or 'true'})", **tables)
        assert server.answers().get(number, {}) == expected, text
        assert len(expected) > 1


def test_the_rows_of_both_sources_wait_for_the_other() -> None:
    text = "SELECT a.n, b.n FROM alpha a FULL JOIN beta b ON b.time BETWEEN a.time AND a.time + INTERVAL '3 seconds'"
    server = Server()
    server.add(1, text)
    server.feed(at_seconds((0, 10), (0, 60)))
    server.feed(at_seconds((1, 17)))
    assert server.answers() == {}
    server.feed(at_seconds((1, 19), (1, 40)))
    assert server.answers() == {1: {(1, None): 1, (None, 1): 2}}


def test_a_full_join_has_no_window() -> None:
    text = "SELECT count(*) FROM alpha a FULL JOIN beta b ON b.time BETWEEN a.time AND a.time GROUP BY TUMBLE(a.time, INTERVAL '1 second')"
    with pytest.raises(QueryRefused, match="FULL JOIN"):
        PREPARER.prepare(text, KINDS)


def test_a_row_without_partner_waits_for_the_other_source() -> None:
    server = Server()
    server.add(
        1,
        "SELECT a.n, b.n FROM alpha a LEFT JOIN beta b ON b.time BETWEEN a.time AND a.time + INTERVAL '3 seconds'",
    )
    server.feed(at_seconds((0, 10), (0, 60)))
    server.feed(at_seconds((1, 17)))
    assert server.answers() == {}
    server.feed(at_seconds((1, 19)))
    assert server.answers() == {1: {(1, None): 1}}


@pytest.mark.parametrize("text", ["SELECT a.x FROM alpha a LEFT JOIN beta b ON a.n = b.n AND b.time BETWEEN a.time AND a.time GROUP BY TUMBLE(b.time, INTERVAL '1 second')"])  # fmt: skip
def test_a_window_is_over_the_source_that_keeps_its_rows(text) -> None:
    with pytest.raises(QueryRefused, match="left source"):
        PREPARER.prepare(text, KINDS)
