"""Skew and shares of time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doctor import logs

from headgate.doctor.application import Batch, Stage, Task
from headgate.doctor.events import read_events
from headgate.doctor.findings import PYTHON, STATE, covered_ms, find, peak_over_mean, shares_of

MS = st.floats(0, 1e5)


@st.composite
def tasks(draw):
    launch, run = draw(MS), draw(MS)
    names = [("MapInArrow", PYTHON)] + [("StateStoreSave", name) for name in STATE]
    return Task(
        partition=draw(st.integers(0, 9)),
        launch=launch,
        finish=launch + run + draw(MS),
        run_ms=run,
        wait_ms=draw(MS),
        fetch_ms=draw(MS),
        write_ms=draw(MS),
        metrics=draw(st.dictionaries(st.sampled_from(names), MS)),
    )


@given(st.lists(tasks(), max_size=8), st.floats(0, 1e6), st.dictionaries(st.just("queryPlanning"), MS))
def test_shares_are_parts_of_one(some, batch_ms, durations) -> None:
    batch = Batch(0, 0.0, 1, {**durations, "triggerExecution": batch_ms}, stages=(Stage(0, tuple(some)),))
    shares = shares_of(batch)
    parts = [shares.fixed, shares.python, shares.shuffle, shares.state, shares.rest]
    assert min(parts) >= -1e-9
    assert sum(parts) == pytest.approx(1.0)


@given(st.lists(tasks(), min_size=1, max_size=8))
def test_tasks_cover_no_more_than_their_span_and_no_less_than_the_longest(some) -> None:
    covered = covered_ms(some)
    assert covered <= max(t.finish for t in some) - min(t.launch for t in some) + 1e-6
    assert covered >= max(t.finish - t.launch for t in some) - 1e-6


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_the_peak_is_between_the_mean_and_all_of_it(values) -> None:
    assert 1 - 1e-9 <= peak_over_mean(values) <= len(values) + 1e-9


def found(loads, **kind):
    (query,) = read_events(logs.lines(logs.log(loads, **kind)), "the log").queries
    return find(query)


def test_a_skewed_stage_names_its_partition() -> None:
    result = found([[10, 10, 70, 10]] * 8)
    (stage,) = result.stages
    assert (stage.kind, stage.key, stage.partitions, stage.rows) == ("aggregate", ("user",), 4, 100)
    assert stage.skew.time == pytest.approx(2.8)
    assert stage.skew.rows == pytest.approx(2.8)
    (slow,) = stage.slow
    assert (slow.partition, slow.batches, slow.share_of_rows) == (2, 4, pytest.approx(0.7))
    assert (result.batches, result.counted, result.rows, result.batch_ms) == (8, 4, 100, 120)
    assert result.shares.fixed == pytest.approx(50 / 120)


def test_a_balanced_stage_has_no_slow_partition() -> None:
    (stage,) = found([[50, 51, 49, 50]] * 4).stages
    assert stage.slow == ()
    assert stage.skew.time == pytest.approx(1.02)


@pytest.mark.parametrize(
    ("node", "text", "kind"),
    [
        ("StateStoreSave", "StateStoreSave [user#1L, window#7-T20000ms], state info [", "windows"),
        ("SessionWindowStateStoreSave", "SessionWindowStateStoreSave [user#1L]", "sessions"),
        ("StreamingDeduplicateWithinWatermark", "StreamingDeduplicateWithinWatermark [user#1L]", "dedup"),
        ("StreamingSymmetricHashJoin", "StreamingSymmetricHashJoin [user#1L], [other#2L], Inner", "join"),
        ("FlatMapGroupsInPandasWithState", "FlatMapGroupsInPandasWithState f(), [user#1L]", "kernel"),
        ("TransformWithStateInPySpark", "TransformWithStateInPySpark [user#1L]", "kernel"),
    ],
)
def test_kinds_of_operators(node, text, kind) -> None:
    (stage,) = found([[5, 5]] * 2, node=node, text=text).stages
    assert (stage.kind, stage.key) == (kind, ("user",))
