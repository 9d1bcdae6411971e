"""Works of the bench of direct streams on a few rows: the direct way answers as native does."""

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headgate_lab.bench import data
from headgate_lab.bench.direct import answers
from headgate_lab.bench.direct.child import measure
from headgate_lab.bench.direct.parts import CLOSING
from headgate_lab.bench.direct.task import Task
from headgate_lab.bench.nexmark import events
from headgate_lab.bench.nexmark.queries import QUERIES

ROWS, BATCHES = 1_000, 2


@pytest.mark.parametrize(
    "operator",
    ["tumbling", "q8", *(pytest.param(q, marks=pytest.mark.full) for q in QUERIES if q != "q8")],
)
def test_the_direct_way_answers_as_native_does(operator: str, spark: Any, tmp_path: Path) -> None:
    rows, closing, source = ROWS, CLOSING, tmp_path / "in"
    if operator in QUERIES:
        events.write(source, events=5_000, batches=BATCHES)
        rows, closing = QUERIES[operator].rows(5_000), events.CLOSING
    else:
        last = pa.table({"user": [answers.CLOSING_USER], "amount": [0.0]})
        data.write(data.timed(chain(data.zipf(ROWS, BATCHES, 100), [last] * CLOSING)), source)
    task = Task(
        operator,
        "direct",
        operator,
        str(source),
        BATCHES + closing,
        str(tmp_path / "direct"),
        closing=closing,
        rows=rows,
    )
    twin = replace(task, system="native", store="hdfs", work=str(tmp_path / "native"))
    assert len(measure(spark, task, lambda said: None)) == BATCHES
    measure(spark, twin, lambda said: None)
    there, differing = answers.compared(operator, tmp_path / "direct", tmp_path / "native")
    assert there > 0
    assert differing == 0
