"""What is wrong with a file is said together with its name and with what to do."""

import os
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from tests.sources.conftest import SCHEMA, Driver, table

from headgate.errors import ConfigError, SourceFailed
from headgate.sources import Demand, Files
from headgate.sources.place import Place
from headgate.storage.store import Store

IGNORE = r"To go on without the file, name it in files\(\.\.\., ignore="


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
        (b"n,word\n1,a\nx,b\n", r"a\.csv failed: .*invalid value 'x'.*declare the column as string"),
        (b'n,word\n1,a\n2,"b', r"a\.csv failed: the file ends within quotes\. .*write it anew"),
        (b'n,word\n1,"a\n2,b\n', r"a\.csv failed: the file ends within quotes\."),
        (b'n,word\n1,a\n"2', r"a\.csv failed: the file ends within quotes\."),
        (b'word,n\na,1\nb,"2', r"a\.csv failed: the file ends within quotes\."),
        (b'n,"wor', r"a\.csv failed: the file ends within quotes\."),
        (b'n,word\n1,"5""', r"a\.csv failed: the file ends within quotes\."),
        (b"n,word\n,,\n", r"a\.csv failed: .*Expected 2 columns, got 3: ,,"),
    ],
)
def test_a_csv_file_that_is_wrong(inbox, store, data, match) -> None:
    inbox.put("a.csv", data)
    failed(driver_of(inbox, store), match)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'word,n\n5" pipe,1\n', ['5" pipe']),
        (b'n,word\n1,"a\nb"\n2,"4""5"', ["a\nb", '4"5']),
        (b"n,word\r\n1,a\r\n\r\n2,b", ["a", "b"]),
        (b"\xef\xbb\xbfword\na\n", ["a"]),
        (b"n,word", []),
        (b"x,y\n", []),
        (b"\n\n", []),
        (b"", []),
    ],
)
def test_a_csv_file_that_is_whole(inbox, store, data, words) -> None:
    inbox.put("a.csv", data)
    assert driver_of(inbox, store).batch()["word"].to_pylist() == words


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.parquet", pa.table({"N": [1], "text": ["a"]})),
        ("a.json", b'{"text": "a"}\n{"N": 1}\n'),
        ("a.csv", b"text,N\na,1\n"),
    ],
)
def test_a_file_with_none_of_the_declared_columns(inbox, store, name, content) -> None:
    inbox.put(name, content)
    message = failed(driver_of(inbox, store), rf"in/{name} has none of the declared columns: .*{IGNORE}")
    assert "it has N, text, and declared are n, word. Upper and lower case count: N has another" in message


def test_columns_that_a_query_does_not_need_count_as_declared(inbox, store) -> None:
    inbox.put("a.parquet", pa.table({"word": ["a"]}))
    driver = driver_of(inbox, store)
    fewer = driver.source.only(["n"])
    (part,) = driver.plan().ranges
    assert pa.Table.from_batches(fewer.read(part.what))["n"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        ("a.parquet", pa.table({"x": pa.array([], pa.int64())}), 0),
        ("a.json", b"\n \n", 0),
        ("a.json", b'{"x": 1}\n{"x": 2, "n": null}\n', 2),
        ("a.csv", b"x,n\n1,\n", 1),
        ("n=7/a.json", b'{"word": null}\n', 1),
    ],
)
def test_files_without_rows_or_values_are_fine(inbox, store, name, content, rows) -> None:
    inbox.put(name, content)
    assert driver_of(inbox, store).batch().num_rows == rows


def test_columns_that_folders_give_do_not_count_for_a_file(inbox, store) -> None:
    inbox.put("n=7/a.json", b'{"text": "a"}\n')
    failed(driver_of(inbox, store), r"n=7/a\.json has none of the declared columns: it has text")
    only_folders = Driver(lambda: Files(inbox.path, pa.schema([("n", pa.int64())])), Store(inbox.path + "2"))
    assert only_folders.batch()["n"].to_pylist() == [7]


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
    schema = pa.schema([("n", pa.int64()), pa.field("y", pa.int64(), nullable=False)])
    failed(
        driver_of(inbox, store, schema),
        r"a\.parquet has no column y, which .* is never null\. Declare it nullable",
    )


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_misspelled_column_is_named_when_the_stream_begins(inbox, store, caplog, suffix) -> None:
    """It is null, as a column that later files have is; so nobody would notice."""
    rows = pa.table({"customer": ["ann"], "n": [1]})
    inbox.put(f"a.{suffix}", b"customer,n\nann,1\n" if suffix == "csv" else rows)
    driver = driver_of(inbox, store, pa.schema([("client", pa.string()), ("n", pa.int64())]))
    driver.batch()
    assert "no file has the declared column client" in caplog.text
    assert "the columns are customer, n" in caplog.text
    caplog.clear()
    driver.restart()
    driver.batch()
    assert not caplog.text  # whoever goes on knows


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
    with pytest.raises(
        ConfigError, match="does not know option 'sep'; csv has header, delimiter, null, decimal"
    ):
        Files(inbox.path, SCHEMA, format="csv", options={"sep": ";"})
    for wrong in ({"null": None}, {"null": ["NA", 1]}, {"decimal": 1}, {"decimal": "comma"}):
        with pytest.raises(ConfigError, match="must be a str"):
            Files(inbox.path, SCHEMA, format="csv", options=wrong)
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


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"path": None}, r"Files\(None\) names no folder: give a path"),
        ({"path": 7}, r"Files\(7\) names no folder"),
        ({"path": ""}, r"names no folder"),
        ({"ignore": [7]}, r"ignore=.* has 7, which is not a path"),
        ({"ignore": 7}, r"ignore=7\): give a list of paths"),
        ({"ignore": Path("a")}, r"give a list of paths, \['a'\]"),
        ({"pattern": None}, r"pattern=None\): give a glob"),
        ({"schema": "n long"}, r"is not a pyarrow\.Schema"),
        ({"options": "header"}, r"options='header'\): give a dict"),
    ],
)
def test_arguments_of_another_type(inbox, settings, match) -> None:
    with pytest.raises(ConfigError, match=match):
        Files(**{"path": inbox.path, "schema": SCHEMA, **settings})


def test_a_name_to_ignore_that_no_file_has_or_had(inbox, store) -> None:
    inbox.put("day=1/a.json", table(0, 2))
    inbox.put("b.json", table(2, 2))
    with pytest.raises(
        ConfigError, match=r"ignore names 'a\.json', and there is no such file .* leave it out"
    ):
        driver_of(inbox, store, ignore=["a.json"])
    whole = [f"{inbox.path}/day=1/a.json", f"file://{inbox.path}/day=1/a.json", Path("day=1/a.json")]
    for name in [*whole, "./day=1/a.json"]:
        driver = driver_of(inbox, store, ignore=[name])
        assert driver.batch()["n"].to_pylist() == [2, 3]
    os.remove(f"{inbox.path}/b.json")
    assert driver_of(inbox, store, ignore=["b.json"]).batch()["n"].to_pylist() == [0, 1], "the log knows it"


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
