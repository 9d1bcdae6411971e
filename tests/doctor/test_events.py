"""From the lines of a log to values."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doctor import logs

from headgate.doctor.events import read_events
from headgate.errors import ConfigError


def read(events):
    return read_events(logs.lines(events), "the log")


def test_a_log_becomes_an_application_with_its_queries_batches_and_tasks() -> None:
    application = read(logs.log([[30, 10], [40, 20]]))
    assert (application.name, application.spark, application.cores, application.ended) == (
        "orders",
        "4.1.0",
        4,
        True,
    )
    (query,) = application.queries
    assert (query.name, [batch.rows for batch in query.batches]) == ("orders", [40, 60])
    (stage,) = query.batches[1].stages
    assert [(task.partition, task.shuffled_rows, task.run_ms) for task in stage.tasks] == [
        (0, 40, 40),
        (1, 20, 20),
    ]
    assert stage.nodes == (("StateStoreSave", "StateStoreSave [user#1L], state info ["),)
    assert stage.tasks[0].metric("number of updated state rows", of="StateStore") == 41


def test_progress_may_be_text_and_batches_without_rows_are_left_out() -> None:
    events = logs.log([[5, 5]])
    empty = logs.progress(1, rows=0, ms=3)
    empty["progress"] = json.dumps(empty["progress"])
    (query,) = read([*events, empty]).queries
    assert [batch.number for batch in query.batches] == [0]


def test_failed_tasks_do_not_count_and_a_retried_one_counts_once() -> None:
    failed = logs.task(0, 0, 0, rows=999, ms=999, state=1)
    failed["Task End Reason"] = {"Reason": "ExceptionFailure"}
    events = logs.log([[5, 5]])
    again = logs.task(0, 0, 0, rows=5, ms=7, state=1)
    (query,) = read([*events[:5], failed, *events[5:], again]).queries
    assert [task.run_ms for task in query.batches[0].stages[0].tasks] == [5, 5]


def test_executors_count_with_their_cores() -> None:
    added = [
        {"Event": "SparkListenerExecutorAdded", "Executor ID": str(n), "Executor Info": {"Total Cores": 3}}
        for n in range(4)
    ]
    removed = {"Event": "SparkListenerExecutorRemoved", "Executor ID": "2"}
    assert read([*logs.START, *added, removed]).cores == 9


@pytest.mark.parametrize("line", [b"PAR1\x00\x15", b"hello", b'{"a": 1}', b"[1, 2]"])
def test_what_is_no_event_log_is_refused(line) -> None:
    with pytest.raises(ConfigError, match="is not an event log of Spark"):
        read_events([line, line], "the log")


def test_an_empty_log_is_refused() -> None:
    with pytest.raises(ConfigError, match="is empty"):
        read_events([], "the log")


@given(st.integers(0, 400))
def test_a_log_that_is_cut_off_anywhere_gives_what_came_before(cut) -> None:
    text = b"\n".join(logs.lines(logs.log([[3, 1], [4, 2], [5, 5]])))
    cut = len(logs.lines(logs.log([[1]]))[0]) + cut * (len(text) - 100) // 400
    application = read_events(text[:cut].split(b"\n"), "the log")
    assert not application.ended
    assert application.damaged <= 1
    assert sum(len(query.batches) for query in application.queries) <= 3


@given(st.lists(st.dictionaries(st.text(), st.integers()), max_size=5))
def test_events_that_are_unknown_are_ignored(others) -> None:
    unknown = [{**other, "Event": "SparkListenerSomethingNew"} for other in others]
    assert read([*unknown, *logs.log([[2, 2]])]) == read(logs.log([[2, 2]]))


def test_an_event_in_another_shape_is_counted_and_passed_over() -> None:
    odd = {"Event": "SparkListenerExecutorAdded", "Executor ID": "9"}
    application = read([odd, *logs.log([[2, 2]])])
    assert application.damaged == 1
    assert len(application.queries) == 1
