# ruff: noqa: E501 (queries)
"""Shared execution against plain DuckDB, one query at a time over all rows at once."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sql.world import NAMES, SECOND, Server, asked, batches_of, named, oracle, rows_of

FAMILIES = {
    "rows": ("SELECT time, city, x * {a} + n FROM {s} WHERE x > {b} AND city <> '{c}'", None),
    "case": ("SELECT CASE WHEN x > {a} THEN 'up' WHEN x < {b} THEN 'down' ELSE city END, n % 3 FROM {s} WHERE n IN (1, {a}) OR x IS NULL", None),
    "tumble": (
        "SELECT city, count(*), sum(x), avg(x), min(n), max(x) - {a}, sum(n) * 2 FROM {s} WHERE x > {b} GROUP BY city, {w} HAVING count(*) > {d}",
        ("TUMBLE(time, INTERVAL '10 seconds')", 10, 10),
    ),
    "hop": ("SELECT n, count(x), sum(x) + {a}, window_start, window_end FROM {s} WHERE city <> '{c}' GROUP BY n, {w}",
            ("HOP(time, INTERVAL '5 seconds', INTERVAL '15 seconds')", 15, 5)),
    "raw": ("SELECT count(DISTINCT city), median(x), stddev_pop(n), count(*) FROM {s} WHERE x > {b} GROUP BY {w}",
            ("TUMBLE(time, INTERVAL '20 seconds')", 20, 20)),
}  # fmt: skip


@st.composite
def queries(draw):
    family = draw(st.sampled_from(sorted(FAMILIES)))
    text, window = FAMILIES[family]
    source = draw(st.integers(0, 2))
    filled = text.format(
        s=NAMES[source], a=draw(st.integers(0, 3)), b=draw(st.sampled_from(["-5", "0.25", "4"])),
        c=draw(st.sampled_from(["ash", "ärger", "it''s"])), d=draw(st.integers(0, 3)), w=window[0] if window else "",
    )  # fmt: skip
    return filled, window, source


@settings(max_examples=8)
@given(
    st.lists(queries(), min_size=1, max_size=6),
    st.integers(0, 10**6),
    st.lists(st.integers(0, 10**6), max_size=5),
)
def test_sharing_changes_no_answer(drawn, seed, cuts) -> None:
    rows = rows_of(np.random.default_rng(seed), 200)
    server = Server()
    for number, (text, _, _) in enumerate(drawn):
        server.add(number, text)
    for batch in batches_of(rows, cuts):
        server.feed(batch)
    found = server.answers()
    for number, (text, window, source) in enumerate(drawn):
        assert found.get(number, {}) == oracle(text, window, rows, source, server.mark(source)), text


@settings(max_examples=5)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 10**6), max_size=6), st.integers(1, 7))
def test_the_last_rows_are_a_window_function(seed, cuts, n) -> None:
    rows = rows_of(np.random.default_rng(seed), 150)
    server = Server()
    server.add(
        1,
        f"SELECT city, avg(x), count(DISTINCT n), sum(n) FROM alpha WHERE n > 0 GROUP BY city, LAST {n} ROWS HAVING count(*) > 1",
    )
    server.add(2, f"SELECT min(x) FROM beta WHERE n > 2 GROUP BY LAST {n} ROWS")
    for batch in batches_of(rows, cuts):
        server.feed(batch)
    over = f"ORDER BY time, x, n ROWS BETWEEN {n - 1} PRECEDING AND CURRENT ROW"
    first = (
        "SELECT city, a, d, s FROM (SELECT time, city, avg(x) OVER w a, count(DISTINCT n) OVER w d, sum(n) OVER w s, count(*) OVER w k "
        f"FROM alpha WHERE n > 0 WINDOW w AS (PARTITION BY city {over})) WHERE k > 1 AND time < make_timestamp({server.mark(0)})"
    )
    second = f"SELECT m FROM (SELECT time, min(x) OVER ({over}) m FROM beta WHERE n > 2) WHERE time < make_timestamp({server.mark(1)})"
    found = server.answers()
    assert found.get(1, {}) == asked(first, alpha=named(rows, 0))
    assert found.get(2, {}) == asked(second, beta=named(rows, 1))


JOIN = "FROM alpha a JOIN beta b ON a.city = b.city AND b.time BETWEEN a.time - INTERVAL '3 seconds' AND a.time + INTERVAL '2 seconds'"


@settings(max_examples=5)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 10**6), max_size=40))
def test_a_join_meets_every_pair_once(seed, cuts) -> None:
    rows = rows_of(np.random.default_rng(seed), 200)
    third = "JOIN gamma c ON c.n = b.n AND c.time BETWEEN a.time AND a.time + INTERVAL '4 seconds'"
    texts = [
        f"SELECT a.time, a.x, b.x, b.n {JOIN} WHERE a.x > 1",
        f"SELECT a.time, a.x, b.x, b.n {JOIN} WHERE a.x > 2.5",
        f"SELECT a.time, b.time, c.time, a.n {JOIN} {third}",
    ]
    server = Server()
    for number, text in enumerate(texts):
        server.add(number, text)
    for batch in batches_of(rows, cuts):
        server.feed(batch)
    tables = {name: named(rows, i) for i, name in enumerate(NAMES)}
    found = server.answers()
    for number, text in enumerate(texts):
        assert found.get(number, {}) == asked(text, **tables), text


@settings(max_examples=4)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 10**6), max_size=6))
def test_windows_over_a_join_close_when_every_pair_is_there(seed, cuts) -> None:
    rows = rows_of(np.random.default_rng(seed), 200)
    server = Server()
    server.add(
        1, f"SELECT a.city, count(*), sum(b.x) {JOIN} GROUP BY a.city, TUMBLE(a.time, INTERVAL '10 seconds')"
    )
    for batch in batches_of(rows, cuts):
        server.feed(batch)
    mark = min(server.mark(0), server.mark(1) - 2 * SECOND)
    bucket = "time_bucket(INTERVAL '10 seconds', a.time, TIMESTAMP '1970-01-01')"
    plain = f"SELECT a.city, count(*), sum(b.x) {JOIN} WHERE {bucket} + INTERVAL '10 seconds' <= make_timestamp({mark}) GROUP BY a.city, {bucket}"
    assert server.answers().get(1, {}) == asked(plain, alpha=named(rows, 0), beta=named(rows, 1))
