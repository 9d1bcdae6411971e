"""The engine is locked in, and what goes wrong in it has one name."""

import pyarrow as pa
import pytest

from headgate.errors import ConfigError, QueryFailed
from headgate.sql.engine import Engine, Function


@pytest.fixture(scope="module")
def engine():
    made = Engine(memory="64MB")
    yield made
    made.close()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/*')",
        "COPY (SELECT 1) TO '/tmp/headgate-never.csv'",
        "ATTACH '/tmp/headgate-never.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 8",
        "SET enable_external_access = true",
        "SELECT * FROM engine",
        "SELECT * FROM read_parquet('http://127.0.0.1:1/x.parquet')",
    ],
)
def test_it_reaches_nothing_outside(engine, statement) -> None:
    with pytest.raises(QueryFailed):
        engine.ask(statement)


def test_it_has_bounded_memory(engine) -> None:
    with pytest.raises(QueryFailed, match=r"(?i)memory"):
        engine.ask("SELECT repeat('x', 1000) || range AS y FROM range(1000000) ORDER BY hash(range)")


def test_tables_are_seen_by_name_and_only_those(engine) -> None:
    found = engine.ask("SELECT sum(x) AS total FROM given", given=pa.table({"x": [1, 2, 3]}))
    assert found.column("total").to_pylist() == [6]


def test_functions_are_vectorised_and_typed() -> None:
    double = Function("twice", ("bigint",), "bigint", lambda x: pa.compute.multiply(x, 2))
    engine = Engine({"twice": double})
    assert engine.ask("SELECT twice(x) AS y FROM t", t=pa.table({"x": [1, 2]})).column("y").to_pylist() == [
        2,
        4,
    ]
    engine.close()
    wrong: list[tuple[str, tuple[str, ...], str]] = [
        ("Twice", ("bigint",), "bigint"),
        ("f", ("money",), "bigint"),
        ("f", (), "list"),
    ]
    for name, arguments, returns in wrong:
        with pytest.raises(ConfigError):
            Function(name, arguments, returns, lambda x: x)
