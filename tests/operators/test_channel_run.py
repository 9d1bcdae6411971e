"""One channel in one batch: rows in, touched state and output out."""

import numpy as np
import pyarrow as pa
import pytest

from headgate import agg
from headgate.errors import ArithmeticOverflow
from headgate.operators.aggregate import Aggregate
from headgate.operators.channel_run import ChannelRun
from headgate.operators.history import HistoryWindow
from headgate.state.keys import KeySpec
from headgate.state.table import BinTable

SCHEMA = pa.schema([("user", pa.string()), ("x", pa.int64())])
KEY = KeySpec(("user",), (pa.string(),))


class Bench:
    """A run over bins in memory. A user's hash is the number in its name, and its bin that number modulo four."""

    def __init__(self, operator) -> None:
        self.operator = operator.bind(KEY, SCHEMA)
        self.tables: dict[int, BinTable] = {}
        self.opened: list[int] = []
        self.begin()

    def begin(self) -> None:
        self.run = ChannelRun(self.operator, self._open, 4)

    def _open(self, b):
        self.opened.append(b)
        return self.tables.setdefault(b, BinTable.create(self.operator.layout))

    def feed(self, *rows) -> None:
        hashes = np.array([int(user[1:]) for user, _ in rows], np.int64)
        batch = pa.RecordBatch.from_arrays(
            [pa.array([u for u, _ in rows], pa.string()), pa.array([x for _, x in rows], pa.int64())],
            schema=SCHEMA,
        )
        self.run.feed(batch, hashes, (hashes % 4).astype(np.int32))

    def finish(self):
        touched = self.run.finish()
        out = pa.Table.from_batches(self.run.output, schema=self.operator.output).to_pylist()
        return {b: len(change.rows) for b, change in touched.items()}, out


@pytest.fixture
def sums():
    return Bench(Aggregate(n=agg.count(), total=agg.sum("x"), last=agg.last("x")))


def test_a_batch_of_nothing_opens_and_emits_nothing(sums) -> None:
    sums.feed()
    assert sums.finish() == ({}, [])
    assert sums.opened == []


def test_each_touched_key_comes_out_once_with_what_all_its_rows_made(sums) -> None:
    sums.feed(("u1", 1), ("u5", 10), ("u2", 100))
    sums.feed(("u1", 2))
    sums.feed()
    touched, out = sums.finish()
    assert touched == {1: 2, 2: 1}
    assert sorted(out, key=lambda row: row["user"]) == [
        {"user": "u1", "n": 2, "total": 3, "last": 2},
        {"user": "u2", "n": 1, "total": 100, "last": 100},
        {"user": "u5", "n": 1, "total": 10, "last": 10},
    ]


def test_a_bin_is_opened_once_in_a_batch_and_only_if_it_has_rows(sums) -> None:
    sums.feed(("u1", 1), ("u2", 1))
    sums.feed(("u5", 1), ("u1", 1))
    assert sums.opened == [1, 2]
    assert sums.run.rows_of_bin.tolist() == [0, 3, 1, 0]


def test_the_next_batch_emits_only_what_it_touches(sums) -> None:
    sums.feed(("u1", 1), ("u5", 2))
    sums.finish()
    sums.begin()
    sums.feed(("u5", 3))
    assert sums.finish() == ({1: 1}, [{"user": "u5", "n": 2, "total": 5, "last": 3}])


def test_a_bin_may_be_opened_for_a_snapshot_without_touching_it(sums) -> None:
    sums.feed(("u1", 1))
    sums.finish()
    sums.begin()
    assert sums.run.table(1).rows == 1
    assert sums.finish() == ({}, [])


def test_rows_of_a_key_keep_their_order_among_other_bins(sums) -> None:
    sums.feed(*((f"u{i % 8}", i) for i in range(80)))
    _, out = sums.finish()
    assert {row["user"]: row["last"] for row in out} == {f"u{i}": 72 + i for i in range(8)}


def test_an_operator_that_answers_by_row_answers_in_the_order_of_the_rows() -> None:
    bench = Bench(HistoryWindow(2, "mean", of="x"))
    bench.feed(("u2", 1), ("u1", 10), ("u2", 3))
    bench.feed(("u1", 20), ("u2", 5))
    touched, out = bench.finish()
    assert touched == {1: 1, 2: 1}
    assert [(row["user"], row["x"], row["mean"]) for row in out] == [
        ("u2", 1, 1.0), ("u1", 10, 10.0), ("u2", 3, 2.0), ("u1", 20, 15.0), ("u2", 5, 4.0),
    ]  # fmt: skip


def test_an_overflow_passes_through(sums) -> None:
    sums.feed(("u1", 2**63 - 1))
    with pytest.raises(ArithmeticOverflow):
        sums.feed(("u1", 1))
