"""Direct streams into and out of tables, on Spark: Delta, Iceberg, SQLite and PostgreSQL. DuckDB reads lakehouse tables back."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.databases import database, postgres

import headgate as hg
from headgate import agg

__all__ = ["database", "postgres"]
SCHEMA = pa.schema([("user", pa.int64()), ("amount", pa.float64())])


@pytest.fixture
def catalog(tmp_path) -> Iterator[Any]:
    catalogs = pytest.importorskip("pyiceberg.catalog")
    made = catalogs.load_catalog(
        "test", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/lake"
    )
    yield made
    made.close()


def run_in_three_parts(spark: Any, sink: Any, folder: Any) -> dict[int, tuple[int, float]]:
    """A query that is stopped and started again; the answer for each user."""
    source = hg.sources.Rows(schema=SCHEMA)
    stream = hg.read(spark).source(source).key_by("user").aggregate(n=agg.count(), total=agg.sum("amount"))
    count, total = Counter[int](), Counter[int]()
    for part in range(3):
        rows = [(user, float(part + 1)) for user in range(part, part + 50)]
        source.add(rows)
        for user, amount in rows:
            count[user] += 1
            total[user] += int(amount)
        query = stream.write(sink()).start(str(folder / "checkpoint"), available_now=True, max_rows=20)
        query.await_end()
    return {user: (count[user], float(total[user])) for user in count}


def as_dict(rows: list[tuple[int, int, float]]) -> dict[int, tuple[int, float]]:
    assert len({user for user, *_ in rows}) == len(rows)
    return {user: (n, total) for user, n, total in rows}


def test_an_aggregate_in_a_delta_table_is_the_current_state(spark, tmp_path) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "users")
    expected = run_in_three_parts(
        spark, lambda: hg.sinks.Delta(path, mode="upsert", key="user"), tmp_path / "upsert"
    )
    users = deltalake.DeltaTable(path).to_pyarrow_dataset()  # noqa: F841 - DuckDB finds it
    assert as_dict(duckdb.sql('SELECT "user", n, total FROM users').fetchall()) == expected
    history_path = str(tmp_path / "history")
    run_in_three_parts(spark, lambda: hg.sinks.Delta(history_path), tmp_path / "append")
    history = deltalake.DeltaTable(history_path).to_pyarrow_dataset()  # noqa: F841 - DuckDB finds it
    newest = 'SELECT "user", max(n), max(total) FROM history GROUP BY ALL'
    assert as_dict(duckdb.sql(newest).fetchall()) == expected

    sink = hg.sinks.Memory()
    read = hg.read(spark).delta(history_path).key_by("user").aggregate(n=agg.max("n"), total=agg.max("total"))
    read.write(sink).start(str(tmp_path / "read"), available_now=True).await_end()
    assert {key: (row["n"], row["total"]) for (key,), row in sink.latest("user").items()} == expected


def test_an_aggregate_in_an_iceberg_table_is_the_current_state(spark, catalog, tmp_path) -> None:
    expected = run_in_three_parts(
        spark,
        lambda: hg.sinks.Iceberg("shop.users", catalog=catalog, mode="upsert", key="user"),
        tmp_path / "upsert",
    )
    users = catalog.load_table("shop.users").scan().to_arrow()  # noqa: F841 - DuckDB finds it
    assert as_dict(duckdb.sql('SELECT "user", n, total FROM users').fetchall()) == expected
    run_in_three_parts(spark, lambda: hg.sinks.Iceberg("shop.history", catalog=catalog), tmp_path / "append")

    sink = hg.sinks.Memory()
    stream = hg.read(spark).iceberg("shop.history", catalog=catalog)
    read = stream.key_by("user").aggregate(n=agg.max("n"), total=agg.max("total"))
    read.write(sink).start(str(tmp_path / "read"), available_now=True).await_end()
    assert {key: (row["n"], row["total"]) for (key,), row in sink.latest("user").items()} == expected


def test_an_aggregate_in_a_database_is_the_current_state(spark, database, tmp_path) -> None:
    expected = run_in_three_parts(
        spark, lambda: hg.sinks.Table(database.url, "users", mode="upsert", key="user"), tmp_path
    )
    assert as_dict(database.run('SELECT "user", n, total FROM users')) == expected


@pytest.mark.classic
def test_a_bounded_step_goes_to_a_table_too(spark, tmp_path) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "bounded")
    step = hg.bounded(spark.range(20), lambda df: df.selectExpr("id", "id * 2 AS twice"), batch=5)
    step.to(hg.sinks.Delta(path))
    rows = deltalake.DeltaTable(path).to_pyarrow_dataset().to_table().to_pylist()
    assert sorted((row["id"], row["twice"]) for row in rows) == [(i, 2 * i) for i in range(20)]


def test_a_table_in_the_input_folder_is_refused(spark, tmp_path) -> None:
    pytest.importorskip("deltalake")
    (tmp_path / "in").mkdir()
    stream = (
        hg.read(spark).files(str(tmp_path / "in"), schema="user long").key_by("user").aggregate(n=agg.count())
    )
    with pytest.raises(hg.errors.ConfigError, match=r"the output .* lies in the input"):
        stream.write(hg.sinks.Delta(str(tmp_path / "in" / "t"))).start(
            str(tmp_path / "c"), available_now=True
        )
