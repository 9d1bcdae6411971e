"""LIKE as plain DuckDB has it, and no pattern for which it takes long."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from tests.sql.world import KINDS, PREPARER, Server, at_seconds

from headgate.errors import QueryFailed
from headgate.sql.engine import Engine
from headgate.sql.like import like, like_arrays


def test_it_is_the_like_of_duckdb() -> None:
    rng = np.random.default_rng(1)
    letters = list("ab%_ä\n.\\")
    texts = ["".join(rng.choice(letters, rng.integers(0, 9))) for _ in range(4_000)]
    patterns = ["".join(rng.choice(letters[:5], rng.integers(0, 7))) for _ in range(4_000)]
    patterns[:40] = ["", "%", "_", "%%", "_%", "%_", "a%a", "%a%"] * 5
    table = pa.table({"t": texts, "p": patterns})
    with duckdb.connect() as plain:
        plain.register("rows", table)
        expected = [row[0] for row in plain.execute("SELECT t LIKE p FROM rows").fetchall()]
    assert [like(t, p) for t, p in zip(texts, patterns, strict=True)] == expected
    assert 200 < sum(expected) < 3_800


@pytest.mark.parametrize("condition", ["city LIKE 'a%'", "city LIKE 'a%a%a'", "lower(city) LIKE '%A%'", "city ILIKE '%A%a%A'",
                                       "city NOT LIKE 'a%a%a'", "city LIKE upper('a%') || '%a'", "city LIKE city"])  # fmt: skip
def test_queries_with_like(condition) -> None:
    server = Server()
    server.add(0, f"SELECT city FROM alpha WHERE {condition}")
    rows = at_seconds(*[(0, second) for second in range(6)])
    cities = ["a", "abaca", "ABACA", None, "", "a%a%a"]
    rows = rows.set_column(3, "v0", pa.array(cities))
    server.feed(rows)
    with duckdb.connect() as plain:
        plain.register("alpha", pa.table({"city": cities}))
        expected = plain.execute(f"SELECT city FROM alpha WHERE {condition}").fetchall()
    found = server.answers().get(0, {})
    assert sorted(map(str, found)) == sorted(map(str, set(expected)))


def test_a_pattern_that_backtracks_takes_no_time() -> None:
    assert not like("a" * 10_000, "%a" * 2_000 + "%b")
    server = Server()
    server.add(0, f"SELECT x FROM alpha WHERE city LIKE '{'%a' * 30}%b'")
    rows = at_seconds(*[(0, second) for second in range(100)])
    server.feed(rows.set_column(3, "v0", pa.array(["a" * 10_000] * 100)))
    assert server.answers() == {}


def test_a_nested_like_makes_no_longer_statement_than_its_text() -> None:
    text = "city"
    for _ in range(20):
        text = f"CAST({text} LIKE city AS VARCHAR)"
    prepared = PREPARER.prepare(f"SELECT {text} FROM alpha", KINDS)
    assert len(prepared.template.outputs[0]) < 3_000


def test_it_stops_when_it_is_interrupted() -> None:
    with pytest.raises(RuntimeError, match="interrupted"):
        like_arrays(lambda: True)(pa.array(["a"]), pa.array(["%"]))
    engine = Engine()
    engine.interrupt()
    assert engine.ask("SELECT hg_like('abc', 'a%') AS a").to_pylist() == [{"a": True}]
    with pytest.raises(QueryFailed):
        engine.ask("SELECT nothing")
    engine.close()
