"""Processes of a service: what a standby answers, what a signal does, what a leader finds that has slept."""

import re
import shlex
import signal
import threading
import time
from contextlib import contextmanager, suppress

import httpx
import pytest
import typer.main
from tests.databases import postgres  # noqa: F401  (a fixture)
from tests.service.local import Local
from tests.service.pair import PATIENCE_S, ROOT, TOKEN, Member, Pair
from typer.testing import CliRunner

from headgate import errors
from headgate.cli.commands import app
from headgate.service.http.background import listening
from headgate.service.http.client import Client

HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def pair(tmp_path):
    pair = Pair(tmp_path)
    yield pair
    pair.end()


def test_a_standby_is_alive_but_not_ready_and_a_drained_leader_hands_over(pair) -> None:
    pair.environment["HEADGATE_SLOW_S"] = "1"
    leader, standby = pair.start(), None
    leader.await_phase("serving")
    standby = pair.start()
    standby.await_phase("standby")
    assert httpx.get(f"{standby.url}/health").json()["phase"] == "standby"
    refused = httpx.post(f"{standby.url}/queries", headers=HEADERS, json={"sql": "SELECT 1"})
    assert (refused.status_code, refused.json()["error"]) == (503, "standby")
    assert int(refused.headers["retry-after"]) >= 1
    assert httpx.get(f"{standby.url}/ready").status_code == 503

    with Client(leader.url, TOKEN) as client:
        client.add_source("alpha", {"x": "bigint"})
        query = client.register("SELECT x FROM alpha")
        events: list[object] = []

        def follow() -> None:
            with Client(leader.url, TOKEN) as other, suppress(errors.HeadgateError):
                for row in other.tail(query):
                    events.append(row["values"]["x"])

        tail = threading.Thread(target=follow)
        tail.start()
        client.push("alpha", [{"time": 1, "x": 1}])
        time.sleep(0.3)  # a batch takes a second here: it is under way
        leader.signal(signal.SIGTERM)
        leader.await_phase("draining")
        late = httpx.post(
            f"{leader.url}/sources/alpha/events", headers=HEADERS, json={"events": [{"time": 2, "x": 2}]}
        )
        assert (late.status_code, late.json()["error"], late.headers["connection"]) == (
            503,
            "draining",
            "close",
        )
    assert leader.wait() == 0
    tail.join(PATIENCE_S)
    assert events == [1], "the batch under way was finished, and its results were sent"
    pair.members.remove(leader)
    standby.await_phase("serving")
    with pair.client() as client:
        assert [row["values"]["x"] for row in client.results(query)[0]] == [1]


def test_a_leader_whose_engine_died_ends_and_the_standby_leads(pair, tmp_path) -> None:
    """It would acknowledge events for ever, and nobody would compute them."""
    pair.environment["HEADGATE_DEAD"] = str(tmp_path / "dead")
    leader = pair.start()
    leader.await_phase("serving")
    with Client(leader.url, TOKEN) as client:
        client.add_source("alpha", {"x": "bigint"})
        query = client.register("SELECT x FROM alpha")
    pair.environment.clear()
    standby = pair.start()
    standby.await_phase("standby")
    (tmp_path / "dead").touch()
    assert leader.wait() == 70
    pair.members.remove(leader)
    standby.await_phase("serving")
    with pair.client() as client:
        assert client.query(query)["state"] == "active"


@pytest.mark.full
def test_a_second_signal_ends_the_process_at_once(pair) -> None:
    pair.environment["HEADGATE_SLOW_S"] = "100"
    leader = pair.start()
    leader.await_phase("serving")
    with Client(leader.url, TOKEN) as client:
        client.add_source("alpha", {"x": "bigint"})
        client.push("alpha", [{"time": 1, "x": 1}])
    time.sleep(0.5)
    leader.signal(signal.SIGTERM)
    leader.await_phase("draining")
    leader.signal(signal.SIGTERM)
    assert leader.wait() == 128 + signal.SIGTERM


