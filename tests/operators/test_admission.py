"""Admission: whatever sleeps, whenever it gets late, every row of a bin is processed or left, once and in order."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.operators.admission import Admission


def rows_of(ids):
    return pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())})


class Run:
    """An admission over numbered rows, with what it processed by bin."""

    def __init__(self, **settings) -> None:
        self.done: dict[int, list[int]] = {}
        self.admission = Admission(self._process, **settings)

    def add(self, ids, bins) -> None:
        self.admission.add(rows_of(ids), np.array(bins, np.int32))

    def _process(self, rows, bins) -> None:
        for number, bin in zip(rows["id"].to_pylist(), bins.tolist(), strict=True):
            self.done.setdefault(bin, []).append(number)


@st.composite
def streams(draw):
    """Chunks that come, rows numbered in order, each in one of four bins."""
    number = 0
    chunks = []
    for _ in range(draw(st.integers(0, 5))):
        bins = draw(st.lists(st.integers(0, 3), max_size=6))
        chunks.append((list(range(number, number + len(bins))), bins))
        number += len(bins)
    return chunks


@given(streams(), st.frozensets(st.integers(0, 3)), st.integers(0, 8), st.integers(0, 200))
def test_every_row_is_processed_or_left_once_and_in_order(chunks, asleep, late_after, room) -> None:
    checks = iter([False] * late_after)
    run = Run(asleep=asleep, late=lambda: next(checks, True), room=room)
    for ids, bins in chunks:
        run.add(ids, bins)
    left = run.admission.left()
    for bin in range(4):
        came = [n for ids, bins in chunks for n, b in zip(ids, bins, strict=True) if b == bin]
        kept = [n for part in left.get(bin, []) for n in part["id"].to_pylist()]
        assert run.done.get(bin, []) + kept == came
        assert not (bin in asleep and run.done.get(bin))
    assert sum(part.nbytes for bin, parts in left.items() if bin not in asleep for part in parts) <= room


@pytest.mark.parametrize("room", [0, 1000])
def test_on_time_nothing_waits(room) -> None:
    run = Run(room=room)
    run.add([0], [1])
    run.add([1, 2], [1, 2])
    assert run.done == {1: [0, 1], 2: [2]}
    assert run.admission.left() == {}


def test_a_channel_that_is_late_before_it_begins_does_its_first_rows() -> None:
    run = Run(asleep=frozenset([3]), late=lambda: True, room=1000)
    run.add([0], [3])
    run.add([1, 2], [1, 2])
    run.add([3], [1])
    assert run.done == {1: [1], 2: [2]}
    assert sorted(run.admission.left()) == [1, 3]
