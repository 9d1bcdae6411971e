"""Files of events, and a way to run a stream over them to its end."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.spark.direct.events import events, put

import headgate as hg


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for number in range(4):
        put(tmp_path / "in", number, events(1000, number))
    return tmp_path / "in"


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Any]:
    """Start a stream on the checkpoint of this test, with all that is there; wait for its end."""

    def start(results: Any, sink: Any = None, **options: Any) -> Any:
        written = results.write(sink if sink is not None else hg.sinks.Memory())
        settings = {"available_now": True, "max_rows": 700, "durable": False, **options}
        query = written.start(checkpoint=str(tmp_path / "ckpt"), **settings)
        query.await_end()
        return query

    return start
