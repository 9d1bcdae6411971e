"""`sinks.Iceberg` without Spark, with a catalog in SQLite: each batch once, whatever dies; upserts; the table's own rules."""

import itertools
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from glob import glob
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.stage.staged import (
    COUNTED,
    SCHEMA,
    STAGE_STEPS,
    Staged,
    again,
    evolved,
    killed_everywhere,
    killed_in_any_stage,
    published_meanwhile,
)

import headgate as hg
from headgate.errors import CheckpointMismatch, ConfigError, CorruptState, UnsupportedType
from headgate.storage import iceberg_compact, iceberg_table
from headgate.storage.parquet_folder import Owner

catalogs = pytest.importorskip("pyiceberg.catalog")
STEPS = ("open", "_create", "_add_columns", "_adopt", "_append", "_upsert", "_commit", "_rows")
KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "upsert": {"mode": "upsert", "key": "k"},
    "partitioned": {"partition_by": "k"},
}


@pytest.fixture
def catalog(tmp_path) -> Iterator[Any]:
    (tmp_path / "lake").mkdir()
    made = catalogs.load_catalog(
        "test", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/lake"
    )
    yield made
    made.close()


@pytest.fixture
def staged(tmp_path):
    return Staged(tmp_path / "checkpoint")


def pairs(catalog: Any, table: str = "shop.t") -> list[tuple[Any, Any]]:
    rows = catalog.load_table(table).scan().to_arrow().to_pylist()
    return sorted(((row["k"], row["n"]) for row in rows), key=str)


def test_batches_are_appended_and_their_files_adopted_as_they_are(staged, catalog) -> None:
    sink = hg.sinks.Iceberg("shop.t", catalog=catalog)
    staged.start(sink)
    sink.publish(staged.add([{"k": 1, "n": 1}, {"k": 2, "n": 5}], [{"k": 3, "n": 7}]))
    sink.publish(staged.add([{"k": 1, "n": 2}]))
    assert pairs(catalog) == [(1, 1), (1, 2), (2, 5), (3, 7)]
    table = catalog.load_table("shop.t")
    files = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    written = {
        os.stat(staged.store.path(file.name)).st_ino for batch in staged.outputs for file in batch.files
    }
    assert {os.stat(file).st_ino for file in files} == written
    assert table.properties["headgate/4be35ea6"] == "1"
    assert table.current_snapshot().summary["headgate.batch"] == "1"


def test_publishing_twice_changes_nothing(staged, catalog) -> None:
    sink = hg.sinks.Iceberg("shop.t", catalog=catalog)
    staged.start(sink)
    for number in range(3):
        output = staged.add([{"k": number, "n": 1}])
        sink.publish(output)
        sink.publish(again(output))
        staged.start(hg.sinks.Iceberg("shop.t", catalog=catalog))
    sink.publish(staged.add())
    assert pairs(catalog) == [(0, 1), (1, 1), (2, 1)]
    assert len(catalog.load_table("shop.t").snapshots()) == 4
    assert catalog.load_table("shop.t").properties["headgate/4be35ea6"] == "3"


@pytest.mark.parametrize("kind", KINDS)
def test_a_driver_that_dies_between_any_two_steps_loses_and_repeats_nothing(kind, catalog, tmp_path) -> None:
    expected = [(1, 2), (2, 1)] if kind == "upsert" else [(1, 1), (1, 2), (2, 1)]

    def check(at: int) -> None:
        assert pairs(catalog, f"shop.t{at}") == expected, f"killed at step {at}"

    def make(at: int) -> hg.sinks.Iceberg:
        return hg.sinks.Iceberg(f"shop.t{at}", catalog=catalog, **KINDS[kind])

    steps = killed_everywhere(make, lambda sink: {sink._table: STEPS}, tmp_path, check)
    assert steps >= 8


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [*STEPS, "_change"])
def test_two_drivers_publish_the_same_batch_once(kind, step, staged, catalog) -> None:
    first, second = (hg.sinks.Iceberg("shop.t", catalog=catalog, **KINDS[kind]) for _ in range(2))
    expected = published_meanwhile(staged, first, second, step)
    assert pairs(catalog) == expected