@pytest.mark.full
def test_stopping_does_not_wait_for_ever(tmp_path) -> None:
    member = Member(
        ["--folder", str(tmp_path / "service"), "--drain-s", "1"], tmp_path / "log", HEADGATE_SLOW_S="100"
    )
    member.await_phase("serving")
    with Client(member.url, TOKEN) as client:
        client.add_source("alpha", {"x": "bigint"})
        client.push("alpha", [{"time": 1, "x": 1}])
    time.sleep(0.5)
    member.signal(signal.SIGTERM)
    assert member.wait() == 1
    assert "nothing acknowledged is lost" in (tmp_path / "log").read_text()


@pytest.mark.full
def test_a_leader_that_slept_past_its_lease_is_superseded(tmp_path, postgres) -> None:  # noqa: F811
    """Each process has a folder of its own; registry and state are elsewhere. The leader sleeps, wakes and is told."""
    psycopg = pytest.importorskip("psycopg")
    shared = ["--registry", postgres, "--state", str(tmp_path / "state")]
    shared += ["--push", str(tmp_path / "push")]
    pair = Pair(tmp_path, lambda number: ["--folder", str(tmp_path / f"own-{number}"), *shared])
    try:
        old, new = pair.start(), None
        old.await_phase("serving")
        new = pair.start()
        new.await_phase("standby")
        with pair.client() as client:
            client.add_source("alpha", {"x": "bigint"})
            query = client.register("SELECT x FROM alpha")
            client.push("alpha", [{"time": 1, "x": 1}])
        old.signal(signal.SIGSTOP)
        new.await_phase("serving")
        answers: list[int] = []

        def push_to_old() -> None:
            body = {"events": [{"time": 2, "x": 2}]}
            try:
                answer = httpx.post(f"{old.url}/sources/alpha/events", headers=HEADERS, json=body, timeout=60)
                answers.append(answer.status_code)
            except httpx.TransportError:
                answers.append(0)

        pushing = threading.Thread(target=push_to_old)
        pushing.start()
        time.sleep(0.3)
        old.signal(signal.SIGCONT)
        assert old.wait() == 75
        pushing.join(60)
        assert answers in ([503], [0]), "nothing is acknowledged by a leader that was superseded"
        with Client(new.url, TOKEN) as client:
            client.push("alpha", [{"time": 3, "x": 3}])
            found: list[int] = []
            deadline = time.monotonic() + PATIENCE_S
            while not {1, 3} <= set(found) and time.monotonic() < deadline:
                found = [row["values"]["x"] for row in client.results(query)[0]]
            assert sorted(found) in ([1, 3], [1, 2, 3])
    finally:
        pair.end()
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")


PAGE = (ROOT / "docs" / "operate" / "service.md").read_text()


def commands(section) -> list[list[str]]:
    """The commands of a section of the page for operators."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    lines = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)).splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("headgate ")]


def test_the_commands_of_the_page_run(tmp_path, monkeypatch) -> None:
    """Those that serve are only parsed; the others run, in a folder of their own."""
    local = Local(tmp_path / "srv" / "headgate")
    local.service.close()
    run, tree = CliRunner(), typer.main.get_command(app)
    for words in commands("Standby") + commands("Backups"):
        words = [
            word.replace("/srv/", f"{tmp_path}/srv/").replace("/backup/", f"{tmp_path}/") for word in words
        ]
        if words[0] == "serve":
            serve = tree.commands["serve"]  # type: ignore[attr-defined]
            assert serve.make_context("serve", words[1:]).params["folder"].is_relative_to(tmp_path)
        elif words[0] == "query":
            monkeypatch.setenv("HEADGATE_TOKEN", local.token)
            with listening_at(words, local) as asked:
                answer = run.invoke(app, asked)
                assert answer.exit_code == 0, answer.output
        else:
            answer = run.invoke(app, words)
            assert answer.exit_code == 0, answer.output
    assert (tmp_path / "srv" / "restored" / "registry.db").exists()


@contextmanager
def listening_at(words, local):
    """The words of a command, with addresses of which the second serves."""
    local.start()
    with listening(local.service) as url:
        at = words.index("--url") + 1
        assert words[at].count(",") == 1
        yield [*words[:at], f"http://127.0.0.1:9,{url}", *words[at + 1 :]]
    local.service.close()
