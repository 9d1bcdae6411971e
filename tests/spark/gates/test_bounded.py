"""Gates around a part of a Spark job: `hg.bounded`."""

import datetime as dt
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from operator import methodcaller
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import headgate as hg
from headgate.errors import ConfigError, MissingColumn, SinkFailed, WaveFailed
from headgate.flow.row_ranges import whole_files
from headgate.spark.gates import staged_rows
from headgate.spark.gates.bounded import Wave
from headgate.spark.gates.staged_rows import StagedRows
from headgate.storage.store import Store


@pytest.fixture(scope="module")
def numbers(spark: Any) -> DataFrame:
    """0 to 999, each with a fan-out of 0 to 6."""
    rows: DataFrame = spark.range(0, 1000, 1, 3).withColumn("n", (F.col("id") % 7).cast("int"))
    return rows


def as_rows(tables: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for table in tables for row in table.to_pylist())


def whole(frame: DataFrame) -> list[tuple[Any, ...]]:
    return as_rows([frame.toArrow()])


def slices(rows: DataFrame) -> DataFrame:
    """Outputs lo to hi of each row."""
    return rows.select("id", F.explode(F.sequence(F.col("lo"), F.col("hi") - 1)).alias("i"))


def test_iterating_gives_what_the_step_alone_gives(numbers: DataFrame) -> None:
    def step(rows: DataFrame) -> DataFrame:
        return rows.select("id", F.explode(F.array_repeat("id", 2)).alias("again"))

    waves: list[Wave] = []
    out = hg.bounded(numbers, step, batch=300, in_flight=2, on_wave=waves.append)
    tables = list(out)
    assert as_rows(tables) == whole(step(numbers))
    assert sorted(wave.stamp for wave in waves) == [(0,), (1,), (2,), (3,)]
    assert [wave.rows for wave in waves].count(300) == 3
    assert waves[-1].part == 1.0


def test_a_shuffle_inside_and_a_batch_size_found_by_itself(numbers: DataFrame) -> None:
    out = hg.bounded(numbers, lambda rows: rows.groupBy("n").count(), batch="auto")
    assert sum(row[1] for row in as_rows(out)) == 1000


@pytest.mark.parametrize("largest", [0, 4_000_000], ids=["read by Spark", "read by Python"])
def test_credits_in_output_rows_are_a_hard_bound(
    numbers: DataFrame, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_rows, "LARGEST_BYTES", largest)
    seen: list[int] = []
    lock = threading.Lock()

    def step(rows: DataFrame) -> DataFrame:
        total = rows.agg(F.sum(F.col("hi") - F.col("lo"))).first()
        assert total is not None
        wanted = total[0]
        with lock:
            seen.append(wanted)
        return slices(rows)

    out = hg.bounded(numbers, step, batch=1200, in_flight=2, fan_out=hg.FanOut("n", "lo", "hi"))
    expected = sorted((i, j) for i in range(1000) for j in range(i % 7))
    assert as_rows(out) == expected
    assert max(seen) == 1200
    assert sum(seen) == len(expected)


def test_one_row_larger_than_the_credit_is_divided(spark: Any) -> None:
    one = spark.createDataFrame([(1, 10), (2, 0), (3, 1)], "id long, n long")
    out = hg.bounded(one, slices, batch=4, fan_out=hg.FanOut("n", "lo", "hi"))
    assert as_rows(out) == [*((1, i) for i in range(10)), (3, 0)]


def test_rows_stay_whole_without_names_for_their_parts(numbers: DataFrame) -> None:
    out = hg.bounded(numbers, lambda rows: rows.select("id"), batch=500, fan_out="n")
    assert as_rows(out) == [(i,) for i in range(1000) if i % 7]


def test_rows_are_the_same_whoever_reads_them(spark: Any, tmp_path: Path) -> None:
    columns = "a byte, b short, c int, d long, e float, f double, g boolean, h date, i binary, j string"
    day = dt.date(1969, 12, 31)
    rows = [
        (None,) * 10,
        (-1, 2, -3, 4, 0.5, -0.0, True, day, b"\\x00", "é"),
        (1, 2, 3, 4, 1.5, 2.5, False, day, b"", ""),
    ]
    staged = StagedRows.write(spark.createDataFrame(rows, columns).coalesce(1), Store(str(tmp_path / "rows")))
    ranges = whole_files(staged.lengths)
    by_python = staged.read(ranges)
    assert "MapInArrow" in by_python._jdf.queryExecution().toString()
    large = replace(staged, files=tuple(replace(file, bytes=10**9) for file in staged.files))
    by_spark = large.read(ranges)
    assert "MapInArrow" not in by_spark._jdf.queryExecution().toString()
    assert by_python.schema == by_spark.schema
    assert by_python.collect() == by_spark.collect() == rows
    times = spark.createDataFrame([(dt.datetime(2020, 1, 1),)], "at timestamp")
    others = StagedRows.write(times, Store(str(tmp_path / "times")))
    assert others.read(whole_files(others.lengths)).collect() == times.collect()


