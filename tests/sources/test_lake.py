"""Delta and Iceberg tables as sources, without Spark: every row once, in the order of commits, across restarts."""

import pickle
from collections.abc import Iterator
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.errors import ConfigError, SourceFailed
from headgate.sources.source import Demand
from headgate.storage.store import Store

deltalake = pytest.importorskip("deltalake")
catalogs = pytest.importorskip("pyiceberg.catalog")
SCHEMA = pa.schema([("k", pa.int64())])


def rows_of(*keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64())})


class DeltaLake:
    """A Delta table that a test writes."""

    def __init__(self, folder: Any) -> None:
        self.path = str(folder / "t")
        deltalake.DeltaTable.create(self.path, deltalake.Schema.from_arrow(SCHEMA))

    def append(self, rows: pa.Table) -> None:
        deltalake.write_deltalake(self.path, rows, mode="append", schema_mode="merge")

    def delete(self) -> None:
        deltalake.DeltaTable(self.path).delete("k = 1")

    def compact(self) -> None:
        deltalake.DeltaTable(self.path).optimize.compact()

    def source(self, **options: Any) -> hg.sources.Source:
        return hg.sources.Delta(self.path, **options)

    def close(self) -> None:
        return None


class IcebergLake:
    """An Iceberg table that a test writes."""

    def __init__(self, folder: Any) -> None:
        (folder / "lake").mkdir()
        self.catalog = catalogs.load_catalog(
            "test", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/lake"
        )
        self.catalog.create_namespace("shop")
        self.table = self.catalog.create_table("shop.t", SCHEMA)

    def append(self, rows: pa.Table) -> None:
        if rows.schema.names != self.table.schema().column_names:
            with self.table.update_schema() as change:
                change.union_by_name(rows.schema)
        self.table.append(rows)

    def delete(self) -> None:
        self.table.delete("k = 1")

    def compact(self) -> None:
        hg.sinks.Iceberg("shop.t", catalog=self.catalog).compact()
        self.table.refresh()

    def source(self, **options: Any) -> hg.sources.Source:
        return hg.sources.Iceberg("shop.t", catalog=self.catalog, **options)

    def close(self) -> None:
        self.catalog.close()


@pytest.fixture(params=[DeltaLake, IcebergLake])
def lake(request, tmp_path) -> Iterator[Any]:
    made = request.param(tmp_path)
    yield made
    made.close()


class Reader:
    """A query that reads a source, and may be restarted."""

    def __init__(self, lake: Any, folder: Any, **options: Any) -> None:
        self.lake, self.store, self.options = lake, Store(str(folder)), options
        self.offset: Any = None
        self.rows: list[Any] = []
        self.start()

    def start(self) -> None:
        self.source = self.lake.source(**self.options).fresh()
        self.source.recall(self.store)
        self.source.check()
        self.source.open(self.store)

    def batch(self, rows: int = 1_000_000, tasks: int = 2) -> bool:
        """Read one batch, and say whether the source has more."""
        planned = self.source.plan(self.offset, Demand(rows=rows, tasks=tasks))
        there = pickle.loads(pickle.dumps(self.source))
        for part in planned.ranges:
            for batch in there.read(part.what):
                assert batch.schema.names == self.source.schema().names
                self.rows += [tuple(row.values()) if len(row) > 1 else row["k"] for row in batch.to_pylist()]
        self.offset = planned.offset
        return planned.more


def test_the_table_and_then_its_new_commits_are_read(lake, tmp_path) -> None:
    lake.append(rows_of(1, 2))
    lake.append(rows_of(3))
    reader = Reader(lake, tmp_path / "c")
    assert not reader.batch()
    assert sorted(reader.rows) == [1, 2, 3]
    before = reader.offset
    assert not reader.batch()
    assert (reader.offset, len(reader.rows)) == (before, 3)
    lake.append(rows_of(4))
    lake.append(rows_of(5, 6))
    reader.start()
    reader.batch()
    assert reader.rows[3:] == [4, 5, 6]


def test_an_empty_table_is_waited_for(lake, tmp_path) -> None:
    reader = Reader(lake, tmp_path / "c")
    assert not reader.batch()
    assert reader.offset is None
    lake.append(rows_of(1))
    reader.batch()
    assert reader.rows == [1]


def test_a_small_demand_takes_one_file_at_a_time(lake, tmp_path) -> None:
    for key in range(4):
        lake.append(rows_of(key))
    reader = Reader(lake, tmp_path / "c")
    more = True
    for taken in range(1, 5):
        assert more
        more = reader.batch(rows=1)
        assert len(reader.rows) == taken
        reader.start()
    lake.append(rows_of(4))
    lake.append(rows_of(5))
    assert reader.batch(rows=1)
    assert not reader.batch(rows=1)
    assert sorted(reader.rows) == list(range(6))


