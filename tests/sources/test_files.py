"""Files: every row of every file once, in the order of the log, through any cuts, restarts and races."""

import os
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sources.conftest import SCHEMA, Driver, Inbox, table

from headgate.errors import ConfigError, MissingColumn
from headgate.sources import Files, files, formats
from headgate.sources.file_log import FileLog
from headgate.storage.store import Store

arrival = st.tuples(st.just("put"), st.integers(0, 9), st.integers(0, 3))  # rows, time of modification
step = st.one_of(
    arrival,
    arrival,
    st.tuples(st.just("batch"), st.integers(1, 12), st.integers(1, 3)),
    st.tuples(st.sampled_from(["restart", "race", "learned"]), st.just(0), st.just(0)),
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["parquet", "json"]), st.lists(step, max_size=14))
def test_every_row_once_in_the_order_of_the_log(suffix, steps) -> None:
    with tempfile.TemporaryDirectory() as folder:
        inbox = Inbox(f"{folder}/in")
        store = Store(f"{folder}/log", durable=False)

        def make():
            return Files(inbox.path, SCHEMA, format=suffix)

        driver = Driver(make, store)
        contents, read, given = {}, [SCHEMA.empty_table()], 0
        for what, a, b in steps:
            if what == "put":
                name = f"{'sub/' if a % 4 == 3 else ''}{99 - given:02d}.{suffix}"
                contents[name] = table(given * 100, a)
                inbox.put(name, contents[name], mtime=b)
                given += 1
            elif what == "batch":
                read.append(driver.batch(rows=a, tasks=b))
            elif what == "restart":
                driver.restart()
            elif what == "race":
                Driver(make, store).batch()
            else:
                driver.source._learned.files = formats.SAMPLES  # small files are now taken without a look
        read.append(driver.drain(rows=5, tasks=2))
        order = FileLog(store).paths
        assert sorted(order) == sorted(contents)
        assert pa.concat_tables(read).equals(
            pa.concat_tables([SCHEMA.empty_table(), *map(contents.get, order)])
        )
        assert not driver.plan().ranges
        assert driver.plan().offset == driver.offset


def test_one_listing_is_ordered_by_time_and_path(inbox, store) -> None:
    inbox.put("b.parquet", table(0, 1), mtime=5)
    inbox.put("a.parquet", table(1, 1), mtime=5)
    inbox.put("z.parquet", table(2, 1), mtime=4)
    driver = Driver(lambda: Files(inbox.path, SCHEMA), store)
    assert driver.batch()["n"].to_pylist() == [2, 1, 0]
    inbox.put("0.parquet", table(3, 1), mtime=1)  # older than what was read: it comes later, but comes
    assert driver.batch()["n"].to_pylist() == [3]
    assert driver.offset == {"file": 4, "at": 0}


def test_row_groups_are_taken_until_the_demand_is_met(inbox, store) -> None:
    inbox.put("a.parquet", table(0, 10))
    driver = Driver(lambda: Files(inbox.path, SCHEMA), store)
    planned = driver.plan(rows=7)
    assert (planned.rows, planned.offset, planned.more) == (6, {"file": 0, "at": 2}, True)
    assert driver.batch(rows=1).num_rows == 3  # a row group is not cut
    assert driver.batch(rows=100).num_rows == 7
    assert driver.plan(rows=100).more is False


def test_many_small_files_are_few_ranges_and_large_ones_are_shared(inbox, store) -> None:
    for at in range(40):
        inbox.put(f"{at:02}.parquet", table(at, 1))
    driver = Driver(lambda: Files(inbox.path, SCHEMA), store)
    assert len(driver.plan(tasks=8).ranges) == 1
    driver.drain()
    pq.write_table(table(0, 80_000), f"{inbox.path}/_large", row_group_size=5_000)
    os.rename(f"{inbox.path}/_large", f"{inbox.path}/large.parquet")
    planned = driver.plan(tasks=4)
    assert [part.rows for part in planned.ranges] == [20_000] * 4
    assert driver.batch(tasks=4)["n"].to_pylist() == list(range(80_000))


