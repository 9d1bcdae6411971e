"""The job that warms a session up: once, in the background, and nothing depends on it."""

import logging
import subprocess
import sys
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


IN_A_WORKER = """
import sys
from headgate.spark.worker_daemon import preload
preload()
assert not {"pandas", "scipy.linalg"} & set(sys.modules)
import numba, numpy as np, pyarrow as pa
assert pa.table({"a": [1, 2]}).to_pandas().a.sum() == 3
import pandas as pd
assert pa.array(pd.Series([1, 2])).to_pylist() == [1, 2]
assert pa.Table.from_pandas(pd.DataFrame({"x": [1.0]})).num_rows == 1
assert numba.njit(lambda a: np.dot(a, a)[0, 0])(np.eye(2)) == 1
"""


def test_what_the_daemon_does_not_load_can_be_imported_in_a_worker() -> None:
    subprocess.run([sys.executable, "-c", IN_A_WORKER], check=True)
