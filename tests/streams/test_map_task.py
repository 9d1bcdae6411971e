"""The map task: no row is lost or sent twice, order is kept, and a retried task sends the same bytes."""

import json
import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import agg
from headgate.errors import SourceFailed
from headgate.operators.aggregate import Aggregate
from headgate.operators.event_time import Clock
from headgate.operators.history import HistoryWindow
from headgate.operators.windows import Windows, tumbling
from headgate.routing.column_hash import key_hashes
from headgate.routing.table import Table
from headgate.sources.source import Demand, Ranges, Source
from headgate.state.keys import KeySpec
from headgate.streams.map_task import MapTask, sent_schema, unpacked
from headgate.streams.planned import Input, InputRange
from headgate.testing.direct import Slices

COLUMNS = pa.schema([("k", pa.string()), ("x", pa.float64()), ("at", pa.timestamp("us", "UTC"))])


def task_of(operator: Any, source: Source, channels: int = 3) -> MapTask:
    bound = operator.bind(KeySpec(("k",), (pa.string(),)), COLUMNS)
    clock = Clock.start(bound.event_time)
    bound = bound.combined() or bound
    sent = sent_schema(bound, COLUMNS)
    return MapTask((Input(source),), COLUMNS, bound, sent, Table.uniform(16, channels), clock)


rows = st.lists(
    st.tuples(st.none() | st.sampled_from("abcdefgh"), st.none() | st.floats(allow_nan=False)), max_size=40
)


@given(drawn=rows, cuts=st.lists(st.integers(0, 40), max_size=3))
def test_every_row_arrives_once_in_order_at_the_channel_of_its_key(drawn: Any, cuts: Any) -> None:
    table = pa.table([[k for k, _ in drawn], [x for _, x in drawn], [None] * len(drawn)], schema=COLUMNS)
    task = task_of(HistoryWindow(3, "mean", of="x"), Slices(table))
    ends = [0, *sorted(min(cut, len(drawn)) for cut in cuts), len(drawn)]
    ranges = [InputRange(0, [a, b], b - a) for a, b in pairwise(ends)]
    blobs = list(task.run(enumerate(ranges)))
    assert list(task.run(enumerate(ranges))) == blobs, "a retried task sends the same"
    got: list[tuple[Any, Any]] = []
    for channel in range(3):
        parcels = list(unpacked(blob for c, blob in reversed(blobs) if c == channel))
        arrived = [row for parcel in parcels for row in parcel.rows.to_pylist()]
        got += [(row["k"], row["x"]) for row in arrived]
        for parcel in parcels:
            hashes = key_hashes(parcel.rows, task.operator.key)
            assert set(task.table.channel_of_hash(hashes).tolist()) <= {channel}
    for key in {k for k, _ in drawn}:
        assert [x for k, x in got if k == key] == [x for k, x in drawn if k == key]
    came = sum(parcel.came for _, blob in blobs for parcel in unpacked([blob]))
    assert came == len(drawn) == len(got)


def test_combined_rows_and_what_is_put_aside_are_counted_once() -> None:
    times = [None, 60_000_000, 120_000_000]
    table = pa.table(
        [["a", "a", "b"], [1.0, 2.0, 3.0], pa.array(times, COLUMNS.field("at").type)], schema=COLUMNS
    )
    operator = Windows(tumbling("1 minute"), on="at", delay="0 s", n=agg.count())
    parcels = [
        parcel
        for _, blob in task_of(operator, Slices(table)).run([(0, InputRange(0, [0, 3], 3))])
        for parcel in unpacked([blob])
    ]
    assert sum(parcel.came for parcel in parcels) == 3
    assert sum(parcel.rows.num_rows for parcel in parcels) == 2
    (aside,) = [parcel.aside for parcel in parcels if parcel.aside is not None]
    assert aside.column("reason").to_pylist() == ["no event time"]
    assert sum(parcel.seen["aside"].get("no event time", 0) for parcel in parcels if parcel.seen) == 1


class Bad(Source):
    """A source that cannot be read."""

    def __init__(self, columns: list[str] | None = None) -> None:
        self.columns = columns

    def __repr__(self) -> str:
        return "Bad()"

    def schema(self) -> pa.Schema:
        return COLUMNS

    def identity(self) -> dict[str, Any]:
        return {}

    def plan(self, offset: Any, demand: Demand) -> Ranges:
        raise NotImplementedError

    def read(self, what: Any) -> Iterator[pa.RecordBatch]:
        if self.columns is None:
            raise OSError("gone")
        yield pa.RecordBatch.from_pydict({name: ["a"] for name in self.columns})


@pytest.mark.parametrize(
    ("source", "said"),
    [(Bad(), "gone"), (Bad(["k"]), "without the column 'x'"), (Bad(["k", "x"]), "'x' as string")],
)
def test_an_error_travels_to_the_channel(source: Source, said: str) -> None:
    task = task_of(Aggregate(n=agg.count(), s=agg.sum("x")), source)
    ((channel, blob),) = task.run([(0, InputRange(0, "part 7", 1))])
    with pytest.raises(SourceFailed, match=said):
        list(unpacked([blob]))
    assert channel == 0


OPERATORS = [
    HistoryWindow(3, "mean", of="x"),
    Aggregate(n=agg.count(), total=agg.sum("x")),
    Windows(tumbling("1 minute"), on="at", delay="0 s", n=agg.count()),
]


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
@given(drawn=rows, cuts=st.lists(st.integers(0, 40), max_size=3), channels=st.integers(1, 4))
def test_a_channel_that_reads_for_itself_gets_what_it_would_be_sent(
    operator: Any, drawn: Any, cuts: Any, channels: int
) -> None:
    times = [None if x is None or not math.isfinite(x) else int(abs(x) % 300) * 1_000_000 for _, x in drawn]
    columns = [[k for k, _ in drawn], [x for _, x in drawn], pa.array(times, COLUMNS.field("at").type)]
    task = task_of(operator, Slices(pa.table(columns, schema=COLUMNS)), channels)
    ends = [0, *sorted(min(cut, len(drawn)) for cut in cuts), len(drawn)]
    ranges = [InputRange(0, [a, b], b - a) for a, b in pairwise(ends)]
    blobs = list(task.run(enumerate(ranges)))
    for channel in range(channels):
        sent = list(unpacked(blob for c, blob in blobs if c == channel))
        read = list(task.parcels(ranges, channel))
        assert json.dumps([(p.came, p.seen) for p in read]) == json.dumps([(p.came, p.seen) for p in sent])
        assert [p.rows.to_pylist() for p in read] == [p.rows.to_pylist() for p in sent]
        assert [p.aside and p.aside.to_pylist() for p in read] == [
            p.aside and p.aside.to_pylist() for p in sent
        ]