def test_only_reads_fewer_columns(inbox, store) -> None:
    inbox.put("a.parquet", table(0, 4))
    driver = Driver(lambda: Files(inbox.path, SCHEMA).only(["word"]), store)
    assert driver.batch().to_pydict() == {"word": ["w0", "w1", "w2", "w3"]}
    assert Files(inbox.path, SCHEMA).only([]).schema().names == ["n"]
    assert Files(inbox.path, SCHEMA).only(["n"]).identity() == Files(inbox.path, SCHEMA).identity()
    with pytest.raises(MissingColumn, match="has no column x; it has n, word"):
        Files(inbox.path, SCHEMA).only(["x"])


def test_the_schema_of_the_first_file_is_kept(inbox, store) -> None:
    inbox.put(
        "a.parquet", pa.table({"n": pa.array([1], pa.uint32()), "t": pa.array([1], pa.timestamp("ns"))})
    )
    driver = Driver(lambda: Files(inbox.path), store)
    assert driver.source.schema() == pa.schema([("n", pa.int64()), ("t", pa.timestamp("us"))])
    driver.offset = None
    os.unlink(f"{inbox.path}/a.parquet")
    inbox.put("b.parquet", pa.table({"other": [1]}))
    driver.restart()
    assert driver.source.schema().names == ["n", "t"]
    asked_before = Files(inbox.path)
    assert asked_before.schema().names == ["other"]
    asked_before.open(store)
    assert asked_before.schema().names == ["n", "t"]


def test_a_file_a_glob_and_a_pattern(inbox, store) -> None:
    inbox.put("a.parquet", table(0, 1))
    inbox.put("b.parquet", table(1, 1))
    inbox.put("day=1/b.parquet", table(2, 1))
    inbox.put("notes.txt", b"text")

    stores = map(store.child, "abcdefgh")

    def rows(source):
        return sorted(Driver(lambda: source, next(stores)).drain()["n"].to_pylist())

    assert rows(Files(f"{inbox.path}/b.parquet", SCHEMA)) == [1]
    assert rows(Files(f"{inbox.path}/*.parquet", SCHEMA)) == [0, 1]
    assert rows(Files(f"{inbox.path}/day=*/*.parquet", SCHEMA)) == [2]
    assert rows(Files(inbox.path, SCHEMA, pattern="b.*")) == [1, 2]
    assert rows(Files(inbox.path, SCHEMA, pattern="*.parquet", recursive=False)) == [0, 1]
    with pytest.raises(ConfigError, match="write one or the other"):
        Files(f"{inbox.path}/*.parquet", pattern="a*")


def test_names_that_are_no_input(inbox, store) -> None:
    inbox.put("a.parquet", table(0, 1))
    for name in (
        "_SUCCESS",
        ".a.parquet.crc",
        "_temporary/0/b.parquet",
        "c.parquet.tmp",
        "d.parquet._COPYING_",
    ):
        inbox.put(name, b"x")
    driver = Driver(lambda: Files(inbox.path, SCHEMA), store)
    assert driver.batch().num_rows == 1
    assert FileLog(store).paths == ["a.parquet"]


def test_a_remote_folder(store) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe("/bucket/in/x/a.json", b'{"n":1}\n{"n":2}\n')
    memory.pipe("/bucket/in/_temporary/b.json", b"?")
    memory.pipe("/bucket/in/b.parquet.tmp", b"?")
    try:
        driver = Driver(lambda: Files("memory://bucket/in", SCHEMA), store)
        assert driver.batch()["n"].to_pylist() == [1, 2]
        with memory.open("/bucket/in/c.json", "wb") as file:
            file.write(b'{"n":3}')
        assert driver.batch()["n"].to_pylist() == [3]
        assert FileLog(store).paths == ["x/a.json", "c.json"]
    finally:
        memory.rm("/bucket", recursive=True)


