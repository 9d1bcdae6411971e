"""`sinks.Table` without Spark, in SQLite and in a real PostgreSQL: each batch once, whatever dies; upserts; refusals."""

import itertools
import threading
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

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
    killed_everywhere,
    killed_in_any_stage,
)

import headgate as hg
from headgate.errors import CheckpointMismatch, ConfigError, MissingColumn, UnsupportedType
from headgate.storage.parquet_folder import Owner

KINDS: dict[str, dict[str, Any]] = {"append": {}, "upsert": {"mode": "upsert", "key": "k"}}
STEPS = ("_create", "_recorded", "_record", "_commit")
CALLS = ("begin", "alone", "columns", "insert", "upsert")


@pytest.fixture
def staged(tmp_path):
    return Staged(tmp_path / "checkpoint")


@pytest.mark.parametrize("kind", KINDS)
def test_batches_come_once_and_are_recorded(kind, staged, database) -> None:
    sink = hg.sinks.Table(database.url, "t", **KINDS[kind])
    staged.start(sink)
    for files in ([[{"k": 1, "n": 1}], [{"k": 2, "n": 1}]], [], [[{"k": 1, "n": 2}]]):
        output = staged.add(*files)
        sink.publish(output)
        sink.publish(again(output))
        sink = hg.sinks.Table(database.url, "t", **KINDS[kind])
        staged.start(sink)
    assert database.pairs() == ([(1, 2), (2, 1)] if kind == "upsert" else [(1, 1), (1, 2), (2, 1)])
    ledger = dict(database.run("SELECT query, batch FROM headgate_batches"))
    assert ledger == {"headgate/4be35ea6": 2, "headgate@file:///checkpoints/4be35ea6": 2}


@pytest.mark.parametrize("kind", KINDS)
def test_a_driver_that_dies_between_any_two_steps_loses_and_repeats_nothing(kind, database, tmp_path) -> None:
    expected = [(1, 2), (2, 1)] if kind == "upsert" else [(1, 1), (1, 2), (2, 1)]

    def check(at: int) -> None:
        assert database.pairs(f"t{at}") == expected, f"killed at step {at}"

    def make(at: int) -> hg.sinks.Table:
        return hg.sinks.Table(database.url, f"t{at}", **KINDS[kind])

    steps = killed_everywhere(
        make, lambda sink: {sink._table: STEPS, sink._table.dialect: CALLS}, tmp_path, check, wider=False
    )
    assert steps >= 10


@pytest.mark.parametrize("kind", KINDS)
def test_a_driver_whose_commit_fails_has_written_nothing(kind, staged, database) -> None:
    sink = hg.sinks.Table(database.url, "t", **KINDS[kind])
    staged.start(sink)
    output = staged.add([{"k": 1, "n": 1}])
    with pytest.MonkeyPatch.context() as patched:

        def torn(*_: Any) -> None:
            raise KeyboardInterrupt

        patched.setattr(sink._table, "_record", torn)
        with pytest.raises(KeyboardInterrupt):
            sink.publish(output)
    assert database.pairs() == []
    staged.start(hg.sinks.Table(database.url, "t", **KINDS[kind]))
    assert database.pairs() == [(1, 1)]


@pytest.mark.parametrize("kind", KINDS)
def test_many_drivers_at_once_write_a_batch_once(kind, staged, database) -> None:
    sinks = [hg.sinks.Table(database.url, "t", **KINDS[kind]) for _ in range(6)]
    failed: list[BaseException] = []

    def together(*calls: Any) -> None:
        def tried(call: Any) -> None:
            try:
                call()
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=tried, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    together(*(lambda sink=sink: staged.start(sink) for sink in sinks))
    for number in range(4):
        output = staged.add([{"k": number, "n": 1}, {"k": 9, "n": number}])
        together(*(lambda sink=sink, output=output: sink.publish(output) for sink in sinks))
    assert failed == []
    rows = [(number, 1) for number in range(4)]
    last = [(9, 3)] if kind == "upsert" else [(9, number) for number in range(4)]
    assert database.pairs() == rows + last


