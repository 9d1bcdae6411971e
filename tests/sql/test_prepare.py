# ruff: noqa: E501, SIM905 (tables of texts)
"""What is taken, what is refused and where; and that nothing else can come out."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sql.world import KINDS, PREPARER, Server, asked, named, rows_of

from headgate.errors import QueryFailed, QueryRefused
from headgate.sql.engine import Function
from headgate.sql.prepare import Preparer

TAKEN = [
    "SELECT * FROM alpha",
    "select city, x * 2 as twice from alpha where x > -5.5 and city like 'a%'",
    "SELECT round(x, 1), substring(city, 1, 2), coalesce(x, 0), n % 3, nullif(n, 2) FROM alpha AS r WHERE r.n BETWEEN 1 AND 3",
    "SELECT city, avg(x), count(*), window_start FROM alpha GROUP BY city, TUMBLE(time, INTERVAL '1 minute') HAVING count(*) > 3",
    "SELECT n, max(x) FROM beta GROUP BY n, HOP(time, INTERVAL 5 SECONDS, INTERVAL '15 seconds')",
    "SELECT floor(x / 10) AS decade, count(*) FROM alpha GROUP BY floor(x / 10), TUMBLE(time, INTERVAL '1 hour')",
    "SELECT city, stddev(x) FROM alpha GROUP BY city, LAST 10 ROWS",
    "SELECT a.x, b.x FROM alpha a JOIN beta b ON a.city = b.city AND b.time BETWEEN a.time - INTERVAL '5 seconds' AND a.time",
    'SELECT "city" FROM "alpha" WHERE NOT x IS NULL',
    "SELECT city ->> '$.a.b[0]', CAST(json_extract_string(city, '$.n') AS DOUBLE) FROM alpha WHERE (city -> 'a') IS NOT NULL AND city ->> 'b' = 'c'",
    "SELECT regexp_extract(city, '(a)(.)', 2), regexp_replace(city, 'a', '<\\0>', 'g') FROM alpha WHERE city ~ '^a' AND NOT regexp_matches(city, 'h$', 'i')",
    "SELECT date_trunc('hour', time), extract(minute FROM time), time + INTERVAL '5 minutes', epoch(time - TIMESTAMP '2026-01-01') FROM alpha",
    "SELECT string_split(city, 'r')[1], [x, n][2] FROM alpha WHERE n = ANY([1, 2]) AND len(split(city, ',')) > 0",
    "SELECT city, approx_count_distinct(n) FROM alpha GROUP BY city, TUMBLE(time, INTERVAL '1 minute')",
    "SELECT x, city FROM alpha UNION ALL SELECT n, upper(city) FROM beta WHERE n > 5",
    "SELECT k, sum(y) FROM (SELECT time, x AS y, city AS k FROM alpha UNION ALL SELECT time, n * 5, city FROM beta) u GROUP BY k, TUMBLE(time, INTERVAL '1 minute')",
    "SELECT a.x, b.x FROM alpha a LEFT JOIN beta b ON a.city = b.city AND b.time BETWEEN a.time - INTERVAL '5 seconds' AND a.time",
    "SELECT * FROM alpha a RIGHT JOIN beta b ON b.time BETWEEN a.time - INTERVAL '5 seconds' AND a.time WHERE b.x > 5",
]


REFUSED = {
    "syntax": ["SELEC x FROM alpha", "SELECT x FROM alpha WHERE", "SELECT ((x FROM alpha", "'", "SELECT 'x FROM alpha"],
    "nesting": ["SELECT " + "(" * 900 + "x" + ")" * 900 + " FROM alpha", "SELECT " + "CASE WHEN " * 99 + "x" + " THEN 1 END" * 99 + " FROM alpha",
                "SELECT " + "ARRAY[" * 25, "SELECT " + "ROW(" * 37, "SELECT " + "ARRAY[1 END, " * 25 + "1" + "]" * 25 + " FROM alpha", "SELECT " + "TIME ((" * 20],
    "statements": ["", "SELECT x FROM alpha; SELECT x FROM beta", ";"],
    "not-select": ["DROP TABLE alpha", "INSERT INTO alpha VALUES (1)", "ATTACH 'x.db'", "COPY alpha TO 'x'", "PRAGMA version", "SET threads = 9",
                   "CREATE TABLE t AS SELECT 1"],
    "no-source": ["SELECT 1", "SELECT"],
    "unknown-source": ["SELECT x FROM delta", "SELECT delta.x FROM alpha", "SELECT x FROM duckdb_settings", "SELECT x FROM 'file.parquet'"],
    "not-a-source": ["SELECT x FROM read_csv('/etc/passwd')", "SELECT x FROM (SELECT x FROM (SELECT x FROM alpha))",
                     "SELECT * FROM main.alpha", "SELECT * FROM glob('*')", "SELECT x FROM alpha TABLESAMPLE 10%", "FROM duckdb_secrets()"],
    "unknown-column": ["SELECT y FROM alpha", "SELECT x FROM alpha WHERE rowid = 1"],
    "clock": ["SELECT random() FROM alpha", "SELECT now() FROM alpha", "SELECT x FROM alpha WHERE time > current_timestamp"],
    "union": ["SELECT x FROM alpha UNION SELECT x FROM beta", "SELECT x FROM alpha EXCEPT SELECT x FROM beta", "SELECT x, n FROM alpha UNION ALL SELECT x FROM beta",
              "SELECT count(*) FROM (SELECT time FROM alpha UNION ALL SELECT n FROM beta) GROUP BY LAST 3 ROWS"],
    "unknown-function": ["SELECT getenv('HOME') FROM alpha", "SELECT current_setting('threads') FROM alpha", "SELECT uncertain(x) FROM alpha",
                         "SELECT x FROM alpha WHERE pg_sleep(10)", "SELECT read_text('/etc/passwd') FROM alpha"],
    "subquery": ["SELECT (SELECT 1) FROM alpha", "SELECT x FROM alpha WHERE EXISTS (SELECT 1)", "SELECT x FROM alpha WHERE x IN (SELECT 1)"],
    "unsupported": ["SELECT x FROM alpha ORDER BY x", "SELECT x FROM alpha LIMIT 5", "SELECT DISTINCT x FROM alpha",
                    "WITH t AS (SELECT 1) SELECT x FROM alpha", "SELECT x FROM alpha WHERE city = $$a$$", "SELECT {'a': x} FROM alpha",
                    "SELECT x FROM alpha UNION ALL SELECT x FROM beta LIMIT 5", "SELECT x FROM alpha UNION ALL SELECT count(x) FROM beta GROUP BY LAST 3 ROWS",
                    "SELECT x FROM (SELECT x FROM alpha) a JOIN beta b ON true", "SELECT sum(x) FILTER (WHERE x > 1) FROM alpha GROUP BY LAST 3 ROWS"],
    "over": ["SELECT row_number() OVER (ORDER BY x) FROM alpha"],
    "no-window": ["SELECT avg(x) FROM alpha", "SELECT city, count(*) FROM alpha GROUP BY city", "SELECT x FROM alpha HAVING x > 1"],
    "window": ["SELECT count(*) FROM alpha GROUP BY TUMBLE(x, INTERVAL '1 minute')", "SELECT count(*) FROM alpha GROUP BY TUMBLE(time)",
               "SELECT count(*) FROM alpha GROUP BY HOP(time, INTERVAL '7 seconds', INTERVAL '15 seconds')",
               "SELECT count(*) FROM alpha GROUP BY LAST 0 ROWS", "SELECT TUMBLE(time, INTERVAL '1 minute') FROM alpha"],
    "window-size": ["SELECT count(*) FROM alpha GROUP BY TUMBLE(time, INTERVAL '30 days')", "SELECT count(*) FROM alpha GROUP BY LAST 100000 ROWS",
                    "SELECT count(*) FROM alpha GROUP BY HOP(time, INTERVAL '1 second', INTERVAL '1 hour')"],
    "interval": ["SELECT count(*) FROM alpha GROUP BY TUMBLE(time, INTERVAL '1 month')", "SELECT count(*) FROM alpha GROUP BY TUMBLE(time, 60)"],
    "not-grouped": ["SELECT x, count(*) FROM alpha GROUP BY city, LAST 5 ROWS"],
    "aggregate": ["SELECT count(*) FROM alpha WHERE count(*) > 1 GROUP BY LAST 5 ROWS", "SELECT sum(avg(x)) FROM alpha GROUP BY LAST 5 ROWS"],
    "ordinal": ["SELECT city, count(*) FROM alpha GROUP BY 1, LAST 5 ROWS"],
    "join": ["SELECT alpha.x FROM alpha, beta", "SELECT a.x FROM alpha a SEMI JOIN beta b ON a.city = b.city",
             "SELECT a.x FROM alpha a LEFT JOIN beta b ON b.time BETWEEN a.time AND a.time JOIN gamma c ON c.time BETWEEN a.time AND a.time", "SELECT a.x FROM alpha a CROSS JOIN beta b"],
    "join-bound": ["SELECT a.x FROM alpha a JOIN beta b ON a.city = b.city",
                   "SELECT a.x FROM alpha a JOIN beta b ON b.time BETWEEN a.time AND a.time + INTERVAL '9 days'"],
    "ambiguous": ["SELECT x FROM alpha JOIN beta ON alpha.time BETWEEN beta.time AND beta.time", "SELECT a.x FROM alpha a JOIN beta a ON true"],
    "types": ["SELECT x + city FROM alpha", "SELECT sum(city) FROM alpha GROUP BY LAST 3 ROWS",
              "SELECT upper(count(*)) + 1 FROM alpha GROUP BY LAST 3 ROWS", "SELECT [x] FROM alpha", "SELECT time - time FROM alpha", "SELECT city -> '$[' FROM alpha",
              "SELECT n ~ 'a' FROM alpha"],
    "pattern": ["SELECT x FROM alpha WHERE city ~ '('", "SELECT x FROM alpha WHERE city ~ '(?=a)'", "SELECT x FROM alpha WHERE city ~ '(a{99}){99}'",
                "SELECT regexp_replace(city, 'a', '\\1') FROM alpha", "SELECT x FROM alpha WHERE city ~ '\\pL{30}'"],
    "path": ["SELECT city -> '$..a' FROM alpha", "SELECT city -> '/a' FROM alpha"],
    "unit": ["SELECT date_trunc('fortnight', time) FROM alpha", "SELECT extract(timezone FROM time) FROM alpha"],
    "list": ["SELECT [x, n][1:2] FROM alpha", "SELECT city['a'] FROM alpha"],
    "arguments": ["SELECT lower(city, city) FROM alpha", "SELECT abs() FROM alpha"],
    "literal": ["SELECT x FROM alpha WHERE n = 1_000", "SELECT round(x, n) FROM alpha", "SELECT x FROM alpha WHERE city ~ city", "SELECT strftime(time, city) FROM alpha",
                "SELECT city -> city FROM alpha", "SELECT regexp_matches(city, 'a', 'q') FROM alpha", "SELECT date_trunc(city, time) FROM alpha"],
    "number": ["SELECT x FROM alpha WHERE n > 99999999999999999999"],
    "type": ["SELECT CAST(x AS DECIMAL(10, 2)) FROM alpha", "SELECT x::BLOB FROM alpha"],
    "cost": ["SELECT " + "+".join(["x"] * 400) + " FROM alpha"],
    "too-long": ["SELECT x FROM alpha WHERE city = '" + "a" * 5000 + "'"],
    "too-many-sources": ["SELECT 1 FROM alpha a JOIN beta b ON true JOIN gamma c ON true JOIN alpha d ON true"],
    "parentheses": ["SELECT 1 < x < 2 FROM alpha", "SELECT city -> 'a' = 'b' FROM alpha", "SELECT city || city ->> 'a' FROM alpha", "SELECT city ~ 'a' = true FROM alpha"],
    "star": ["SELECT x, alpha.* FROM alpha", "SELECT * EXCLUDE (x) FROM alpha"],
    "distinct": ["SELECT sum(DISTINCT x) FROM alpha GROUP BY LAST 3 ROWS"],
}  # fmt: skip


@pytest.mark.parametrize("text", TAKEN)
def test_taken(text) -> None:
    assert PREPARER.prepare(text, KINDS).sources


@pytest.mark.parametrize(
    ("reason", "text"), [(r, t) for r, texts in REFUSED.items() for t in texts], ids=lambda x: str(x)[:40]
)
def test_refused_by_name_and_place(reason, text) -> None:
    with pytest.raises(QueryRefused) as caught:
        PREPARER.prepare(text, KINDS)
    assert caught.value.reason == reason, caught.value
    assert f"(line {caught.value.line}, column {caught.value.column})" in str(caught.value)


def test_the_place_is_that_of_the_fault() -> None:
    with pytest.raises(QueryRefused) as caught:
        PREPARER.prepare("SELECT city,\n  x + nope\nFROM alpha", KINDS)
    assert (caught.value.line, caught.value.column) == (2, 7)


def test_a_remembered_shape_gives_what_a_new_reader_gives() -> None:
    texts = [
        t.replace("alpha", name).replace("5", number)
        for t in TAKEN
        for name in ("alpha", "gamma")
        for number in ("5", "6")
    ]
    for text in texts[:12] + texts[20::3]:
        PREPARER.prepare(text, KINDS)
        assert PREPARER.prepare(text, KINDS) == Preparer().prepare(text, KINDS)


def test_registered_functions_are_known_by_name() -> None:
    twice = Function("twice", ("double",), "double", lambda x: x)
    preparer = Preparer(functions={"twice": twice})
    assert preparer.prepare("SELECT twice(x) FROM alpha", KINDS).template.functions == ("twice",)
    with pytest.raises(QueryRefused, match="no function 'twice'"):
        PREPARER.prepare("SELECT twice(x) FROM alpha", KINDS)


WORDS = (
    "SELECT FROM WHERE GROUP BY HAVING JOIN ON AND OR NOT IN IS NULL LIKE BETWEEN CASE WHEN THEN END CAST AS alpha beta x city n time "
    "count( sum( avg( TUMBLE( HOP( LAST ROWS INTERVAL '1 minute' '10 seconds' 5 0.5 1e9 'a' '' ' \" ( ) , . * + - / % = <> < > || ; -- /* */ "
    "read_csv( ATTACH COPY PRAGMA SET VALUES UNION WITH RECURSIVE $1 ? :a @x [ ] { } \\ \x00 é 🦆 :: -> => :: !"
).split(" ")


def settle(text) -> bool:
    """Prepare a text: taken, or refused by name; anything else is a fault."""
    try:
        PREPARER.prepare(text, KINDS)
    except QueryRefused as refusal:
        found = refusal
    else:
        return True
    assert found.reason
    assert min(found.line, found.column) >= 1
    return False


@settings(max_examples=150)
@given(st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join))
def test_any_words_end_in_a_named_refusal(text) -> None:
    settle(text)


@settings(max_examples=40)
@given(st.text(max_size=60))
def test_any_text_ends_in_a_named_refusal(text) -> None:
    settle(text)


def mutated(rng):
    text = rng.choice(TAKEN)
    for _ in range(rng.randint(1, 4)):
        at, size = rng.randrange(len(text) + 1), rng.randint(0, 8)
        piece = rng.choice([rng.choice(WORDS), rng.choice(TAKEN)[:size], "", chr(rng.randrange(1, 0x2FF))])
        text = text[:at] + piece + text[at + rng.choice([0, 0, 1, size]) :]
    return text


def mutants(seed, count):
    rng = random.Random(seed)
    return sum(settle(mutated(rng)) for _ in range(count))


def test_hundreds_of_broken_queries_end_in_a_named_refusal() -> None:
    assert mutants(1, 300) > 10, "some must still be taken, or this tests the parser alone"


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2, 10))
def test_thousands_of_broken_queries_end_in_a_named_refusal(seed) -> None:
    assert mutants(seed, 2000) > 50


EXPRESSIONS = st.recursive(
    st.sampled_from(["x", "n", "2", "0.5", "-1", "length(city)"]),
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "% 3 +", "<", "=", ">=", "<>"]), inner).map(" ".join)
    | inner.map(lambda e: f"NOT {e} > 1") | inner.map(lambda e: f"- {e}") | inner.map(lambda e: f"{e} BETWEEN 0 AND 2")
    | st.tuples(inner, inner).map(lambda p: f"{p[0]} > 1 AND {p[1]} < 2 OR n = 3") | inner.map(lambda e: f"CASE WHEN {e} > 0 THEN 1 END")
    | inner.map(lambda e: f"{e} || city") | inner.map(lambda e: f"{e} IN (1, 2)") | inner.map(lambda e: f"{e} IS NULL"),
    max_leaves=5,
)  # fmt: skip


@settings(max_examples=60)
@given(EXPRESSIONS)
def test_what_is_taken_is_read_as_duckdb_reads_it(expression) -> None:
    """Without parentheses: operators bind as they do in the engine's own reading."""
    text = f"SELECT {expression} FROM alpha"
    rows = rows_of(np.random.default_rng(5), 30)
    server = Server()
    try:
        server.add(1, text)
        server.feed(rows)
    except (QueryRefused, QueryFailed):
        return
    # Numbers with a point are doubles here, which is what their scientific form is there.
    plain = text.replace("0.5", "5e-1")
    assert server.answers().get(1, {}) == asked(plain, alpha=named(rows, 0))
