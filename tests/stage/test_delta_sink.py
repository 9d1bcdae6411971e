"""`sinks.Delta` without Spark: each batch once, whatever dies; upserts; the table's own rules."""

import os
import shutil
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
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
from headgate.errors import CheckpointMismatch, ConfigError, CorruptState, MissingColumn, UnsupportedType
from headgate.storage.parquet_folder import Owner

deltalake = pytest.importorskip("deltalake")
STEPS = ("open", "_enter", "_add_columns", "_brought", "_commit", "_merge", "_rewrite", "_settle")
KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "upsert": {"mode": "upsert", "key": "k"},
    "partitioned": {"partition_by": "k"},
}


def pairs(path: Any) -> list[tuple[Any, Any]]:
    """The rows of a table, by another reader than the one that wrote them: Arrow's."""
    rows = deltalake.DeltaTable(str(path)).to_pyarrow_dataset().to_table().to_pylist()
    return sorted(((row["k"], row["n"]) for row in rows), key=str)


@pytest.fixture
def staged(tmp_path):
    return Staged(tmp_path / "checkpoint")


def test_batches_are_appended_and_their_files_adopted_as_they_are(staged, tmp_path) -> None:
    sink = hg.sinks.Delta(str(tmp_path / "t"))
    staged.start(sink)
    output = staged.add([{"k": 1, "n": 1}, {"k": 2, "n": 5}], [{"k": 3, "n": 7}])
    sink.publish(output)
    sink.publish(staged.add([{"k": 1, "n": 2}]))
    assert pairs(tmp_path / "t") == [(1, 1), (1, 2), (2, 5), (3, 7)]
    table = deltalake.DeltaTable(str(tmp_path / "t"))
    files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    one = next(file for file in files if file["num_records"] == 2)
    assert (one["min.k"], one["max.k"], one["max.n"], one["null_count.n"]) == (1, 2, 5, 0)
    in_table = {(tmp_path / "t" / file["path"]).stat().st_ino for file in files}
    written = {
        os.stat(staged.store.path(file.name)).st_ino for batch in staged.outputs for file in batch.files
    }
    assert in_table == written
    assert table.transaction_version("headgate/4be35ea6") == 1


def test_publishing_twice_changes_nothing(staged, tmp_path) -> None:
    sink = hg.sinks.Delta(str(tmp_path / "t"))
    staged.start(sink)
    for number in range(3):
        output = staged.add([{"k": number, "n": 1}])
        sink.publish(output)
        sink.publish(again(output))
        staged.start(hg.sinks.Delta(str(tmp_path / "t")))
    assert pairs(tmp_path / "t") == [(0, 1), (1, 1), (2, 1)]
    assert deltalake.DeltaTable(str(tmp_path / "t")).version() == 3


def test_a_batch_without_rows_is_recorded(staged, tmp_path) -> None:
    sink = hg.sinks.Delta(str(tmp_path / "t"))
    staged.start(sink)
    for _ in range(3):
        sink.publish(staged.add())
    staged.start(hg.sinks.Delta(str(tmp_path / "t")))
    assert deltalake.DeltaTable(str(tmp_path / "t")).transaction_version("headgate/4be35ea6") == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_driver_that_dies_between_any_two_steps_loses_and_repeats_nothing(kind, tmp_path) -> None:
    expected = [(1, 2), (2, 1)] if kind == "upsert" else [(1, 1), (1, 2), (2, 1)]

    def check(at: int) -> None:
        assert pairs(tmp_path / f"t-{at}") == expected, f"killed at step {at}"

    def make(at: int) -> hg.sinks.Delta:
        return hg.sinks.Delta(str(tmp_path / f"t-{at}"), **KINDS[kind])

    steps = killed_everywhere(make, lambda sink: {sink._table: STEPS}, tmp_path, check)
    assert steps >= 8


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", STEPS)
def test_two_drivers_publish_the_same_batch_once(kind, step, staged, tmp_path) -> None:
    path = str(tmp_path / "t")
    first, second = (hg.sinks.Delta(path, **KINDS[kind]) for _ in range(2))
    expected = published_meanwhile(staged, first, second, step)
    assert pairs(path) == expected