KEYED = st.tuples(
    st.one_of(st.none(), st.integers(0, 4)),
    st.one_of(st.none(), st.text("ab", max_size=1)),
    st.integers(0, 9),
)
NUMBERS = itertools.count()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(batches=st.lists(st.lists(KEYED, max_size=5), min_size=1, max_size=4))
def test_an_upsert_by_two_columns_is_what_a_dict_is(batches, database, tmp_path_factory) -> None:
    schema = pa.schema([("k", pa.int64()), ("name", pa.string()), ("n", pa.int64())])
    number = next(NUMBERS)
    staged = Staged(tmp_path_factory.mktemp("c"), schema, stage=f"stage{number}")
    sink = hg.sinks.Table(database.url, f"h{number}", mode="upsert", key=["k", "name"])
    staged.start(sink)
    state: dict[Any, int] = {}
    for rows in batches:
        sink.publish(staged.add(*([[{"k": k, "name": name, "n": n} for k, name, n in rows]] if rows else [])))
        state.update({(k, name): n for k, name, n in rows})
    found = database.run(f"SELECT k, name, n FROM h{number}")
    assert sorted(found, key=str) == sorted(((*key, n) for key, n in state.items()), key=str)
    database.run(f"DROP TABLE h{number}")


def test_a_table_that_exists_keeps_its_other_columns(staged, database) -> None:
    serial = "INTEGER PRIMARY KEY" if database.is_sqlite else "BIGINT GENERATED ALWAYS AS IDENTITY"
    database.run(f"CREATE TABLE t (id {serial}, k BIGINT UNIQUE, n BIGINT, note TEXT DEFAULT 'none')")
    database.run("INSERT INTO t (k, n, note) VALUES (1, 0, 'kept')")
    sink = hg.sinks.Table(database.url, "t", mode="upsert", key="k")
    staged.start(sink)
    sink.publish(staged.add([{"k": 1, "n": 5}, {"k": 2, "n": 6}]))
    assert sorted(database.run("SELECT k, n, note FROM t")) == [(1, 5, "kept"), (2, 6, "none")]


def test_columns_that_the_table_cannot_take_are_refused_before_the_first_batch(staged, database) -> None:
    database.run("CREATE TABLE narrow (k BIGINT)")
    with pytest.raises(
        MissingColumn, match=r'has no column \'n\': add it with ALTER TABLE "narrow" ADD COLUMN "n"'
    ):
        hg.sinks.Table(database.url, "narrow").check_columns(SCHEMA)
    database.run("CREATE TABLE many (k BIGINT, n BIGINT)")
    with pytest.raises(ConfigError, match=r'several rows for a key.*CREATE UNIQUE INDEX ON "many" \("k"\)'):
        hg.sinks.Table(database.url, "many", mode="upsert", key="k").check_columns(SCHEMA)
    database.run("CREATE TABLE strict (k BIGINT, n BIGINT, x TEXT NOT NULL)")
    with pytest.raises(UnsupportedType, match="requires a value in the column 'x'"):
        hg.sinks.Table(database.url, "strict").check_columns(SCHEMA)
    with pytest.raises(UnsupportedType, match=r"duration.*cannot hold"):
        hg.sinks.Table(database.url, "none").check_columns(pa.schema([("k", pa.duration("us"))]))
    if not database.is_sqlite:
        database.run("CREATE TABLE other (k TEXT, n BIGINT)")
        with pytest.raises(
            UnsupportedType, match=r"column 'k' of the table other .* text, and that of the output bigint"
        ):
            hg.sinks.Table(database.url, "other").check_columns(SCHEMA)


