"""Exporters: a port that is scraped, a text file, logs, and what a listener may do wrong."""

import io
import json
import logging
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from tests.observe.facts import batch_event
from tests.observe.test_samples import read

import headgate as hg
from headgate import agg, logs
from headgate.errors import ConfigError
from headgate.observe.events import Event, QueryEvent
from headgate.observe.export.announcer import Announcer
from headgate.observe.export.later import Later
from headgate.observe.export.port import Port
from headgate.stage.facts import BatchFacts
from headgate.stage.stage import KeyedStage
from headgate.testing import InProcess


@pytest.fixture
def port() -> Iterator[Port]:
    opened = Port(0, host="127.0.0.1")
    yield opened
    opened.close()


def scraped(port: Port, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port.port}{path}") as answer:
        return str(answer.read().decode())


def test_a_port_is_scraped(port: Port) -> None:
    port(batch_event(0))
    port(batch_event(1))
    assert read(scraped(port))["headgate_rows_total", "query=users", "stage=0"] == 2000
    with pytest.raises(urllib.error.HTTPError, match="404") as refused:
        scraped(port, "/secrets")
    refused.value.close()


def test_the_queries_of_a_process_share_a_port(port: Port) -> None:
    other = Port(port.port, host="127.0.0.1")
    port(batch_event(query="one"))
    other(batch_event(query="two"))
    assert {name[1] for name in read(scraped(port)) if name[0] == "headgate_rows_total"} == {
        "query=one",
        "query=two",
    }


def test_a_port_that_another_process_has_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"metrics_port={number} cannot be opened.*0 for a free one"):
            Port(number, host="127.0.0.1")


@pytest.mark.parametrize("wrong", [-1, 70_000, "9108", True, 1.5])
def test_what_is_not_a_port_raises(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="is not a port"):
        Port(wrong)