def test_several_rows_are_drawn_from_by_several_waves_at_once(spark: Any) -> None:
    """Ranges of one file that meet again are not mixed up, though both were suspended."""
    rows = spark.range(0, 40, 1, 1).selectExpr("id", "cast(id % 6 AS long) AS n")

    def make(row: dict[str, Any]) -> Iterator[tuple[int, int]]:
        yield from ((row["id"], i) for i in range(row["n"]))

    out = hg.bounded(rows, explode=make, schema="id long, i long", batch=7, in_flight=3)
    assert as_rows(list(out)) == [(k, i) for k in range(40) for i in range(k % 6)]


def test_an_iterator_is_suspended_and_resumed(spark: Any) -> None:
    rows = spark.createDataFrame([(1, 25), (2, 0), (3, 3), (4, 40), (5, 1)], "id long, n long").coalesce(1)

    def make(row: dict[str, Any]) -> Iterator[tuple[int, int]]:
        for i in range(row["n"]):
            yield row["id"], i

    def behind(made: DataFrame) -> DataFrame:
        return made.where("i % 2 = 0")

    out = hg.bounded(rows, behind, explode=make, schema="id long, i long", batch=10, in_flight=2)
    tables = list(out)
    sizes = [table.num_rows for table in tables]
    assert max(sizes) <= 10
    result = as_rows(tables)
    wanted = {1: 25, 3: 3, 4: 40, 5: 1}
    assert result == sorted((k, i) for k, n in wanted.items() for i in range(0, n, 2))


def test_gates_inside_of_gates(numbers: DataFrame) -> None:
    inner: list[Wave] = []

    def outer_step(rows: DataFrame) -> Any:
        return hg.bounded(slices(rows), lambda made: made, batch=600, in_flight=1, on_wave=inner.append)

    out = hg.bounded(numbers, outer_step, batch=1500, in_flight=2, fan_out=hg.FanOut("n", "lo", "hi"))
    assert out.count() == sum(i % 7 for i in range(1000))
    stamps = [wave.stamp for wave in inner]
    assert {len(stamp) for stamp in stamps} == {2}
    assert len(set(stamps)) == len(stamps)
    for outer in {stamp[0] for stamp in stamps}:
        assert [s[1] for s in stamps if s[0] == outer] == sorted(s[1] for s in stamps if s[0] == outer)
    assert max(wave.rows for wave in inner) <= 600


def test_waves_in_flight_never_pass_the_bound(numbers: DataFrame) -> None:
    inside, most, lock = 0, 0, threading.Lock()

    def publish(frame: DataFrame, wave: int) -> None:
        frame.count()

    def step(rows: DataFrame) -> DataFrame:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        return rows

    def ended(wave: Wave) -> None:
        nonlocal inside
        with lock:
            inside -= 1

    flowed = hg.bounded(numbers, step, batch=200, in_flight=3, on_wave=ended).to(publish)
    assert most == 3
    assert (flowed.waves, flowed.rows, flowed.retried) == (5, 1000, 0)
    assert flowed.most_in_flight == 600


def test_a_parquet_folder(numbers: DataFrame, tmp_path: Path, spark: Any) -> None:
    target = str(tmp_path / "out")
    hg.bounded(numbers, lambda rows: rows, batch=400).to(target)
    assert spark.read.parquet(target).select("id").distinct().count() == 1000
    assert spark.read.parquet(target).count() == 1000
    with pytest.raises(ConfigError, match="has batches already"):
        hg.bounded(numbers, lambda rows: rows, batch=400).to(target)


def test_an_empty_input_gives_nothing(spark: Any) -> None:
    empty = spark.createDataFrame([], "id long")
    assert hg.bounded(empty, lambda rows: rows, batch=10).count() == 0
    assert list(hg.bounded(empty, lambda rows: rows, batch=10)) == []


def test_a_wave_without_output_is_through_all_the_same(numbers: DataFrame) -> None:
    waves: list[Wave] = []
    assert (
        hg.bounded(numbers, lambda rows: rows.where("id < 0"), batch=250, on_wave=waves.append).count() == 0
    )
    assert len(waves) == 4


