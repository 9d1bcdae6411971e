"""The job that warms a session up: once, in the background, and nothing depends on it."""

import logging
from typing import Any

import pytest

from headgate.spark import warm_up


def test_a_session_is_warmed_up_once(
    spark: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headgate.stage")
    monkeypatch.setattr(warm_up, "_warm", set())
    thread = warm_up.warm_up()
    assert thread is not None
    assert warm_up.warm_up() is None
    thread.join()
    assert not caplog.records


def test_a_failure_of_it_is_said_and_does_no_harm(
    spark: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headgate.stage")
    monkeypatch.setattr(warm_up, "_warm", set())
    monkeypatch.setattr(warm_up, "executors", lambda _: 1 // 0)
    thread = warm_up.warm_up()
    assert thread is not None
    thread.join()
    assert [record.getMessage() for record in caplog.records] == [
        "warming up failed: integer division or modulo by zero"
    ]