def test_only_new_rows_are_read_if_that_is_asked_for(lake, tmp_path) -> None:
    lake.append(rows_of(1))
    reader = Reader(lake, tmp_path / "c", only_new=True)
    reader.batch()
    lake.append(rows_of(2))
    reader.start()  # it was stopped before it read anything
    reader.batch()
    assert reader.rows == [2]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(steps=st.lists(st.sampled_from(["append", "compact", "read", "read one", "restart"]), max_size=12))
def test_any_history_gives_each_row_once_in_order(steps, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("lake")
    for kind in (DeltaLake, IcebergLake):
        lake = kind(folder)
        reader, written = Reader(lake, folder / kind.__name__), 0
        for step in [*steps, "read", "read"]:
            if step == "append":
                lake.append(rows_of(written, written + 1))
                written += 2
            elif step == "compact":
                lake.compact()
            elif step == "restart":
                reader.start()
            else:
                reader.batch(rows=1 if step == "read one" else 1000)
        assert sorted(reader.rows) == list(range(written))
        lake.close()


def test_commits_that_change_rows_stop_the_query_or_are_skipped(lake, tmp_path) -> None:
    lake.append(rows_of(1, 2))
    reader, careless = Reader(lake, tmp_path / "c"), Reader(lake, tmp_path / "d", changes="skip")
    reader.batch()
    careless.batch()
    lake.delete()
    lake.append(rows_of(3))
    with pytest.raises(SourceFailed, match=r"cannot be read as new rows.*changes='skip'"):
        reader.batch()
    careless.batch()
    assert sorted(careless.rows) == [1, 2, 3]


def test_new_columns_of_the_table_do_not_disturb_a_query(lake, tmp_path) -> None:
    lake.append(rows_of(1))
    reader = Reader(lake, tmp_path / "c")
    reader.batch()
    before = reader.source.identity()
    lake.append(pa.table({"k": pa.array([2], pa.int64()), "new": ["x"]}))
    reader.start()
    reader.batch()
    assert (reader.rows, reader.source.identity()) == ([1, 2], before)
    other = Reader(lake, tmp_path / "d")
    other.batch()
    assert sorted(other.rows) == [(1, None), (2, "x")]
    assert other.source.identity() != before
    narrow = other.source.only(["new"])
    assert narrow.schema().names == ["new"]


def test_a_table_that_is_not_there_or_is_another_one_is_named(lake, tmp_path) -> None:
    with pytest.raises(ConfigError, match="there is no Delta table"):
        hg.sources.Delta(str(tmp_path / "none")).check()
    with pytest.raises(ConfigError, match="write 'refuse' or 'skip'"):
        lake.source(changes="maybe")


def test_a_replaced_table_has_another_identity(tmp_path) -> None:
    (tmp_path / "a").mkdir()
    one, two = DeltaLake(tmp_path / "a"), DeltaLake(tmp_path)
    assert one.source().identity() != two.source().identity()


def test_a_log_that_was_cleaned_is_named(tmp_path) -> None:
    lake = DeltaLake(tmp_path)
    lake.append(rows_of(1))
    reader = Reader(lake, tmp_path / "c")
    reader.batch()
    for key in range(2, 5):
        lake.append(rows_of(key))
    deltalake.DeltaTable(lake.path).create_checkpoint()
    for version in range(4):
        (tmp_path / "t" / "_delta_log" / f"{version:020d}.json").unlink()
    reader.start()
    with pytest.raises(SourceFailed, match="are not all there any more"):
        reader.batch()


def test_a_snapshot_that_was_expired_is_named(tmp_path) -> None:
    lake = IcebergLake(tmp_path)
    for key in range(3):
        lake.append(rows_of(key))
    reader = Reader(lake, tmp_path / "c")
    reader.offset = [123, -1, False]
    with pytest.raises(SourceFailed, match="are not all there any more"):
        reader.batch()
    lake.close()


def test_a_column_that_was_renamed_is_found_by_its_id(tmp_path) -> None:
    lake = IcebergLake(tmp_path)
    lake.append(pa.table({"k": pa.array([1], pa.int64()), "old": ["x"]}))
    with lake.table.update_schema() as change:
        change.rename_column("old", "fresh")
    reader = Reader(lake, tmp_path / "c")
    reader.batch()
    assert reader.source.schema().names == ["k", "fresh"]
    assert reader.rows == [(1, "x")]
    lake.close()


def test_values_of_partitions_come_from_the_log(tmp_path) -> None:
    path = str(tmp_path / "t")
    rows = pa.table(
        {"k": pa.array([1, 2, 3], pa.int64()), "day": pa.array([date(2026, 1, 1), None, date(2026, 1, 3)])}
    )
    deltalake.write_deltalake(path, rows, partition_by=["day"])
    lake = type("Lake", (), {"source": lambda self, **options: hg.sources.Delta(path, **options)})()
    reader = Reader(lake, tmp_path / "c")
    reader.batch()
    deltalake.write_deltalake(path, rows, mode="append")
    reader.batch()
    assert sorted(reader.rows) == sorted([tuple(row.values()) for row in rows.to_pylist()] * 2)
