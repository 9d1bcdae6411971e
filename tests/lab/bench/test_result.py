"""The benchmarks' JSON: the shape that DESIGN fixes, and goals that are judged as they were set."""

import json

import pytest
from rich.console import Console

from headgate.errors import ConfigError
from headgate_lab import bench
from headgate_lab.bench import aggregate
from headgate_lab.bench.result import Goal, Report, Result, machine


@pytest.fixture
def report():
    result = Result("aggregate", "rows/s", 900.0, "native", 300.0, {"headgate": [1.0, 2.0], "native": [3.0]})
    return Report("aggregate", (result,), (Goal("three times", 3.0, 3.0),))


def test_the_shape_is_the_one_of_the_design(report) -> None:
    data = json.loads(json.dumps(report.as_json(), allow_nan=False))
    assert list(data) == ["bench", "machine", "results", "goals"]
    assert list(data["results"][0]) == ["name", "unit", "value", "rival", "rival_value", "ratio", "samples"]
    assert data["results"][0]["ratio"] == 3.0
    assert data["goals"] == [{"name": "three times", "goal": ">= 3x", "measured": 3.0, "ok": True}]


def test_the_machine_is_described() -> None:
    assert {"cpu", "cores", "memory_gb", "python", "spark", "java", "load"} <= set(machine())


@pytest.mark.parametrize(
    ("goal", "ok"),
    [
        (Goal("at least, just met", 3.0, 3.0), True),
        (Goal("at least, just missed", 3.0, 2.999), False),
        (Goal("at most, just met", 1.3, 1.3, at_most=True), True),
        (Goal("at most, just missed", 1.3, 1.301, at_most=True), False),
    ],
    ids=lambda value: value.name if isinstance(value, Goal) else None,
)
def test_a_goal_is_not_softened(goal, ok) -> None:
    assert goal.ok is ok


def test_the_table_shows_ratio_goal_and_samples(report) -> None:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(report.as_table())
    console.file.close()
    text = console.export_text()
    assert "3.00x" in text
    assert ">= 3x" in text
    assert "native" in text


def test_aggregate_takes_the_faster_native_store_and_the_slower_batch_time() -> None:
    sizes = aggregate.AggregateSizes(rows=1000)
    ours, small = "headgate", "headgate, small batches"
    times = {ours: [100.0], small: [50.0]}
    for sink in aggregate.SINKS:
        for store, ms in (("hdfs", 400.0), ("rocksdb", 500.0)):
            name = aggregate.native_name(store, sink)
            times |= {name: [ms], f"{name}, small batches": [ms / 10]}
    times |= {aggregate.state_name(sizes.few_keys): [10.0], aggregate.state_name(sizes.many_keys): [12.0]}
    report = aggregate.report(times, sizes, where={}, quick=False)
    measured = [(goal.measured, goal.ok) for goal in report.goals]
    assert measured == [(4.0, True), (4.0, True), (1.2, True), (1.25, False), (1.25, False)]


def test_an_unknown_bench_lists_what_there_is() -> None:
    with pytest.raises(ConfigError, match=r"unknown bench 'agregate'.*history.*did you mean 'aggregate'"):
        bench.run("agregate")
