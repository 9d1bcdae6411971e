"""`headgate query` against a service, and what `headgate serve` refuses before it starts Spark."""

import json

import numpy as np
import pytest
from tests.sql.world import rows_of
from typer.testing import CliRunner

from headgate.cli import app

run = CliRunner()


@pytest.fixture(autouse=True)
def environment(request, monkeypatch) -> None:
    """Put the address of the test's service, if it has one, and a token for it into the environment."""
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
    ("arguments", "message"),
    [
        (["query", "add", "SELECT nope FROM alpha"], "no column 'nope'"),
        (["query", "tail", "7"], "there is no query 7"),
        (["query", "rm", "7"], "there is no query 7"),
        (["query", "list", "--token", "guess"], "a valid token is needed"),
        (["query", "list", "--url", "http://127.0.0.1:9"], "headgate serve"),
        (["serve", "--port", "99999999"], "cannot listen on"),
        (["serve", "--config", "nowhere.toml"], "cannot be read"),
    ],
)
def test_an_error_is_one_line(served, arguments, message) -> None:
    answer = run.invoke(app, arguments)
    assert answer.exit_code == 1
    assert message in " ".join(answer.output.split())