KEYED = st.tuples(
    st.one_of(st.none(), st.integers(0, 4)),
    st.one_of(st.none(), st.text("ab", max_size=1)),
    st.integers(0, 9),
)
NUMBERS = itertools.count()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(
    batches=st.lists(st.lists(KEYED, max_size=5), min_size=1, max_size=3), listed=st.sampled_from([1, 1000])
)
def test_an_upsert_by_two_columns_is_what_a_dict_is(batches, listed, catalog, tmp_path_factory) -> None:
    schema = pa.schema([("k", pa.int64()), ("name", pa.string()), ("n", pa.int64())])
    table = f"shop.h{next(NUMBERS)}"
    staged = Staged(tmp_path_factory.mktemp("c"), schema)
    state: dict[Any, int] = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(iceberg_table, "LISTED", listed)
        sink = hg.sinks.Iceberg(table, catalog=catalog, mode="upsert", key=["k", "name"])
        staged.start(sink)
        for rows in batches:
            sink.publish(
                staged.add(*([[{"k": k, "name": name, "n": n} for k, name, n in rows]] if rows else []))
            )
            state.update({(k, name): n for k, name, n in rows})
    found = [tuple(row.values()) for row in catalog.load_table(table).scan().to_arrow().to_pylist()]
    assert sorted(found, key=str) == sorted(((*key, n) for key, n in state.items()), key=str)


def test_a_table_may_have_other_writers(staged, catalog, tmp_path) -> None:
    catalog.create_namespace("shop")
    catalog.create_table("shop.t", SCHEMA).append(pa.table({"k": [100], "n": [1]}, schema=SCHEMA))
    other = Staged(tmp_path / "other", stage="0123abcd")
    one, two = (hg.sinks.Iceberg("shop.t", catalog=catalog) for _ in range(2))
    staged.start(one)
    other.start(two)
    one.publish(staged.add([{"k": 1, "n": 1}]))
    two.publish(other.add([{"k": 2, "n": 1}]))
    catalog.load_table("shop.t").append(pa.table({"k": [101], "n": [1]}, schema=SCHEMA))
    one.publish(staged.add([{"k": 3, "n": 1}]))
    assert [k for k, _ in pairs(catalog)] == [1, 100, 101, 2, 3]


def test_what_does_not_belong_together_is_refused(staged, catalog) -> None:
    sink = hg.sinks.Iceberg("shop.t", catalog=catalog)
    staged.start(sink)
    for number in range(3):
        sink.publish(staged.add([{"k": number, "n": 1}]))
    with pytest.raises(CheckpointMismatch, match="checkpoint is older than the table"):
        hg.sinks.Iceberg("shop.t", catalog=catalog).own(staged.owner, 1)
    with pytest.raises(CheckpointMismatch, match=r"no batch of .*first_batch=3"):
        staged.start(hg.sinks.Iceberg("shop.elsewhere", catalog=catalog))
    with pytest.raises(CheckpointMismatch, match="deleted or replaced"):
        hg.sinks.Iceberg("shop.t", catalog=catalog).own(Owner("ffffffff", staged.owner.checkpoint))
    staged.start(hg.sinks.Iceberg("shop.elsewhere", catalog=catalog, first_batch=2))
    assert pairs(catalog, "shop.elsewhere") == [(2, 1)]
    catalog.drop_table("shop.t")
    with pytest.raises(CheckpointMismatch, match="does not know the stage"):
        sink.publish(staged.add([{"k": 3, "n": 1}]))


def test_damaged_output_that_waits_is_never_published(staged, catalog) -> None:
    staged.start(hg.sinks.Iceberg("shop.t", catalog=catalog))
    output = staged.add([{"k": 1, "n": 1}])
    name = output.files[0].name
    data = bytearray(staged.store.read(name))
    data[10] ^= 1
    staged.store.replace(name, bytes(data))
    with pytest.raises(CorruptState, match="is damaged"):
        staged.start(hg.sinks.Iceberg("shop.t", catalog=catalog))
    assert pairs(catalog) == []


