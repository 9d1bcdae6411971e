"""A stage fed by hand: each list of rows is one batch."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import headgate as hg


@pytest.fixture
def make_stage(tmp_path: Path) -> Callable[..., Any]:
    """A stage on a checkpoint of this test, with a memory sink unless told otherwise. Call it again for a
    restart.
    """

    def make(operator: Any, **options: Any) -> Any:
        settings = {
            "key": "k",
            "channels": 3,
            "bins": 16,
            "checkpoint": str(tmp_path / "ckpt"),
            "durable": False,
        }
        return hg.Stage(operator=operator, **{**settings, "sink": hg.sinks.Memory(), **options})

    return make


@pytest.fixture
def feed(spark: Any) -> Callable[..., None]:
    """Give a stage some batches of tuples, as Spark would, starting at batch `start`."""

    def give(
        stage: Any, batches: Iterable[list[tuple[Any, ...]]], schema: str = "k long, v long", start: int = 0
    ) -> None:
        for i, rows in enumerate(batches):
            stage(spark.createDataFrame(rows, schema).coalesce(1), start + i)

    return give
