"""Rows by the clock, and rows from Python."""

import pickle
import subprocess
import sys
import threading

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sources.conftest import SCHEMA, table

from headgate.errors import ConfigError, SourceFailed
from headgate.sources import Demand, Rate, Rows
from headgate.state.payload import Payload


def rows_of(source, planned):
    task = pickle.loads(pickle.dumps(source))
    found = [batch for part in planned.ranges for batch in task.read(part.what)]
    assert found == [batch for part in planned.ranges for batch in task.read(part.what)]
    return pa.Table.from_batches(found, source.schema())


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 100_000), st.lists(st.tuples(st.floats(0, 3), st.integers(1, 50_000), st.integers(1, 4)))
)
def test_each_row_of_a_rate_once_and_at_its_time(per_second, steps) -> None:
    source, offset, now, given = Rate(per_second), None, 1_700_000_000.0, 0
    source.plan(None, Demand(1, now=now))
    for seconds, rows, tasks in steps:
        now += seconds
        planned = source.plan(offset, Demand(rows, tasks, now))
        read = rows_of(source, planned)
        assert read.num_rows == planned.rows <= rows
        assert read["value"].to_pylist() == list(range(given, given + read.num_rows))
        micros = read["timestamp"].cast(pa.int64()).to_pylist()
        assert micros == [
            1_700_000_000_000_000 + n * 1_000_000 // per_second for n in range(given, given + len(micros))
        ]
        assert all(at <= now * 1_000_000 + 1 for at in micros)
        given, offset = given + len(micros), planned.offset
        if offset is not None:
            source = Rate(per_second)


def test_a_clock_that_goes_back_gives_nothing() -> None:
    source = Rate(10)
    source.plan(None, Demand(100, now=10.0))
    offset = source.plan(None, Demand(100, now=20.0)).offset
    planned = source.plan(offset, Demand(100, now=5.0))
    assert (planned.ranges, planned.offset) == ((), offset)
    assert Rate(10).identity() != Rate(11).identity()
    for wrong in (0, 1.5, True):
        with pytest.raises(ConfigError, match="a whole number of rows a second"):
            Rate(wrong)  # type: ignore[arg-type]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 7)), max_size=8))
def test_each_row_from_python_once(steps) -> None:
    source, offset, read, given = Rows(schema=SCHEMA), None, [SCHEMA.empty_table()], 0
    for add, take in steps:
        source.add(table(given, add))
        given += add
        planned = source.plan(offset, Demand(take))
        read.append(rows_of(source, planned))
        assert planned.more == ((planned.offset or 0) < given)
        offset = planned.offset
    read.append(rows_of(source, source.plan(offset, Demand(1000))))
    assert pa.concat_tables(read).equals(table(0, given))


def test_rows_of_every_kind() -> None:
    pandas = pytest.importorskip("pandas")
    source = Rows([{"n": 0}, (1, "w1")], SCHEMA)
    source.add(table(2, 1).to_batches()[0])
    source.add([table(3, 1), table(4, 2)])
    source.add(pandas.DataFrame({"n": [6], "word": ["w6"]}))
    source.add(table(7, 1).cast(pa.schema([("n", pa.int64()), ("word", pa.large_string())])))
    read = rows_of(source, source.plan(None, Demand(100)))
    assert read["n"].to_pylist() == list(range(8))
    assert read["word"].to_pylist() == [None, *(f"w{n}" for n in range(1, 8))]
    assert Rows([{"a": 1}]).schema() == pa.schema([("a", pa.int64())])
    kind = Payload(pa.list_(pa.int64()), "array<bigint>")
    nested = Rows([([1, 2],)], pa.schema([("x", kind)]))
    assert rows_of(nested, nested.plan(None, Demand(1)))["x"].type == kind


def test_ranges_of_rows_share_the_work() -> None:
    source = Rows(table(0, 40_000))
    planned = source.plan(5, Demand(1 << 40, tasks=3))
    assert len(planned.ranges) == 3
    assert rows_of(source, planned)["n"].to_pylist() == list(range(5, 40_000))


def test_rows_from_many_threads() -> None:
    source = Rows(schema=SCHEMA)

    def give():
        for _ in range(50):
            source.add(table(0, 3))

    threads = [threading.Thread(target=give) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rows_of(source, source.plan(None, Demand(10_000))).num_rows == 600


def test_rows_that_do_not_fit() -> None:
    with pytest.raises(SourceFailed, match="has 1 rows, and the query has read 2: give the same rows again"):
        Rows(table(0, 1)).plan(2, Demand(1))
    with pytest.raises(ConfigError, match="no rows to tell the columns from"):
        Rows()
    with pytest.raises(ConfigError, match="no names of columns"):
        Rows([(1,)])
    with pytest.raises(ConfigError, match="row 0 of Rows has 1 values"):
        Rows([(1,)], SCHEMA)
    with pytest.raises(ConfigError, match="row 1 of Rows has 'z'; the columns are n, word"):
        Rows([{"n": 1}, {"z": 1}], SCHEMA)
    with pytest.raises(ConfigError, match="Rows do not fit the schema"):
        Rows([{"n": "x"}], SCHEMA)
    with pytest.raises(ConfigError, match="not word"):
        Rows(table(0, 1).select(["word"]), SCHEMA)
    with pytest.raises(ConfigError, match="column n of Rows is int64, and rows with double"):
        Rows(pa.table({"n": [1.5], "word": ["a"]}), SCHEMA)


def test_importing_sources_loads_neither_spark_nor_formats() -> None:
    code = "import sys, headgate.sources; print([m for m in sys.modules if m in sys.argv])"
    heavy = ["pyspark", "pandas", "numba", "pyarrow.parquet", "pyarrow.csv", "pyarrow.json"]
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