def test_columns_that_the_table_cannot_take_are_refused_before_the_first_batch(catalog) -> None:
    catalog.create_namespace("shop")
    catalog.create_table(
        "shop.t", pa.schema([pa.field("k", pa.string()), pa.field("x", pa.int64(), nullable=False)])
    )
    with pytest.raises(
        UnsupportedType,
        match=r"column 'k' of the Iceberg table shop.t .* string, and that of the output int64",
    ):
        hg.sinks.Iceberg("shop.t", catalog=catalog).check_columns(SCHEMA)
    with pytest.raises(UnsupportedType, match="requires a value in the column 'x'"):
        hg.sinks.Iceberg("shop.t", catalog=catalog).check_columns(pa.schema([("k", pa.string())]))
    with pytest.raises(UnsupportedType, match="cannot hold"):
        hg.sinks.Iceberg("shop.n", catalog=catalog).check_columns(pa.schema([("k", pa.duration("us"))]))
    with pytest.raises(ConfigError, match=r"cannot be opened.*pyiceberg\.yaml"):
        hg.sinks.Iceberg("shop.t", catalog="nowhere")


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_the_table_lacks_is_added(kind, staged, catalog) -> None:
    expected = evolved(staged, lambda: hg.sinks.Iceberg("shop.t", catalog=catalog, **KINDS[kind]))
    assert catalog.load_table("shop.t").scan().to_arrow().sort_by("k").to_pylist() == expected


@pytest.mark.parametrize("how", ["renamed", "dropped"])
def test_a_column_does_not_take_the_values_of_one_that_had_its_name(how, staged, catalog) -> None:
    sink = hg.sinks.Iceberg("shop.t", catalog=catalog)
    staged.start(sink)
    sink.publish(staged.add([{"k": 1, "n": 1}]))
    with catalog.load_table("shop.t").update_schema(allow_incompatible_changes=True) as change:
        if how == "renamed":
            change.rename_column("n", "old")
        else:
            change.delete_column("n")
    with pytest.raises(ConfigError, match="had a column 'n', which was renamed or dropped"):
        hg.sinks.Iceberg("shop.t", catalog=catalog).check_columns(SCHEMA)
    with pytest.raises(ConfigError, match="had a column 'n'"):
        sink.publish(staged.add([{"k": 2, "n": 2}]))


@pytest.mark.parametrize("kind", ["append", "upsert"])
def test_duckdb_reads_the_files_that_the_table_names(kind, staged, catalog) -> None:
    sink = hg.sinks.Iceberg("shop.t", catalog=catalog, **KINDS[kind])
    staged.start(sink)
    for number in range(3):
        sink.publish(staged.add([{"k": 1, "n": number}, {"k": 2 + number, "n": 0}]))
    files = [task.file.file_path for task in catalog.load_table("shop.t").scan().plan_files()]
    rows = duckdb.read_parquet([file.removeprefix("file://") for file in files]).project("k, n").fetchall()
    assert sorted(rows) == pairs(catalog)


def test_every_type_comes_back(catalog, tmp_path) -> None:
    schema = pa.schema(
        [("k", pa.int64()), ("i", pa.int32()), ("f", pa.float32()), ("d", pa.float64()), ("t", pa.string()), ("y", pa.binary()),
         ("o", pa.bool_()), ("day", pa.date32()), ("at", pa.timestamp("us", "UTC")), ("ntz", pa.timestamp("us")),
         ("money", pa.decimal128(9, 2)), ("l", pa.list_(pa.int64())), ("m", pa.map_(pa.string(), pa.int64())),
         ("r", pa.struct([("x", pa.int64())]))]
    )  # fmt: skip
    row = {"k": 1, "i": 2, "f": 0.5, "d": float("nan"), "t": "ä", "y": b"\0", "o": True, "day": date(2026, 1, 2),
           "at": datetime(2026, 1, 1, 12, 0, 0, 1, UTC), "ntz": datetime(2026, 1, 1, 12, 0, 0, 999_999), "money": Decimal("1.25"),
           "l": [1, None], "m": [("a", 1)], "r": {"x": None}}  # fmt: skip
    for kind, options in KINDS.items():
        for small in (False, True):
            columns = schema.append(pa.field("s", pa.int16())) if small else schema
            one = {**row, "s": 3} if small else row
            expected = pa.Table.from_pylist([one], schema=columns).to_pylist()[0]
            staged, table = Staged(tmp_path / f"{kind}{small}", columns), f"shop.{kind}{small}"
            sink = hg.sinks.Iceberg(table, catalog=catalog, **options)
            staged.start(sink)
            sink.publish(staged.add([one, dict.fromkeys(columns.names)]))
            staged.start(hg.sinks.Iceberg(table, catalog=catalog, **options))
            found = catalog.load_table(table).scan().to_arrow().sort_by("k").to_pylist()
            assert str(found[0]) == str(expected)
            assert set(found[1].values()) == {None}