def test_a_text_file_is_replaced_as_a_whole(tmp_path: Any) -> None:
    file = hg.observe.TextFile(tmp_path / "users.prom", every=0)
    file(batch_event(0))
    file.flush()
    first = (tmp_path / "users.prom").read_text()
    file(batch_event(1))
    file.flush()
    second = (tmp_path / "users.prom").read_text()
    assert read(first)["headgate_batches_total", "query=users", "stage=0"] == 1
    assert read(second)["headgate_batches_total", "query=users", "stage=0"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["users.prom"]


def test_a_text_file_is_not_written_with_every_small_batch_but_at_the_end(tmp_path: Any) -> None:
    file = hg.observe.TextFile(tmp_path / "users.prom", every=3600)
    for batch in range(3):
        file(batch_event(batch))
    file.flush()
    assert 'headgate_batches_total{query="users",stage="0"} 1\n' in (tmp_path / "users.prom").read_text()
    file(QueryEvent(event=Event.stopped, query="users", at=1.0))
    assert 'headgate_batches_total{query="users",stage="0"} 3\n' in (tmp_path / "users.prom").read_text()


def test_a_text_file_that_nobody_would_read_raises(tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match=r"end in \.prom"):
        hg.observe.TextFile(tmp_path / "users.txt")
    with pytest.raises(ConfigError, match="there is no folder"):
        hg.observe.TextFile(tmp_path / "gone" / "users.prom")


def stage_in(folder: str) -> KeyedStage[pa.Table]:
    return KeyedStage(
        InProcess(),
        key="k",
        operator=hg.Aggregate(n=agg.count()),
        checkpoint=folder,
        sink=hg.sinks.Memory(),
        routing=hg.Routing(channels=2, bins=8),
        durable=False,
    )


def rows(count: int) -> pa.Table:
    return pa.table({"k": pa.array(range(count), pa.int64())})


def test_a_stage_tells_what_a_batch_did(tmp_path: Any) -> None:
    stage, seen = stage_in(str(tmp_path / "c")), list[BatchFacts]()
    stage.watchers.append(seen.append)
    stage.process(rows(10), 0, None)
    stage.process(rows(5), 1, None)
    assert [(facts.batch, facts.report.rows) for facts in seen] == [(0, 10), (1, 5)]
    assert [step.name for step in seen[0].steps] == [
        "prepare",
        "compute",
        "decide",
        "commit",
        "journal",
        "retire",
        "publish",
    ]
    assert seen[0].output_bytes > 0
    assert all(step.ended >= step.began for step in seen[0].steps)


def test_a_watcher_that_raises_does_not_stop_the_stage(tmp_path: Any, caplog: Any) -> None:
    stage = stage_in(str(tmp_path / "c"))

    def wrong(facts: BatchFacts) -> None:
        raise ZeroDivisionError

    stage.watchers.append(wrong)
    stage.process(rows(3), 0, None)
    stage.process(rows(3), 1, None)
    assert "raised an error and was ignored" in caplog.text
    assert [(record.batch, record.stage) for record in caplog.records] == [(0, None), (1, None)]


def test_a_listener_that_raises_does_not_silence_the_others(caplog: Any) -> None:
    heard = list[QueryEvent]()
    announcer = Announcer("users", [lambda event: 1 / 0, heard.append])
    announcer.tell(Event.started)
    assert [event.event for event in heard] == [Event.started]
    assert "raised an error and was ignored" in caplog.text
    assert caplog.records[-1].query == "users"


def test_a_query_that_stays_idle_says_so_once_in_a_while() -> None:
    heard = list[QueryEvent]()
    announcer = Announcer("users", [heard.append])
    for _ in range(5):
        announcer.idle()
    announcer.tell(Event.batch)
    announcer.idle()
    assert [event.event for event in heard] == [Event.idle, Event.batch, Event.idle]


@pytest.mark.parametrize("name", ["", "out/users", "a" * 65, "a b", 5])
def test_a_name_that_cannot_be_a_label_raises(name: Any) -> None:
    with pytest.raises(ConfigError, match="is not a name"):
        Announcer(name)


def test_what_cannot_be_called_is_no_listener() -> None:
    with pytest.raises(ConfigError, match="is not a listener"):
        Announcer(None, ["print"])  # type: ignore[list-item]


def test_a_query_without_a_name_has_that_of_its_checkpoint() -> None:
    unnamed, named = Announcer(), Announcer("users")
    for announcer in (unnamed, named):
        announcer.identify("0123456789abcdef")
    assert (unnamed.query, named.query) == ("01234567", "users")


def test_logs_as_json_name_query_and_batch() -> None:
    out = io.StringIO()
    handler, ours = hg.observe.json_logs(out), logging.getLogger("headgate")
    try:
        announcer = Announcer("users")
        announcer.take(batch_event(7).stages[0])
        announcer.tell(Event.batch)
        with logs.about(query="users", batch=8):
            try:
                raise ValueError("a bad thing")
            except ValueError:
                logs.logger("headgate.stage").exception("it failed")
    finally:
        ours.removeHandler(handler)
        ours.setLevel(logging.NOTSET)
    first, second = map(json.loads, out.getvalue().splitlines())
    assert (first["query"], first["batch"], first["happened"]["rows"]) == ("users", 7, 1000)
    assert (second["query"], second["batch"], second["level"]) == ("users", 8, "ERROR")
    assert "ValueError: a bad thing" in second["error"]


def test_fields_that_a_caller_gives_stay() -> None:
    record = logging.makeLogRecord({"query": "mine"})
    for each in logs.logger("headgate.stage").filters:
        assert isinstance(each, logging.Filter)
        each.filter(record)
    assert (record.__dict__["query"], record.__dict__["batch"]) == ("mine", None)


def test_events_that_wait_are_handled_in_order_and_none_is_lost(caplog: Any) -> None:
    seen, release = list[int | None](), threading.Event()

    def slow(event: QueryEvent) -> None:
        release.wait()
        seen.append(event.batch)
        if event.batch == 1:
            raise ZeroDivisionError

    later = Later(slow)
    for batch in range(5):
        later(batch_event(batch))
    release.set()
    later(QueryEvent(event=Event.ended, query="users", at=1.0))
    assert seen == [0, 1, 2, 3, 4, None]
    assert "raised an error and was ignored" in caplog.text