def test_a_failed_wave_is_tried_again_alone(numbers: DataFrame, tmp_path: Path) -> None:
    flag = str(tmp_path / "failed")

    def shaky(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        for rows in batches:
            if 500 in rows.column("id").to_pylist() and not os.path.exists(flag):
                with open(flag, "w"):
                    pass
                raise RuntimeError("out of luck")
            yield rows

    memory = hg.sinks.Memory()
    flowed = hg.bounded(numbers, lambda rows: rows.mapInArrow(shaky, rows.schema), batch=200).to(memory)
    assert (flowed.retried, flowed.waves) == (1, 5)
    assert memory.table().column("id").to_pylist().__len__() == 1000
    assert set(memory.table().column("id").to_pylist()) == set(range(1000))


def test_a_wave_that_fails_for_good_is_named(numbers: DataFrame) -> None:
    def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            raise RuntimeError("it is broken")
        yield from ()

    with pytest.raises(WaveFailed, match=r"wave \(0,\) failed 2 times.*it is broken"):
        hg.bounded(numbers, lambda rows: rows.mapInArrow(broken, rows.schema), batch=1000).count()
    with pytest.raises(WaveFailed, match=r"it is broken"):
        list(hg.bounded(numbers, lambda rows: rows.mapInArrow(broken, rows.schema), batch=200))


def test_a_step_that_raises_is_not_tried_again(numbers: DataFrame) -> None:
    calls: list[int] = []

    def step(rows: DataFrame) -> DataFrame:
        calls.append(1)
        raise KeyError("colour")

    with pytest.raises(WaveFailed, match="expand raised KeyError: 'colour'"):
        hg.bounded(numbers, step, batch=2000).count()
    assert len(calls) == 1
    with pytest.raises(WaveFailed, match="expand returned int"):
        hg.bounded(numbers, lambda rows: 3, batch=2000).count()


def test_a_sink_that_fails_midway_is_told(numbers: DataFrame) -> None:
    taken: list[int] = []

    def full(frame: DataFrame, wave: int) -> None:
        if wave == 2:
            raise OSError("disk full")
        taken.append(wave)

    with pytest.raises(
        SinkFailed, match=r"result of wave 2: OSError: disk full. It has the results of the 2 waves"
    ):
        hg.bounded(numbers, lambda rows: rows, batch=100, in_flight=1).to(full)
    assert taken == [0, 1]


def test_a_consumer_may_leave(numbers: DataFrame) -> None:
    for table in hg.bounded(numbers, lambda rows: rows, batch=100):
        assert table.num_rows == 100
        break
    assert not [t for t in threading.enumerate() if t.name.startswith("headgate-bounded")]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"batch": 0}, "batch=0 is below 1"),
        ({"in_flight": 0}, "in_flight=0 is below 1"),
        ({"batch": "large"}, "batch='large' is not a whole number, nor \"auto\""),
        ({"retries": -1}, "retries=-1"),
        ({"explode": 3, "schema": "a int"}, "explode=3"),
        ({"explode": lambda row: []}, "needs schema"),
        ({"explode": lambda row: [], "schema": "a rocket"}, "cannot be read"),
    ],
)
def test_what_makes_no_sense_is_refused(numbers: DataFrame, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        hg.bounded(numbers, lambda rows: rows, **options)


def test_wrong_fan_outs_are_refused(numbers: DataFrame) -> None:
    with pytest.raises(MissingColumn, match="'m'"):
        hg.bounded(numbers, lambda rows: rows, fan_out="m").count()
    with pytest.raises(ConfigError, match="must be an integer"):
        hg.bounded(numbers.withColumn("n", F.lit("x")), lambda rows: rows, fan_out="n").count()
    with pytest.raises(WaveFailed, match="a fan-out cannot be -1"):
        hg.bounded(numbers.withColumn("n", F.lit(-1)), lambda rows: rows, fan_out="n").count()


class NotForThreads:
    """A function that must not be pickled by two threads at once, like numba's. In the worker it gives its input."""

    def __init__(self) -> None:
        self.pickling, self.pickled, self.raced = 0, 0, False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError

    def __reduce__(self) -> Any:
        self.pickling += 1
        time.sleep(0.05)
        self.raced |= self.pickling > 1
        self.pickling -= 1
        self.pickled += 1
        return methodcaller, ("__iter__",)


def test_expand_is_called_by_one_thread_at_a_time(numbers: DataFrame) -> None:
    step = NotForThreads()
    out = hg.bounded(numbers, lambda rows: rows.mapInArrow(step, rows.schema), batch=200, in_flight=3)
    assert out.count() == 1000
    assert step.pickled >= 5
    assert not step.raced
