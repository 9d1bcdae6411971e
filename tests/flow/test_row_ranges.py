"""Ranges of files as a source of waves."""

from hypothesis import given
from hypothesis import strategies as st

from headgate.flow.gate import Batcher, Gate
from headgate.flow.row_ranges import RangeQueue, RowRange

LENGTHS = st.lists(st.integers(0, 50), max_size=6)


@given(lengths=LENGTHS, spread=st.integers(1, 4), room=st.integers(1, 40))
def test_every_position_is_taken_once_and_never_more_than_there_is_room(
    lengths: list[int], spread: int, room: int
) -> None:
    queue, taken = RangeQueue(lengths, spread), []
    while queue:
        ranges, count = queue.take(room)
        assert 0 < count == sum(map(len, ranges)) <= room
        taken += [(r.file, at) for r in ranges for at in range(r.start, r.stop)]
    assert sorted(taken) == [(file, at) for file, length in enumerate(lengths) for at in range(length)]
    assert queue.take(room) == ([], 0)


@given(lengths=LENGTHS, room=st.integers(1, 40))
def test_with_a_spread_of_one_files_go_in_order(lengths: list[int], room: int) -> None:
    queue, taken = RangeQueue(lengths), []
    while queue:
        taken += [(r.file, at) for r in queue.take(room)[0] for at in range(r.start, r.stop)]
    assert taken == sorted(taken)


@given(lengths=LENGTHS, spread=st.integers(1, 3), room=st.integers(1, 20), back=st.integers(0, 5))
def test_what_is_given_back_comes_again(lengths: list[int], spread: int, room: int, back: int) -> None:
    queue, taken = RangeQueue(lengths, spread), []
    while queue:
        ranges, _ = queue.take(room)
        for taken_range in ranges:
            kept = max(taken_range.start + 1, taken_range.stop - back)  # every wave finishes at least one row
            taken += [(taken_range.file, at) for at in range(taken_range.start, kept)]
            if kept < taken_range.stop:
                queue.give_back(RowRange(taken_range.file, kept, taken_range.stop))
    assert sorted(taken) == [(file, at) for file, length in enumerate(lengths) for at in range(length)]


def test_a_batcher_draws_waves_from_it() -> None:
    batcher = Batcher(Gate(in_flight=2, batch=4))
    queue = RangeQueue([3, 6], spread=2)
    batcher.offer((), queue)
    first = list(batcher.admit())
    assert [batch.rows for batch in first] == [4, 4]
    assert queue.left == [RowRange(1, 5, 6)]
    batcher.done(first[0].stamp)
    assert [batch.items for batch in batcher.admit()] == [(RowRange(1, 5, 6),)]
