"""`headgate serve` and `headgate query` as far as they go without Spark."""

import json
import socket

import numpy as np
import pytest
from tests.sql.world import rows_of
from typer.testing import CliRunner

from headgate.cli import app
from headgate.cli.serve import ServeOptions, listen, with_config
from headgate.errors import ConfigError

run = CliRunner()


@pytest.fixture(autouse=True)
def known(request, monkeypatch) -> None:
    """Where the service is and whose token to send, for tests that have one."""
    if "served" in request.fixturenames:
        served = request.getfixturevalue("served")
        monkeypatch.setenv("HEADGATE_URL", served.url)
        monkeypatch.setenv("HEADGATE_TOKEN", served.token)


def test_a_query_from_the_command_line(served) -> None:
    added = run.invoke(app, ["query", "add", "SELECT x FROM alpha WHERE x > 1"])
    assert "query 0 is registered" in added.output
    served.feed(rows_of(np.random.default_rng(1), 50))
    assert "x > 1" in run.invoke(app, ["query", "list"]).output
    tail = run.invoke(app, ["query", "tail", "0", "--rows", "2", "--json"])
    assert [json.loads(line)["query"] for line in tail.output.splitlines()] == [0, 0]
    assert "x=" in run.invoke(app, ["query", "tail", "0", "--rows", "1"]).output
    assert "queries_of_computation: 1" in run.invoke(app, ["query", "explain", "0"]).output
    assert "is paused" in run.invoke(app, ["query", "pause", "0"]).output
    assert "paused" in run.invoke(app, ["query", "list"]).output
    assert "runs again" in run.invoke(app, ["query", "resume", "0"]).output
    assert run.invoke(app, ["query", "rm", "0"]).exit_code == 0
    assert json.loads(run.invoke(app, ["query", "list", "--json"]).output) == {"queries": []}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["query", "add", "SELECT nope FROM alpha"], "no column 'nope'"),
        (["query", "tail", "7"], "there is no query 7"),
        (["query", "rm", "7"], "there is no query 7"),
        (["query", "list", "--token", "guess"], "a token is needed"),
        (["query", "list", "--url", "http://127.0.0.1:9"], "headgate serve"),
        (["serve", "--port", "99999999"], "cannot listen on"),
        (["serve", "--config", "nowhere.toml"], "cannot be read"),
    ],
)
def test_what_goes_wrong_is_told_in_a_line(served, arguments, told) -> None:
    answer = run.invoke(app, arguments)
    assert answer.exit_code == 1
    assert told in " ".join(answer.output.split())


def options(tmp_path):
    return ServeOptions(tmp_path, "127.0.0.1", 0, 4, "local[2]", "", True)


def test_a_configuration_wins_over_defaults(tmp_path) -> None:
    path = tmp_path / "service.toml"
    path.write_text(
        '[service]\nservers = 9\ndemo = false\n[limits]\nwindow_s = 60\n[spark]\n"spark.driver.memory" = "1g"\n'
        '[functions.twice]\ncall = "numpy:abs"\narguments = ["double"]\nreturns = "double"\n[streams.tick]\nformat = "rate"\n'
    )
    found = with_config(options(tmp_path), path)
    assert (found.servers, found.demo, found.limits.window_s) == (9, False, 60)
    assert list(found.functions) == ["twice"]
    assert found.streams["tick"]["format"] == "rate"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[servce]", "unknown section"),
        ("[service]\nport0 = 1", "'port0'"),
        ("[limits]\nwindow_s = 0", "above 0"),
        ("[functions.f]\ncall = 'nowhere:f'", "functions.f"),
        ("=", "cannot be read"),
    ],
)
def test_a_wrong_configuration_is_told(tmp_path, text, told) -> None:
    path = tmp_path / "service.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=told):
        with_config(options(tmp_path), path)


def test_an_answer_does_not_wait_for_an_acknowledgement() -> None:
    with listen("127.0.0.1", 0) as door, socket.create_connection(door.getsockname()):
        accepted, _ = door.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