@given(
    batches=st.lists(
        st.lists(
            st.lists(
                st.tuples(st.one_of(st.none(), st.integers(0, 5)), st.integers(0, 9)), min_size=1, max_size=4
            ),
            max_size=3,
        ),
        min_size=1,
        max_size=4,
    ),
    upsert=st.booleans(),
    twice=st.sets(st.integers(0, 3)),
)
def test_any_batches_give_what_a_plain_list_and_a_dict_give(batches, upsert, twice, tmp_path_factory) -> None:
    """A key has one channel, so a later file of a batch has other keys; here the later one wins."""
    folder = tmp_path_factory.mktemp("delta")
    staged, options = Staged(folder / "c"), KINDS["upsert" if upsert else "append"]
    sink = hg.sinks.Delta(str(folder / "t"), **options)
    staged.start(sink)
    rows: list[tuple[Any, int]] = []
    state: dict[Any, int] = {}
    for number, files in enumerate(batches):
        output = staged.add(*([{"k": k, "n": n} for k, n in file] for file in files))
        sink.publish(output)
        if number in twice:
            sink = hg.sinks.Delta(str(folder / "t"), **options)
            staged.start(sink)
        rows += [pair for file in files for pair in file]
        state.update(pair for file in files for pair in file)
    assert pairs(folder / "t") == sorted(state.items() if upsert else rows, key=str)


PARTS = st.tuples(
    st.none() | st.booleans(), st.none() | st.sampled_from(["", "a", "b"]), st.none() | st.integers(0, 2)
)


@settings(max_examples=20)
@given(
    batches=st.lists(
        st.dictionaries(PARTS, st.integers(0, 99), min_size=1, max_size=6), min_size=1, max_size=4
    )
)
def test_keys_of_several_columns_may_have_a_null_in_any(batches, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("delta")
    kinds = pa.schema([("a", pa.bool_()), ("b", pa.string()), ("c", pa.int64()), ("n", pa.int64())])
    staged = Staged(folder / "c", kinds)
    sink = hg.sinks.Delta(str(folder / "t"), mode="upsert", key=["a", "b", "c"])
    staged.start(sink)
    state: dict[Any, int] = {}
    for rows in batches:
        sink.publish(staged.add([dict(zip("abcn", (*key, n), strict=True)) for key, n in rows.items()]))
        state.update(rows)
    found = deltalake.DeltaTable(str(folder / "t")).to_pyarrow_dataset().to_table().to_pylist()
    assert sorted(map(repr, found)) == sorted(
        repr(dict(zip("abcn", (*key, n), strict=True))) for key, n in state.items()
    )


@pytest.mark.parametrize("kind", ["append", "upsert"])
def test_a_null_for_a_column_that_the_table_never_leaves_null(kind, staged, tmp_path) -> None:
    fields = [pa.field("k", pa.int64()), pa.field("n", pa.int64(), nullable=False)]
    path = str(tmp_path / "t")
    deltalake.DeltaTable.create(path, schema=deltalake.Schema.from_arrow(pa.schema(fields)))
    sink = hg.sinks.Delta(path, **KINDS[kind])
    staged.start(sink)
    sink.publish(staged.add([{"k": 1, "n": 1}]))
    with pytest.raises(Exception, match=r"failed validation check|non-nullable|NOT NULL|not null"):
        sink.publish(staged.add([{"k": 2, "n": None}]))
    assert pairs(path) == [(1, 1)]
    deltalake.DeltaTable(path).optimize.compact()


def test_a_table_may_have_other_writers(staged, tmp_path) -> None:
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, pa.table({"k": [100], "n": [1]}))
    other = Staged(tmp_path / "other", stage="0123abcd")
    one, two = hg.sinks.Delta(path), hg.sinks.Delta(path)
    staged.start(one)
    other.owner = Owner("0123abcd", "file:///checkpoints/others")
    other.start(two)
    one.publish(staged.add([{"k": 1, "n": 1}]))
    two.publish(other.add([{"k": 2, "n": 1}]))
    deltalake.write_deltalake(path, pa.table({"k": [101], "n": [1]}), mode="append")
    one.publish(staged.add([{"k": 3, "n": 1}]))
    assert [k for k, _ in pairs(path)] == [1, 100, 101, 2, 3]


def test_a_compaction_meanwhile_changes_no_row(staged, tmp_path) -> None:
    sink = hg.sinks.Delta(str(tmp_path / "t"))
    staged.start(sink)
    for number in range(6):
        sink.publish(staged.add([{"k": number, "n": 1}]))
    assert sink.compact()["numFilesRemoved"] == 6
    assert len(deltalake.DeltaTable(str(tmp_path / "t")).file_uris()) == 1
    staged.start(hg.sinks.Delta(str(tmp_path / "t")))
    sink.publish(staged.add([{"k": 6, "n": 1}]))
    assert [k for k, _ in pairs(tmp_path / "t")] == list(range(7))
    with pytest.raises(ConfigError, match="does not exist"):
        hg.sinks.Delta(str(tmp_path / "none")).compact()


