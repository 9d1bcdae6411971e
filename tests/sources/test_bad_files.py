"""What is wrong with a file is said together with its name and with what to do."""

import os
import pickle

import pyarrow as pa
import pytest
from tests.sources.conftest import SCHEMA, Driver, table

from headgate.errors import ConfigError, SourceFailed
from headgate.sources import Demand, Files
from headgate.sources.place import Place
from headgate.storage.store import Store

IGNORE = r"To go on without the file, name it in Files\(\.\.\., ignore="


def driver_of(inbox, store, schema=SCHEMA, **more):
    return Driver(lambda: Files(inbox.path, schema, **more), store)


def failed(driver, match):
    """The batch fails, and so does every other one, until the file is ignored."""
    for _ in range(2):
        with pytest.raises(SourceFailed, match=match) as caught:
            driver.batch()
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
        driver.restart()
    return str(caught.value)


def test_a_file_that_was_changed_after_it_was_found(inbox, store) -> None:
    inbox.put("a.parquet", table(0, 2))
    inbox.put("b.parquet", table(2, 2))
    driver = driver_of(inbox, store)
    driver.plan()
    inbox.put("a.parquet", table(0, 5))
    failed(driver, rf"in/a\.parquet was changed since it was found: \d+ bytes of .* then, .*{IGNORE}")
    skipping = Driver(lambda: Files(inbox.path, SCHEMA, ignore=["a.parquet"]), store, driver.offset)
    assert skipping.batch()["n"].to_pylist() == [2, 3]
    assert skipping.offset == {"file": 2, "at": 0}


def test_a_file_that_was_touched(inbox, store) -> None:
    inbox.put("a.parquet", table(0, 2), mtime=1)
    driver = driver_of(inbox, store)
    driver.plan()
    os.utime(f"{inbox.path}/a.parquet", ns=(2, 2))
    failed(
        driver,
        r"a\.parquet was changed since it was found: .*00\.000000001 UTC then, .*00\.000000002 UTC now",
    )


def test_a_file_that_vanished_before_its_plan_or_after(inbox, store) -> None:
    inbox.put("a.parquet", table(0, 2))
    driver = driver_of(inbox, store)
    planned = driver.plan()
    os.unlink(f"{inbox.path}/a.parquet")
    with pytest.raises(SourceFailed, match=r"a\.parquet has vanished since it was found.* Put the file back"):
        list(driver.source.read(planned.ranges[0].what))
    failed(
        driver,
        r"a\.parquet has vanished since it was found, and its rows were not read yet\. Put the file back",
    )


def test_a_file_that_was_read_may_go(inbox, store) -> None:
    inbox.put("a.parquet", table(0, 2))
    driver = driver_of(inbox, store)
    driver.batch()
    os.unlink(f"{inbox.path}/a.parquet")
    driver.restart()
    assert driver.batch().num_rows == 0


def test_a_file_that_changes_while_it_is_read(inbox, store) -> None:
    inbox.put("a.jsonl", b'{"n":1}\n' * 20)
    driver = driver_of(inbox, store)
    planned = driver.plan()
    reader = driver.source._tables(driver.source._format("json"), planned.ranges[0].what[1])
    next(reader)
    inbox.put("a.jsonl", b"")
    with pytest.raises(SourceFailed, match="was changed since it was found"):
        next(reader)


@pytest.mark.parametrize("size", [0, 3, 100, -1])
def test_a_parquet_file_cut_off(inbox, store, size) -> None:
    whole = inbox.put("_whole", table(0, 9))
    with open(whole, "rb") as file:
        inbox.put("a.parquet", file.read()[:size])
    failed(
        driver_of(inbox, store),
        rf"reading the footer of .*/a\.parquet failed: .*write it anew under another.*{IGNORE}",
    )


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (
            b'{"n":1}\n{"n":',
            r"a\.json failed: the line at byte 8 is not JSON: .*; the file ends within this line",
        ),
        (b'{"n":1}\n{"n":}\n{"n":3}\n', r"a\.json failed: the line at byte 8 is not JSON: [^;]*$"),
        (b"\n[1]\n", r"the line at byte 1 is not an object: write one object a line"),
        (b'{"n":1} {"n":2}\n', r"the line at byte 0 is not JSON: Extra data"),
        (b'{"n":\n1}\n', r"the line at byte 0 is not JSON"),
        (b'{"n":1.5}\n', r"the line at byte 0 has 1\.5 in column n, which is int64"),
        (b'{"n":9223372036854775808}\n', r"has 9223372036854775808 in column n, which is int64"),
        (b'{"n":"one"}\n', r'the line at byte 0 has "one" in column n, which is int64'),
        (b'{"word":{"a":1}}\n', r'has {"a": "1"} in column word, which is string'),
        (b'{"word":"\xff"}\n', r"the line at byte 0 is not UTF-8"),
    ],
)
def test_a_line_that_is_wrong(inbox, store, data, match) -> None:
    inbox.put("a.json", data)
    failed(driver_of(inbox, store), match)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"n,word\n1,a\n2\n", r"a\.csv failed: .*Expected 2 columns, got 1"),
        (b"n,word\n1,a\nx,b\n", r"a\.csv failed: .*invalid value 'x'"),
    ],
)
def test_a_csv_file_that_is_wrong(inbox, store, data, match) -> None:
    inbox.put("a.csv", data)
    failed(driver_of(inbox, store), match)


