# ruff: noqa: E501 (queries)
"""Shared execution against plain DuckDB, one query at a time over all rows at once."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sql.world import NAMES, SECOND, Server, asked, named, rows_of

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


def oracle(text, window, rows, source, mark):
    table = named(rows, source)
    if window is None:
        return asked(text, **{NAMES[source]: table})
    written, size, slide = window
    start = f"time_bucket(INTERVAL '{slide} seconds', time, TIMESTAMP '1970-01-01') - off * INTERVAL '{slide} seconds'"
    inner = f"(SELECT *, {start} AS window_start, {start} + INTERVAL '{size} seconds' AS window_end FROM {NAMES[source]}, range({size // slide}) t(off)) s"
    done = f"window_end <= make_timestamp({mark})"
    plain = text.replace(written, "window_start, window_end").replace(
        f"FROM {NAMES[source]}", f"FROM {inner}"
    )
    plain = (
        plain.replace(" WHERE ", f" WHERE {done} AND ", 1)
        if " WHERE " in plain
        else plain.replace(" GROUP BY", f" WHERE {done} GROUP BY")
    )
    return asked(plain, **{NAMES[source]: table})


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


def batches_of(rows, cuts):
    edges = [0, *sorted(c % (rows.num_rows + 1) for c in cuts), rows.num_rows]
    return [rows.slice(a, b - a) for a, b in pairwise(edges)]


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


def test_rows_later_than_the_delay_are_left_out_and_change_no_closed_window() -> None:
    server = Server()
    server.add(1, "SELECT count(*), window_start FROM alpha GROUP BY TUMBLE(time, INTERVAL '10 seconds')")

    server.feed(at_seconds((0, 1), (0, 2), (0, 16)))
    server.feed(at_seconds((0, 3), (0, 12), (0, 30)))
    server.feed(at_seconds((0, 50)))
    assert sorted(row["o0"] for table in server.results for row in table.to_pylist()) == [1, 2, 2]


def test_a_stray_clock_closes_nothing() -> None:
    """A row from far ahead has no say in the watermark; when most rows are there, time has moved."""
    text = "SELECT count(*), window_start FROM alpha GROUP BY TUMBLE(time, INTERVAL '10 seconds')"
    year = 365 * 86_400
    server = Server()
    server.add(1, text)
    server.feed(at_seconds((0, 1), (0, 12), (0, year)))
    server.feed(at_seconds((0, 13), (0, 2 * year), (0, 26)))
    server.feed(at_seconds((0, 27)))
    assert server.mark(0) == (27 - 5) * SECOND
    assert sorted(row["o0"] for table in server.results for row in table.to_pylist()) == [1, 2]
    server.feed(at_seconds((0, 3 * year), (0, 3 * year + 20)))
    assert server.mark(0) == (3 * year + 20 - 5) * SECOND


def test_many_panes_and_many_batches_end_in_few_pieces() -> None:
    rng = np.random.default_rng(1)
    rows = rows_of(rng, 400, seconds=600)
    server = Server()
    text = "SELECT count(*), sum(x) FROM alpha GROUP BY TUMBLE(time, INTERVAL '1 hour')"
    server.add(1, text)
    for batch in batches_of(rows, list(range(0, 400, 5))):
        server.feed(batch)
    (state,) = server.states.values()
    assert sum(map(len, state.values())) <= 20
    far = rows.slice(0, 3).set_column(1, "time", pa.array([7200 * SECOND] * 3, pa.timestamp("us")))
    far = far.set_column(0, "source", pa.array([0, 1, 2], pa.int32()))
    server.feed(far)
    everything = pa.concat_tables([rows, far])
    window = ("TUMBLE(time, INTERVAL '1 hour')", 3600, 3600)
    assert server.answers()[1] == oracle(text, window, everything, 0, server.mark(0))


def at_seconds(*pairs):
    """Rows of (source, second) pairs."""
    sources, seconds = zip(*pairs, strict=True)
    count = len(pairs)
    return pa.table({"source": pa.array(sources, pa.int32()), "time": pa.array([t * SECOND for t in seconds], pa.timestamp("us")),
                     "d0": pa.array([1.0] * count), "v0": ["a"] * count, "l0": pa.array([1] * count, pa.int64())})  # fmt: skip


def test_what_is_open_for_one_source_outlives_what_is_over_for_another() -> None:
    """Many panes in one batch share a label, and a later batch may begin a label in the middle of it."""
    first = at_seconds(*((0, t) for t in range(0, 100, 10)), *((1, t) for t in range(1000, 1100, 10)))
    second = at_seconds((2, 35), (2, 45), (1, 1110))
    third = at_seconds((0, 120), (2, 120), (1, 1130))
    text = "SELECT count(*), window_start FROM {} GROUP BY TUMBLE(time, INTERVAL '10 seconds')"
    server = Server()
    for source, name in enumerate(NAMES):
        server.add(source, text.format(name))
    for batch in (first, second, third):
        server.feed(batch)
    rows = pa.concat_tables([first, second, third])
    window = ("TUMBLE(time, INTERVAL '10 seconds')", 10, 10)
    for source, name in enumerate(NAMES):
        assert server.answers()[source] == oracle(
            text.format(name), window, rows, source, server.mark(source)
        )
