"""The bench of operators: ratios against the faster native store, and input whose times wander on."""

import pyarrow.compute as pc

from headgate_lab.bench import data, operators
from headgate_lab.bench.versus import job_name


def test_the_faster_native_store_counts() -> None:
    sizes = operators.OperatorSizes(rows=1000, join_rows=500, stores=("hdfs", "rocksdb"))
    times = {}
    for operator in operators.TITLES:
        times[job_name(operator)] = [100.0]
        times |= {job_name(operator, store): [ms] for store, ms in (("hdfs", 500.0), ("rocksdb", 250.0))}
    report = operators.report(times, sizes, where={}, quick=False)
    assert [(goal.measured, goal.ok) for goal in report.goals] == [(2.5, False), (2.5, False), (2.5, True)]
    assert all(one.rival and one.rival.endswith("RocksDB+changelog") for one in report.results)
    assert [one.name for one in report.results] == list(operators.TITLES.values())


def test_each_batch_is_a_minute_after_the_one_before() -> None:
    first, second = data.timed(data.zipf(1000, 2, 50))
    ahead = pc.subtract(pc.min(second["time"]), pc.min(first["time"])).as_py().total_seconds()
    assert 50 < ahead < 70
    assert [f.name for f in first.schema] == [name.split()[0] for name in data.TIMED.split(", ")]