def test_a_settled_folder_is_not_listed_again(inbox, store, monkeypatch) -> None:
    inbox.put("sub/a.parquet", table(0, 1))
    driver = Driver(lambda: Files(inbox.path, SCHEMA), store)
    listed = []
    scandir = os.scandir

    def watched(path):
        if "/in" in path:
            listed.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", watched)
    driver.batch(now=100.0)
    assert len(listed) == 2
    driver.batch(now=101.0)  # too soon after the folder was first seen so: a file might have the same time
    assert len(listed) == 4
    driver.batch(now=102.5)
    assert len(listed) == 6
    driver.batch(now=103.0)
    driver.batch(now=200.0)
    assert len(listed) == 6
    inbox.put("sub/b.parquet", table(1, 1))
    os.utime(f"{inbox.path}/sub", ns=(7, 7))
    assert driver.batch(now=201.0).num_rows == 1
    driver.batch(now=2000.0)  # once in a while it is listed all the same
    assert len(listed) > 8


def test_files_in_a_folder_that_names_a_column(inbox, store) -> None:
    inbox.put("day=2024-01-31/a.parquet", table(0, 2))
    inbox.put("day=__HIVE_DEFAULT_PARTITION__/a.parquet", table(2, 1))
    schema = pa.schema([("n", pa.int64()), ("day", pa.date32())])
    read = Driver(lambda: Files(inbox.path, schema), store).drain()
    days = dict(zip(read["n"].to_pylist(), map(str, read["day"].to_pylist()), strict=True))
    assert days == {0: "2024-01-31", 1: "2024-01-31", 2: "None"}


def test_only_keeps_the_log_of_an_open_source(inbox, store) -> None:
    inbox.put("a.parquet", table(0, 4))
    driver = Driver(lambda: Files(inbox.path, SCHEMA), store)
    driver.source = driver.source.only(["n"])
    assert driver.batch().to_pydict() == {"n": [0, 1, 2, 3]}


@pytest.mark.parametrize("another", [Files.fresh, lambda source: source.only(["n"])])
def test_another_query_has_a_log_of_its_own(inbox, store, another) -> None:
    """Even if the first one has seen the folder settle, and lists it no more."""
    inbox.put("a.parquet", table(0, 4))
    driver = Driver(lambda: Files(inbox.path, SCHEMA), store.child("a"))
    first = driver.batch(now=100.0)
    for now in (103.0, 104.0):
        driver.batch(now=now)
    other = Driver(lambda: another(driver.source), store.child("b"))
    assert other.batch(now=105.0)["n"].equals(first["n"])
    assert FileLog(store.child("a")).paths == FileLog(store.child("b")).paths == ["a.parquet"]
    inbox.put("b.parquet", table(4, 1))
    os.utime(inbox.path, ns=(1, 1))
    assert other.batch(now=106.0)["n"].to_pylist() == driver.batch(now=106.0)["n"].to_pylist() == [4]


@pytest.mark.parametrize("recursive", [True, False])
def test_a_remote_folder_that_has_no_file_yet(store, recursive) -> None:
    driver = Driver(lambda: Files("memory://nowhere/yet", SCHEMA, recursive=recursive), store)
    assert driver.plan().ranges == ()
    assert driver.plan().offset is None


def test_a_batch_takes_so_many_files_at_most(inbox, store, monkeypatch) -> None:
    monkeypatch.setattr(files, "MOST_FILES", 2)
    for at in range(5):
        inbox.put(f"{at}.parquet", table(at, 0), mtime=at)
    driver = Driver(lambda: Files(inbox.path, SCHEMA), store)
    planned = driver.plan()
    assert (len(planned.ranges), planned.offset, planned.more) == (1, {"file": 2, "at": 0}, True)


def test_links_to_folders_are_not_entered(inbox, store) -> None:
    inbox.put("a.parquet", table(0, 1))
    os.symlink(inbox.path, f"{inbox.path}/loop")
    os.symlink(f"{inbox.path}/a.parquet", f"{inbox.path}/b.parquet")
    assert Driver(lambda: Files(inbox.path, SCHEMA), store).drain()["n"].to_pylist() == [0, 0]
