"""Deadlines, and the order in which waiting bins are served."""

import math

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headgate.flow.rotation import TURN
from headgate.flow.slack import PERIOD, Deadlines, WaitingBin, by_slack, is_fair
from headgate.operators.admission import Admission, urgent_first
from headgate.routing.table import Pin, Table

times = st.sampled_from([0.0, 1.0, 5.0, 100.0, math.inf])
waiting = st.lists(
    st.builds(WaitingBin, st.integers(0, 9), times, st.sampled_from([0.0, 2.0, 99.0]), st.integers(0, 20)),
    unique_by=lambda one: one.bin,
)


@given(waiting, st.booleans())
def test_the_least_slack_comes_first_or_in_fair_batches_what_was_passed_over_most_often(bins, fair) -> None:
    order = by_slack(bins, fair=fair)
    by_bin = {one.bin: one for one in bins}
    assert sorted(order) == sorted(by_bin)
    found = [-by_bin[b].batches if fair else by_bin[b].slack_ms for b in order]
    assert found == sorted(found)


@given(st.integers(0, 10**6))
def test_in_every_period_there_is_time_for_a_bin_to_come_in_whatever_its_deadline(first) -> None:
    fair = [is_fair(batch) for batch in range(first, first + 2 * PERIOD)]
    runs = "".join("x" if one else " " for one in fair).split()
    assert max(map(len, runs)) == TURN + 1
    assert sum(fair[:PERIOD]) == TURN + 1 < PERIOD / 2


@given(waiting, st.floats(0, 1e6))
def test_time_that_passes_for_all_changes_nothing(bins, ms) -> None:
    later = [WaitingBin(o.bin, o.deadline_ms, o.waited_ms + ms, o.batches, o.cost_ms) for o in bins]
    exact = [one for one in bins if one.slack_ms == math.inf or one.slack_ms == int(one.slack_ms)]
    if len(exact) == len(bins) and ms == int(ms):
        assert by_slack(later) == by_slack(bins)


def test_a_bin_has_the_shortest_deadline_of_its_keys_wherever_they_are() -> None:
    table = Table.uniform(4, 2)
    assert Deadlines({1: 50.0, 5: 20.0}, others=900.0).by_bin(table) == {
        0: 900.0,
        1: 20.0,
        2: 900.0,
        3: 900.0,
    }
    pinned = Table(
        version=1, from_batch=0, channels=2, hash_bins=4, assignment=(0, 1, 0, 1, 0), pins=(Pin(5, 4),)
    )
    assert Deadlines({1: 50.0, 5: 20.0}).by_bin(pinned) == {
        0: math.inf,
        1: 50.0,
        2: math.inf,
        3: math.inf,
        4: 20.0,
    }
    assert not Deadlines()
    assert Deadlines(others=1.0)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 99)), max_size=30),
    st.dictionaries(st.integers(0, 4), times),
    st.integers(1, 400),
    st.lists(st.booleans(), min_size=30, max_size=30),
)
def test_a_late_channel_keeps_the_order_of_each_bin_and_processes_the_most_urgent(
    rows, deadlines, room, lates
) -> None:
    done: list[tuple[int, int]] = []

    def process(some, bins) -> None:
        done.extend(zip(bins.tolist(), some["v"].to_pylist(), strict=True))

    at = iter(lates)
    admission = Admission(process, late=lambda: next(at, True), room=room, deadlines=deadlines)
    for b, v in rows:
        admission.add(pa.RecordBatch.from_pydict({"v": [v]}), np.array([b], np.int32))
    left = {b: [v for part in parts for v in part["v"].to_pylist()] for b, parts in admission.left().items()}
    for b in range(5):
        assert [v for bin, v in done if bin == b] + left.get(b, []) == [v for bin, v in rows if bin == b]
    assert sum(8 * len(values) for values in left.values()) <= room


def test_urgent_rows_come_first_in_their_order() -> None:
    bins = np.array([7, 2, 7, 0, 2], np.int32)
    assert urgent_first(bins, {2: 10.0, 0: 30.0, 9: 1.0}).tolist() == [1, 4, 3, 0, 2]
    assert urgent_first(bins, {}).tolist() == [0, 1, 2, 3, 4]
