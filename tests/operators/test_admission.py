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

    def __init__(self, waiting, **settings):
        self.done = {}
        self.waiting = waiting
        self.admission = Admission(self._process, self._read, **settings)

    def _read(self, entry):
        bin, ids = self.waiting[entry]
        return rows_of(ids), np.full(len(ids), bin, np.int32)

    def _process(self, rows, bins):
        for number, bin in zip(rows["id"].to_pylist(), bins.tolist(), strict=True):
            self.done.setdefault(bin, []).append(number)


@st.composite
def streams(draw):
    """Entries that waited and chunks that come, rows numbered in order, each in one of four bins."""
    number = 0
    waiting, chunks = [], []
    for _ in range(draw(st.integers(0, 4))):
        size = draw(st.integers(1, 3))
        waiting.append((draw(st.integers(0, 3)), list(range(number, number + size))))
        number += size
    for _ in range(draw(st.integers(0, 5))):
        bins = draw(st.lists(st.integers(0, 3), max_size=6))
        chunks.append((list(range(number, number + len(bins))), bins))
        number += len(bins)
    return waiting, chunks


@given(streams(), st.frozensets(st.integers(0, 3)), st.integers(0, 8), st.integers(0, 200))
def test_every_row_is_processed_or_left_once_and_in_order(stream, asleep, late_after, room):
    waiting, chunks = stream
    checks = iter([False] * late_after)
    run = Run(waiting, asleep=asleep, late=lambda: next(checks, True), room=room)
    for entry, (bin, _) in enumerate(waiting):
        if bin not in asleep:
            run.admission.resume(entry)
    for ids, bins in chunks:
        run.admission.add(rows_of(ids), np.array(bins, np.int32))
    left = run.admission.left()
    for bin in range(4):
        came = [n for b, ids in waiting if b == bin for n in ids]
        came += [n for ids, bins in chunks for n, b in zip(ids, bins, strict=True) if b == bin]
        kept = [
            n for e, (b, ids) in enumerate(waiting) if b == bin and e not in run.admission.taken for n in ids
        ]
        kept += [n for part in left.get(bin, []) for n in part["id"].to_pylist()]
        assert run.done.get(bin, []) + kept == came
        assert not (bin in asleep and run.done.get(bin))
    assert sum(part.nbytes for bin, parts in left.items() if bin not in asleep for part in parts) <= room


@pytest.mark.parametrize("room", [0, 1000])
def test_on_time_nothing_waits(room):
    run = Run([(1, [0])], room=room)
    run.admission.resume(0)
    run.admission.add(rows_of([1, 2]), np.array([1, 2], np.int32))
    assert run.done == {1: [0, 1], 2: [2]}
    assert run.admission.left() == {}