@pytest.mark.parametrize(
    ("have", "want", "match"),
    [
        (
            pa.array([1]),
            pa.int32(),
            "column x is int64 in the file and int32 in the declared schema. Declare the column",
        ),
        (pa.array([1]), pa.float64(), "column x is int64 in the file and double"),
        (pa.array(["1"]), pa.int64(), "column x is string in the file and int64"),
        (
            pa.array([1], pa.timestamp("us")),
            pa.timestamp("us", "UTC"),
            "a zone and one without are not the same",
        ),
        (
            pa.array([1], pa.timestamp("ns", "UTC")),
            pa.timestamp("us", "UTC"),
            "cannot be changed without loss",
        ),
        (pa.array([1], pa.date32()), pa.timestamp("us"), "column x is date32.* and timestamp"),
        (pa.array([{"a": 1}]), pa.struct([("b", pa.int64())]), "column x is struct<a: int64>"),
    ],
)
def test_a_column_of_another_type(inbox, store, have, want, match) -> None:
    inbox.put("a.parquet", pa.table({"x": have}))
    message = failed(driver_of(inbox, store, pa.schema([("x", want)])), match)
    assert "in/a.parquet: column x" in message
    assert "ignore=" in message


def test_a_column_that_may_not_be_null_and_is_missing(inbox, store) -> None:
    inbox.put("a.parquet", table(0, 1))
    schema = pa.schema([pa.field("y", pa.int64(), nullable=False)])
    failed(
        driver_of(inbox, store, schema),
        r"a\.parquet has no column y, which .* is never null\. Declare it nullable",
    )


def test_a_folder_that_gives_no_value(inbox, store) -> None:
    inbox.put("n=x/a.parquet", table(0, 1))
    failed(driver_of(inbox, store), r"the folder n=x gives no int64 for the column")


def test_a_log_that_is_gone(inbox, store, tmp_path) -> None:
    inbox.put("a.parquet", table(0, 1))
    driver = driver_of(inbox, store)
    driver.batch()
    driver.store = Store(str(tmp_path / "other"), durable=False)
    driver.restart()
    with pytest.raises(
        SourceFailed, match="has 0 files, and the query has read 1: a part of the checkpoint is gone"
    ):
        driver.batch()


def test_misuse(inbox, store) -> None:
    with pytest.raises(ConfigError, match="the formats are parquet, json, csv"):
        Files(inbox.path, format="orc")
    with pytest.raises(ConfigError, match=r"needs schema=.*json files do not tell"):
        Files(inbox.path, format="json")
    with pytest.raises(ConfigError, match="has no file yet to take the columns from: give schema="):
        Files(inbox.path).schema()
    with pytest.raises(ConfigError, match="does not know option 'sep'; csv has header, delimiter, null"):
        Files(inbox.path, SCHEMA, format="csv", options={"sep": ";"})
    with pytest.raises(ConfigError, match="which CSV cannot hold"):
        Files(inbox.path, pa.schema([("x", pa.list_(pa.int64()))]), format="csv")
    with pytest.raises(ConfigError, match="which is not read from JSON"):
        Files(inbox.path, pa.schema([("x", pa.list_(pa.binary()))]), format="json")
    with pytest.raises(ConfigError, match=r"give a list of paths, \['a'\]"):
        Files(inbox.path, SCHEMA, ignore="a")
    with pytest.raises(ConfigError, match="call open"):
        Files(inbox.path, SCHEMA).plan(None, Demand(1))
    with pytest.raises(ConfigError, match="/nowhere does not exist: name a folder"):
        Files(f"{inbox.path}/nowhere", SCHEMA).open(store)
    inbox.put("a.json", b"{}")
    with pytest.raises(ConfigError, match="needs schema="):
        Files(inbox.path).schema()


def test_a_suffix_that_says_nothing_is_refused_before_the_file_is_logged(inbox, store) -> None:
    inbox.put("README", b"text")
    inbox.put("a.parquet", table(0, 1))
    os.utime(f"{inbox.path}/README", ns=(1, 1))
    driver = driver_of(inbox, store)
    with pytest.raises(ConfigError, match="the suffix of README does not tell its format"):
        driver.plan()
    assert driver_of(inbox, store, pattern="*.parquet").batch().num_rows == 1


def test_an_empty_folder_has_no_rows_yet(inbox, store) -> None:
    driver = driver_of(inbox, store)
    assert driver.plan().ranges == ()
    assert driver.plan().offset is None
    inbox.put("a.parquet", table(0, 0))
    assert driver.batch().num_rows == 0
    assert driver.offset == {"file": 1, "at": 0}


def test_a_folder_that_cannot_be_listed(inbox, store) -> None:
    driver = driver_of(inbox, store)
    os.rmdir(inbox.path)
    with pytest.raises(SourceFailed, match=r"listing file://.*/in failed: .*fix the cause and start again"):
        driver.plan()
    os.mkdir(inbox.path)
    inbox.put("a.parquet", table(0, 1))
    assert driver.batch().num_rows == 1


def test_a_file_that_cannot_be_looked_at(inbox, store, monkeypatch) -> None:
    inbox.put("a.parquet", table(0, 1))
    driver = driver_of(inbox, store)

    def refuse(*_):
        raise PermissionError("no")

    monkeypatch.setattr(Place, "stat", refuse)
    with pytest.raises(SourceFailed, match=r"looking at .*/a\.parquet failed: no; fix the cause"):
        driver.plan()