def test_properties_and_partitions_are_kept(staged, catalog) -> None:
    options: dict[str, Any] = {
        "partition_by": "k",
        "properties": {"write.metadata.delete-after-commit.enabled": "true"},
    }
    sink = hg.sinks.Iceberg("shop.t", catalog=catalog, **options)
    staged.start(sink)
    sink.publish(staged.add([{"k": 1, "n": 1}, {"k": 2, "n": 1}]))
    table = catalog.load_table("shop.t")
    assert table.properties["write.metadata.delete-after-commit.enabled"] == "true"
    assert "commit.retry.num-retries" not in table.properties
    assert [(field.name, str(field.transform)) for field in table.spec().fields] == [("k", "identity")]
    assert sorted(task.file.partition[0] for task in table.scan().plan_files()) == [1, 2]
    with pytest.raises(ConfigError, match=r"is partitioned by \['k'\], and not by \['n'\]"):
        hg.sinks.Iceberg("shop.t", catalog=catalog, partition_by="n").check_columns(SCHEMA)


@pytest.mark.parametrize("kind", ["append", "partitioned"])
def test_a_compaction_changes_no_row(kind, staged, catalog) -> None:
    sink = hg.sinks.Iceberg("shop.t", catalog=catalog, **KINDS[kind])
    staged.start(sink)
    for number in range(6):
        sink.publish(staged.add([{"k": number % 2, "n": number}]))
    before, left = pairs(catalog), 2 if kind == "partitioned" else 1
    assert sink.compact() == {"numFilesAdded": left, "numFilesRemoved": 6}
    table = catalog.load_table("shop.t")
    assert len(list(table.scan().plan_files())) == left
    assert table.current_snapshot().summary.operation.value == "replace"
    assert table.current_snapshot().summary["total-records"] == "6"
    assert pairs(catalog) == before
    assert sink.compact() == {"numFilesAdded": 0, "numFilesRemoved": 0}
    staged.start(hg.sinks.Iceberg("shop.t", catalog=catalog, **KINDS[kind]))
    sink.publish(staged.add([{"k": 6, "n": 6}]))
    assert pairs(catalog) == sorted([*before, (6, 6)], key=str)
    with pytest.raises(ConfigError, match="does not exist"):
        hg.sinks.Iceberg("shop.none", catalog=catalog).compact()


@pytest.mark.parametrize("kind", ["append", "upsert"])
def test_a_batch_that_comes_during_a_compaction_is_kept(kind, staged, catalog) -> None:
    """One that is appended leaves the old files; one that is upserted rewrites them."""
    sink = hg.sinks.Iceberg("shop.t", catalog=catalog, **KINDS[kind])
    staged.start(sink)
    for number in range(3):
        sink.publish(staged.add([{"k": number, "n": 1}]))
    original, calls = iceberg_compact.Compaction._replace, itertools.count()

    def meanwhile(*args: Any) -> None:
        if next(calls) == 0:
            sink.publish(staged.add([{"k": 1, "n": 9}]))
        original(*args)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(iceberg_compact.Compaction, "_replace", meanwhile)
        sink.compact()
    assert pairs(catalog) == (
        [(0, 1), (1, 9), (2, 1)] if kind == "upsert" else [(0, 1), (1, 1), (1, 9), (2, 1)]
    )
    written = {
        os.path.basename(path)
        for path in glob(f"{catalog.properties['warehouse'][7:]}/**/*.parquet", recursive=True)
    }
    listed = catalog.load_table("shop.t").inspect.all_data_files().column("file_path").to_pylist()
    named = {os.path.basename(path) for path in listed}
    assert written == named, "files that no snapshot names were left behind"


@pytest.mark.parametrize("step", STAGE_STEPS)
def test_a_stage_killed_at_any_step_writes_each_batch_once(step, catalog, tmp_path) -> None:
    killed_in_any_stage(
        lambda: hg.sinks.Iceberg("shop.t", catalog=catalog, mode="upsert", key="k"), tmp_path, step
    )
    assert pairs(catalog) == COUNTED


def test_a_table_that_is_gone_with_its_files_is_named(staged, catalog, tmp_path) -> None:
    sink = hg.sinks.Iceberg("shop.t", catalog=catalog)
    staged.start(sink)
    sink.publish(staged.add([{"k": 1, "n": 1}]))
    shutil.rmtree(tmp_path / "lake")
    with pytest.raises(ConfigError, match=r"the Iceberg table shop.t cannot be read"):
        staged.start(hg.sinks.Iceberg("shop.t", catalog=catalog))
