"""When every channel reads a batch for itself, and when rows are sent to it."""

from typing import Any

import pyarrow as pa
import pytest

from headgate.sources.rate import Rate
from headgate.sources.source import CHEAP_ROWS, Demand, Range, Ranges, Source
from headgate.streams.planned import (
    PARTS_READ_AGAIN,
    ROWS_PER_TASK,
    Input,
    InputRange,
    Planned,
    read_by_channels,
    split_tasks,
)
from headgate.streams.sql_step import Where
from headgate.streams.steps import MapBatches

RATE = Rate(1)


class Remote(Source):
    """A source that says nothing about reading again."""

    def schema(self) -> pa.Schema:
        return RATE.schema()

    def identity(self) -> dict[str, Any]:
        return {}

    def plan(self, offset: Any, demand: Demand) -> Ranges:
        raise NotImplementedError

    def read(self, what: Any) -> Any:
        raise NotImplementedError


def planned(rows: int, one_input: Input | None = None, parts: int = 1) -> Planned:
    return Planned.of([one_input or Input(RATE)], [[Range(None, rows, parts)]])


@pytest.mark.parametrize(
    ("batch", "channels", "alone"),
    [
        (planned(CHEAP_ROWS), 2, True),
        (planned(CHEAP_ROWS + 1), 2, False),
        (planned(CHEAP_ROWS + 1), 1, True),
        (planned(CHEAP_ROWS // 15), 16, True),
        (planned(CHEAP_ROWS // 14), 16, False),
        (planned(1000, parts=PARTS_READ_AGAIN), 2, True),
        (planned(1000, parts=PARTS_READ_AGAIN + 1), 2, False),
        (planned(0), 2, False),
        (Planned(RATE.schema()), 1000, True),
        (planned(1000, Input(Remote())), 2, False),
        (planned(1000, Input(RATE, (Where("value > 1").bind(RATE.schema()),))), 2, True),
        (planned(1000, Input(RATE, (MapBatches(lambda rows: rows).bind(RATE.schema()),))), 2, False),
    ],
    ids=[
        "as many rows as may be", "one row more", "one channel", "many channels", "too many for them",
        "many files", "too many files", "an unknown number of rows", "nothing to read",
        "a source that is read once", "SQL", "a function of the user",
    ],
)  # fmt: skip
def test_a_batch_is_read_by_every_channel_while_that_is_cheap_and_repeatable(
    batch: Planned, channels: int, alone: bool
) -> None:
    assert read_by_channels(batch, channels) is alone


def test_a_function_of_the_user_is_worth_tasks_of_fewer_rows() -> None:
    function = MapBatches(lambda rows: rows).bind(RATE.schema())
    assert planned(1000).worth_a_task == ROWS_PER_TASK
    assert planned(1000, Input(RATE, (Where("value > 1").bind(RATE.schema()),))).worth_a_task == ROWS_PER_TASK
    slow = planned(1000, Input(RATE, (function,)))
    parts = [InputRange(0, n, 6000) for n in range(2)]
    assert len(split_tasks(parts, 2)) == 1
    assert len(split_tasks(parts, 2, slow.worth_a_task)) == 2
