"""The bench of direct streams: answers to 1e-9, the faster native store, goals as they were set, and parts put together."""

import json

import pyarrow as pa
import pytest

from headgate.errors import ConfigError
from headgate_lab.bench import direct
from headgate_lab.bench.direct import answers, merge, parts, report
from headgate_lab.bench.direct.works import DIRECT, PARTS, QUICK, STAGE, Sizes, native_way, works

MS = {DIRECT: 100.0, STAGE: 200.0, native_way("hdfs"): 600.0, native_way("rocksdb"): 500.0}
NOTHING_DIFFERS = parts.Same(10, {DIRECT: 0, STAGE: 0})


def found(part: str) -> report.Found:
    """The results of a part whose ways take what `MS` says."""
    sizes = Sizes()
    plan = parts.Plan(part, works(part, sizes))
    times = {parts.task_name(one.name, way): [ms] for one in plan.works for way, ms in MS.items()}
    return report.found(plan, times, {one.name: NOTHING_DIFFERS for one in plan.works}, sizes)


def test_the_faster_native_store_counts_and_foreach_batch_stands_beside_it() -> None:
    results = found("aggregate").results
    assert [(one.rival, one.ratio) for one in results] == [(native_way("rocksdb"), 5.0), (STAGE, 2.0)]


def test_a_slow_twin_counts_by_the_rows_of_its_own_batches() -> None:
    (native, _), sizes = found("kernel").results, Sizes()
    assert native.ratio == pytest.approx(5 * sizes.kernel_rows / sizes.twin.rows)


def test_the_goals_are_those_that_were_set() -> None:
    goals = {
        part: [goal.goal for goal in found(part).goals if goal.unit == "x"]
        for part in PARTS
        if works(part, QUICK)
    }
    assert goals == {
        "aggregate": [">= 5x"],
        "small": ["<= 0.4x"],
        "strings": [">= 4x"],
        "kernel": [">= 250x"],
        "history": [">= 150x"],
        "operators": [">= 3x", ">= 3x", ">= 4x", ">= 6x", ">= 6x"],
        "nexmark": [">= 2x"] * 8,
    }


def test_floats_are_equal_to_a_billionth_and_rows_in_any_order() -> None:
    ours = pa.table({"user": [1, 2, 3], "total": [0.3, 5.0, 7.0]})
    native = pa.table({"user": [3, 1, 2], "total": [7.0, 0.1 + 0.2, 5.00001]})
    assert answers.differing(ours, native) == 1
    assert answers.differing(ours.slice(1), native) == 1


def test_parts_that_were_measured_alone_are_put_together(tmp_path) -> None:
    for part in ("small", "aggregate"):
        alone = report.reported([found(part)], {"load": 1.0}, quick=False)
        (tmp_path / f"direct-{part}.json").write_text(json.dumps(alone.as_json()))
    both = merge.merged(tmp_path)
    assert [goal.as_json() for goal in both.goals] == [
        g.as_json() for p in ("aggregate", "small") for g in found(p).goals
    ]
    assert [one.as_json() for one in both.results] == [
        r.as_json() for p in ("aggregate", "small") for r in found(p).results
    ]
    both.save_picture(tmp_path / "img")
    assert sorted(path.name for path in (tmp_path / "img").iterdir()) == [
        "direct-speed.png",
        "direct-speed.svg",
    ]


def test_a_part_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'kernel'"):
        direct.run(quick=True, repeat=1, progress=lambda what, part: None, only=["kernle"])