def test_what_does_not_belong_together_is_refused(staged, tmp_path) -> None:
    path = str(tmp_path / "t")
    sink = hg.sinks.Delta(path)
    staged.start(sink)
    for number in range(3):
        sink.publish(staged.add([{"k": number, "n": 1}]))
    with pytest.raises(CheckpointMismatch, match="checkpoint is older than the table"):
        hg.sinks.Delta(path).own(staged.owner, 1)
    with pytest.raises(CheckpointMismatch, match=r"up to 2.*committed up to batch 5.*first_batch=6"):
        hg.sinks.Delta(path).own(staged.owner, 5)
    elsewhere = hg.sinks.Delta(str(tmp_path / "elsewhere"))
    with pytest.raises(CheckpointMismatch, match=r"no batch.*first_batch=3"):
        elsewhere.own(staged.owner, 2)
    anew = Owner("ffffffff", staged.owner.checkpoint)
    with pytest.raises(CheckpointMismatch, match=r"earlier query with the checkpoint.*deleted or replaced"):
        hg.sinks.Delta(path).own(anew)
    allowed = hg.sinks.Delta(path, first_batch=0)
    allowed.own(anew)
    begun = hg.sinks.Delta(str(tmp_path / "elsewhere"), first_batch=3)
    staged.start(begun)
    begun.publish(staged.add([{"k": 3, "n": 1}]))
    assert pairs(tmp_path / "elsewhere") == [(3, 1)]


def test_a_table_that_is_removed_while_a_query_runs_is_named(staged, tmp_path) -> None:
    sink = hg.sinks.Delta(str(tmp_path / "t"))
    staged.start(sink)
    sink.publish(staged.add([{"k": 1, "n": 1}]))
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(CheckpointMismatch, match=r"does not know the stage.*first_batch=1"):
        sink.publish(staged.add([{"k": 1, "n": 1}]))


def test_damaged_output_that_waits_is_never_published(staged, tmp_path) -> None:
    staged.start(hg.sinks.Delta(str(tmp_path / "t")))
    output = staged.add([{"k": 1, "n": 1}])
    name = output.files[0].name
    data = bytearray(staged.store.read(name))
    data[10] ^= 1
    staged.store.replace(name, bytes(data))
    with pytest.raises(CorruptState, match="is damaged"):
        staged.start(hg.sinks.Delta(str(tmp_path / "t")))
    staged.store.remove(name)
    with pytest.raises(CorruptState, match="is missing"):
        staged.start(hg.sinks.Delta(str(tmp_path / "t")))
    assert pairs(tmp_path / "t") == []


def test_columns_that_the_table_cannot_take_are_refused_before_the_first_batch(staged, tmp_path) -> None:
    path = str(tmp_path / "t")
    deltalake.DeltaTable.create(
        path,
        deltalake.Schema.from_arrow(
            pa.schema([pa.field("k", pa.string()), pa.field("x", pa.int64(), nullable=False)])
        ),
    )
    with pytest.raises(
        UnsupportedType, match=r"column 'k' of the Delta table .* string, and that of the output long"
    ):
        hg.sinks.Delta(path).check_columns(SCHEMA)
    with pytest.raises(UnsupportedType, match="requires a value in the column 'x'"):
        hg.sinks.Delta(path).check_columns(pa.schema([("k", pa.string())]))
    with pytest.raises(UnsupportedType, match="has the column 'k', and the output 'K'"):
        hg.sinks.Delta(path).check_columns(pa.schema([("K", pa.string()), ("x", pa.int64())]))
    with pytest.raises(UnsupportedType, match="cannot hold"):
        hg.sinks.Delta(str(tmp_path / "n")).check_columns(pa.schema([("k", pa.month_day_nano_interval())]))
    with pytest.raises(MissingColumn, match="upserts by 'z'"):
        hg.sinks.Delta(path, mode="upsert", key="z").check_columns(SCHEMA)
    with pytest.raises(ConfigError, match="partition_by names 'z'"):
        hg.sinks.Delta(path, partition_by="z").check_columns(SCHEMA)
    with pytest.raises(ConfigError, match="cannot tell rows apart"):
        hg.sinks.Delta(path, mode="upsert", key="k").check_columns(pa.schema([("k", pa.float64())]))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"mode": "merge"}, "neither 'append' nor 'upsert'"),
        ({"mode": "upsert"}, "needs a key"),
        ({"key": "k"}, "is for mode='upsert'"),
        ({"mode": "upsert", "key": ["k", "k"]}, "name each column once"),
        ({"properties": {"a": 1}}, "are texts"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, told, tmp_path) -> None:
    with pytest.raises(ConfigError, match=told):
        hg.sinks.Delta(str(tmp_path / "t"), **options)