TOO_SMALL = {
    "sqlite": [
        ("v INTEGER", pa.string()), ("v NUMERIC", pa.string()), ("v DECIMAL(9, 2)", pa.decimal128(9, 2)),
        ("v TEXT", pa.int64()), ("v REAL", pa.int64()),
    ],
    "postgresql": [
        ("v numeric(10, 1)", pa.decimal128(10, 2)), ("v numeric(5, 2)", pa.decimal128(10, 2)), ("v numeric(3)", pa.int64()),
        ("v numeric(9, 2)", pa.uint64()), ("v timestamptz(0)", pa.timestamp("us", "UTC")), ("v varchar(3)", pa.string()),
        ("v bigint GENERATED ALWAYS AS (1) STORED", pa.int64()),
    ],
}  # fmt: skip
"""Columns that would change some values of a type, or refuse them."""
LARGE_ENOUGH = {
    "sqlite": [
        ("v BIGINT", pa.int64()), ("v", pa.string()), ("v VARCHAR(3)", pa.string()), ("v DATETIME", pa.timestamp("us")),
        ("v DOUBLE", pa.float64()), ("v INTEGER", pa.binary()),
    ],
    "postgresql": [
        ("v numeric(12, 3)", pa.decimal128(10, 2)), ("v numeric", pa.uint64()), ("v numeric(19)", pa.int64()),
        ("v timestamptz(6)", pa.timestamp("us", "UTC")), ("v varchar", pa.string()),
    ],
}  # fmt: skip


def test_a_column_that_would_change_values_is_refused(database) -> None:
    kind = "sqlite" if database.is_sqlite else "postgresql"
    for number, (column, values) in enumerate(TOO_SMALL[kind]):
        database.run(f"CREATE TABLE small{number} ({column})")
        with pytest.raises(UnsupportedType, match="column 'v'"):
            hg.sinks.Table(database.url, f"small{number}").check_columns(pa.schema([("v", values)]))
    for number, (column, values) in enumerate(LARGE_ENOUGH[kind]):
        database.run(f"CREATE TABLE large{number} ({column})")
        hg.sinks.Table(database.url, f"large{number}").check_columns(pa.schema([("v", values)]))


def test_an_index_that_cannot_tell_keys_apart_is_no_key(database) -> None:
    if database.is_sqlite:
        database.run("CREATE TABLE t (k TEXT COLLATE NOCASE UNIQUE, n BIGINT)")
        also = "CREATE TABLE fine (k TEXT PRIMARY KEY, n BIGINT)"
    else:
        database.run("CREATE TABLE t (k TEXT UNIQUE DEFERRABLE, n BIGINT)")
        also = "CREATE TABLE fine (k TEXT UNIQUE, n BIGINT)"
    database.run(also)
    columns = pa.schema([("k", pa.string()), ("n", pa.int64())])
    with pytest.raises(ConfigError, match="several rows for a key"):
        hg.sinks.Table(database.url, "t", mode="upsert", key="k").check_columns(columns)
    hg.sinks.Table(database.url, "fine", mode="upsert", key="k").check_columns(columns)


def test_what_does_not_belong_together_is_refused(staged, database) -> None:
    sink = hg.sinks.Table(database.url, "t")
    staged.start(sink)
    for number in range(3):
        sink.publish(staged.add([{"k": number, "n": 1}]))
    with pytest.raises(CheckpointMismatch, match="checkpoint is older than the table"):
        hg.sinks.Table(database.url, "t").own(staged.owner, 1)
    with pytest.raises(CheckpointMismatch, match=r"no batch of .*first_batch=3"):
        staged.start(hg.sinks.Table(database.url, "elsewhere"))
    with pytest.raises(CheckpointMismatch, match="deleted or replaced"):
        hg.sinks.Table(database.url, "t").own(Owner("ffffffff", staged.owner.checkpoint))
    database.run("DROP TABLE t")
    with pytest.raises(CheckpointMismatch, match="no batch of"):
        staged.start(hg.sinks.Table(database.url, "t"))
    staged.start(hg.sinks.Table(database.url, "t", first_batch=2))
    assert database.pairs() == [(2, 1)]


