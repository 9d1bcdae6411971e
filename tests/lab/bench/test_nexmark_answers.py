"""Nexmark's answers: which rows count, how many differ, and what the bench makes of it."""

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import HeadgateError
from headgate_lab.bench import nexmark
from headgate_lab.bench.nexmark import answers, ours
from headgate_lab.bench.nexmark.native import TWINS
from headgate_lab.bench.nexmark.queries import QUERIES, REFUSED, Query
from headgate_lab.bench.rounds import folder_of
from headgate_lab.bench.versus import job_name

rows = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), max_size=12)
APPENDED = Query("of a test", ("bid",), ("id", "n"))
FINAL = Query("of a test", ("bid",), ("id", "n"), final=("id",))


def table(found, names=("id", "n")):
    columns = list(zip(*found, strict=True)) or [()] * len(names)
    return pa.table({n: pa.array(c, pa.int64()) for n, c in zip(names, columns, strict=True)})


@settings(max_examples=50)
@given(rows, rows.filter(len))
def test_rows_differ_as_often_as_one_side_has_more_of_them(a, b) -> None:
    more, less = Counter(a), Counter(b)
    assert answers.differing(table(a), table(b)) == ((more - less) + (less - more)).total()


def test_nothing_to_compare_with_is_an_error() -> None:
    with pytest.raises(HeadgateError, match="take more events"):
        answers.differing(table([]), table([]))


def test_answers_are_read_without_those_of_the_closing_events_and_the_last_of_each_counts(tmp_path) -> None:
    for number, found in {10: [(1, 7), (0, 9)], 9: [(1, 5), (2, 6)]}.items():
        (tmp_path / f"batch={number}").mkdir()
        pq.write_table(table(found), tmp_path / f"batch={number}" / "part.parquet")
    assert Counter(map(tuple, map(dict.values, answers.read(tmp_path, APPENDED).to_pylist()))) == Counter(
        [(1, 7), (1, 5), (2, 6)]
    )
    assert answers.differing(answers.read(tmp_path, FINAL), table([(1, 7), (2, 6)])) == 0


def test_times_are_compared_as_instants() -> None:
    query = Query("of a test", ("bid",), ("id", "time"))
    kinds = (pa.timestamp("us", tz="UTC"), pa.timestamp("ns"))
    made = [
        pa.table({"id": [1], "time": pa.array([5_000], "int64").cast(pa.timestamp("us")).cast(k)})
        for k in kinds
    ]
    one, two = (answers.counted(t.append_column("batch", [[0]]), query) for t in made)
    assert answers.differing(one, two) == 0


def test_every_query_is_there_for_both_systems() -> None:
    assert list(QUERIES) == list(ours.STEPS) == list(TWINS)


def test_the_faster_native_store_counts_and_what_differs_is_a_missed_goal() -> None:
    sizes = nexmark.NexmarkSizes(events=50_000, stores=("hdfs", "rocksdb"))
    times = {job_name(query): [100.0] for query in QUERIES}
    for store, ms in (("hdfs", 200.0), ("rocksdb", 150.0)):
        times |= {job_name(query, store): [ms] for query in QUERIES if query not in REFUSED}
    compared = {
        query: nexmark.Compared(10, int(query == "q5"), "no" * (query in REFUSED)) for query in QUERIES
    }
    report = nexmark.report(times, compared, sizes, where={}, quick=False)
    ratios = {one.name.split(":")[0]: one.ratio for one in report.results}
    assert ratios == {query: None if query in REFUSED else 1.5 for query in QUERIES}
    assert [goal.name[:3] for goal in report.goals if not goal.ok] == ["q5:"]
    rates = {one.name.split(":")[0]: one.value for one in report.results}
    assert (rates["q3"], rates["q5"]) == (40_000, 460_000)


def test_each_job_works_in_a_folder_of_its_own(tmp_path) -> None:
    names = [job_name(query, store) for query in QUERIES for store in ("", "hdfs", "rocksdb")]
    assert len({folder_of(name, tmp_path) for name in names}) == len(names)