def test_properties_partitions_and_constraints_are_kept(staged, tmp_path) -> None:
    path = str(tmp_path / "t")
    sink = hg.sinks.Delta(
        path, partition_by=["k"], properties={"delta.logRetentionDuration": "interval 9 days"}
    )
    staged.start(sink)
    sink.publish(staged.add([{"k": 1, "n": 1}, {"k": 2, "n": 1}]))
    about = deltalake.DeltaTable(path).metadata()
    assert about.partition_columns == ["k"]
    assert about.configuration == {"delta.logRetentionDuration": "interval 9 days"}
    with pytest.raises(ConfigError, match=r"is partitioned by \['k'\]"):
        hg.sinks.Delta(path, partition_by="n").check_columns(SCHEMA)
    deltalake.DeltaTable(path).alter.add_constraint({"few": "n < 10"})
    with pytest.raises(Exception, match="1 rows failed validation check"):
        sink.publish(staged.add([{"k": 1, "n": 99}]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_the_table_lacks_is_added(kind, staged, tmp_path) -> None:
    expected = evolved(staged, lambda: hg.sinks.Delta(str(tmp_path / "t"), **KINDS[kind]))
    found = deltalake.DeltaTable(str(tmp_path / "t")).to_pyarrow_dataset().to_table().sort_by("k")
    assert found.to_pylist() == expected


@pytest.mark.parametrize("kind", ["append", "upsert"])
def test_duckdb_reads_the_files_that_the_table_names(kind, staged, tmp_path) -> None:
    sink = hg.sinks.Delta(str(tmp_path / "t"), **KINDS[kind])
    staged.start(sink)
    for number in range(3):
        sink.publish(staged.add([{"k": 1, "n": number}, {"k": 2 + number, "n": 0}]))
    files = deltalake.DeltaTable(str(tmp_path / "t")).file_uris()
    rows = duckdb.read_parquet(files).project("k, n").fetchall()
    assert sorted(rows) == pairs(tmp_path / "t")


def test_every_type_comes_back(tmp_path) -> None:
    schema = pa.schema(
        [("k", pa.int64()), ("i", pa.int32()), ("s", pa.int16()), ("b", pa.int8()), ("f", pa.float32()), ("d", pa.float64()),
         ("t", pa.string()), ("y", pa.binary()), ("o", pa.bool_()), ("day", pa.date32()), ("at", pa.timestamp("us", "UTC")),
         ("ntz", pa.timestamp("us")), ("money", pa.decimal128(9, 2)), ("l", pa.list_(pa.int64())),
         ("m", pa.map_(pa.string(), pa.int64())), ("r", pa.struct([("x", pa.int64())]))]
    )  # fmt: skip
    row = {"k": 1, "i": 2, "s": 3, "b": 4, "f": 0.5, "d": float("nan"), "t": "ä", "y": b"\0", "o": True, "day": date(2026, 1, 2),
           "at": datetime(2026, 1, 1, 12, 0, 0, 1, UTC), "ntz": datetime(2026, 1, 1, 12, 0, 0, 999_999), "money": Decimal("1.25"),
           "l": [1, None], "m": [("a", 1)], "r": {"x": None}}  # fmt: skip
    expected = pa.Table.from_pylist([row], schema=schema).to_pylist()[0]
    for kind, options in KINDS.items():
        staged = Staged(tmp_path / kind / "c", schema)
        sink = hg.sinks.Delta(str(tmp_path / kind / "t"), **options)
        staged.start(sink)
        sink.publish(staged.add([row, dict.fromkeys(schema.names)]))
        found = deltalake.DeltaTable(str(tmp_path / kind / "t")).to_pyarrow_dataset().to_table().sort_by("k")
        assert str(found.select(schema.names).to_pylist()[0]) == str(expected)
        assert set(found.to_pylist()[1].values()) == {None}


@pytest.mark.parametrize("step", STAGE_STEPS)
def test_a_stage_killed_at_any_step_writes_each_batch_once(step, tmp_path) -> None:
    killed_in_any_stage(lambda: hg.sinks.Delta(str(tmp_path / "t"), mode="upsert", key="k"), tmp_path, step)
    assert pairs(tmp_path / "t") == COUNTED


def test_the_table_knows_its_batches_when_its_log_is_only_a_checkpoint(staged, tmp_path) -> None:
    """Delta writes checkpoints of its log, and removes the entries before them."""
    path = str(tmp_path / "t")
    sink = hg.sinks.Delta(path, properties={"delta.checkpointInterval": "3"})
    staged.start(sink)
    for number in range(8):
        sink.publish(staged.add([{"k": number, "n": 1}]))
    deltalake.DeltaTable(path).create_checkpoint()
    newest = deltalake.DeltaTable(path).version()
    log = tmp_path / "t" / "_delta_log"
    for version in range(newest):
        (log / f"{version:020d}.json").unlink(missing_ok=True)
    for at in (None, 3, 9):
        with pytest.raises(CheckpointMismatch):
            hg.sinks.Delta(path).own(staged.owner, at)
    staged.start(hg.sinks.Delta(path))
    sink.publish(staged.add([{"k": 8, "n": 1}]))
    assert [k for k, _ in pairs(path)] == list(range(9))