def test_every_type_comes_back(database, tmp_path) -> None:
    schema = pa.schema(
        [("k", pa.int64()), ("i", pa.int32()), ("s", pa.int16()), ("f", pa.float32()), ("d", pa.float64()), ("t", pa.string()),
         ("y", pa.binary()), ("o", pa.bool_()), ("day", pa.date32()), ("at", pa.timestamp("us", "UTC")), ("ntz", pa.timestamp("us")),
         ("money", pa.decimal128(9, 2)), ("l", pa.list_(pa.int64())), ("r", pa.struct([("x", pa.int64())]))]
    )  # fmt: skip
    moment = datetime(2026, 1, 1, 12, 0, 0, 1)
    row = {"k": 1, "i": 2, "s": 3, "f": 0.5, "d": float("inf"), "t": 'a "b"\n,\\', "y": b"\0\xff", "o": True, "day": date(2026, 1, 2),
           "at": moment.replace(tzinfo=UTC), "ntz": moment, "money": Decimal("1.25"), "l": [1, None], "r": {"x": None}}  # fmt: skip
    rows = [row, dict.fromkeys(schema.names), {**dict.fromkeys(schema.names), "k": 3, "t": ""}]
    for kind, options in KINDS.items():
        staged = Staged(tmp_path / kind, schema, stage=kind)
        sink = hg.sinks.Table(database.url, f"types_{kind}", **options)
        staged.start(sink)
        sink.publish(staged.add(rows))
        names = ", ".join(f'"{name}"' for name in schema.names)
        found = sorted(
            database.run(f"SELECT {names} FROM types_{kind}"), key=lambda one: (one[0] is None, one[0])
        )
        assert [one[5] for one in found] == ['a "b"\n,\\', "", None]
        assert found[2] == (None,) * len(schema)
        if database.is_sqlite:
            texts = (
                "2026-01-02",
                "2026-01-01 12:00:00.000001+00:00",
                "2026-01-01 12:00:00.000001",
                "1.25",
                "[1, null]",
                '{"x": null}',
            )
            assert found[0] == (*list(row.values())[:7], 1, *texts)
        else:
            assert found[0] == tuple(row.values())


def test_schemas_and_odd_names_are_quoted(postgres, tmp_path) -> None:
    psycopg = pytest.importorskip("psycopg")
    schema = pa.schema([("K ey", pa.int64()), ('a"b', pa.int64())])
    staged = Staged(tmp_path / "c", schema)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA other")
        sink = hg.sinks.Table(postgres, "other.Some Table", mode="upsert", key="K ey")
        staged.start(sink)
        sink.publish(staged.add([{"K ey": 1, 'a"b': 2}]))
        sink.publish(staged.add([{"K ey": 1, 'a"b': 3}]))
        assert connection.execute('SELECT * FROM other."Some Table"').fetchall() == [(1, 3)]
        assert connection.execute("SELECT count(*) FROM other.headgate_batches").fetchone() == (2,)
        connection.execute("DROP SCHEMA other CASCADE")


@pytest.mark.parametrize(
    ("url", "table", "told"),
    [
        ("mysql://x/y", "t", "needs a URL such as"),
        ("sqlite:///", "t", "names no file"),
        ("sqlite:///:memory:", "t", "names no file"),
        ("sqlite:///x.db", "", "is not the name of a table"),
        ("sqlite:///x.db", "a..b", "is not the name of a table"),
    ],
)
def test_addresses_that_make_no_sense_are_refused(url, table, told) -> None:
    with pytest.raises(ConfigError, match=told):
        hg.sinks.Table(url, table)


def test_a_database_that_is_not_there_is_named_without_its_password() -> None:
    pytest.importorskip("psycopg")
    sink = hg.sinks.Table("postgresql://ann:secret@127.0.0.1:1/none", "t")
    with pytest.raises(ConfigError, match=r"the table t of PostgreSQL 127.0.0.1/none cannot be read") as told:
        sink.check_columns(SCHEMA)
    assert "secret" not in str(told.value) + repr(sink)


@pytest.mark.parametrize("step", STAGE_STEPS)
def test_a_stage_killed_at_any_step_writes_each_batch_once(step, database, tmp_path) -> None:
    killed_in_any_stage(lambda: hg.sinks.Table(database.url, "t", mode="upsert", key="k"), tmp_path, step)
    assert database.pairs() == COUNTED
