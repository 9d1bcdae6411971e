"""Rotation: every bin in one queue, memory within its limit, and nobody waits for ever."""

from hypothesis import given
from hypothesis import strategies as st

from headgate.flow.rotation import Rotation, rotate

SIZES = st.dictionaries(st.integers(0, 12), st.integers(1, 100), max_size=10)


@given(
    st.lists(st.tuples(SIZES, st.none() | st.integers(1, 400), st.sets(st.integers(0, 12))), max_size=6),
    st.floats(0, 1000),
    st.floats(0, 500),
)
def test_each_bin_is_in_one_queue_and_memory_within_its_limit(steps, elapsed, gap) -> None:
    now = Rotation()
    for sizes, limit, wanted in steps:
        now = rotate(now, sizes, limit, dict.fromkeys(wanted, 1), elapsed_ms=elapsed, gap_ms=gap)
        assert sorted((*now.active, *now.inactive)) == sorted(sizes)
        used = sum(sizes[bin] for bin in now.active)
        assert limit is None or used <= limit or len(now.active) == 1
        assert now.active or not sizes
        assert Rotation.from_json(now.to_json()) == now


@given(SIZES.filter(bool), st.integers(1, 300), st.floats(1, 100))
def test_a_bin_with_rows_waiting_comes_in_within_a_cycle(sizes, limit, gap) -> None:
    now = rotate(Rotation(), sizes, limit, {})
    waited = set(now.inactive)
    for _ in range(len(sizes) + 1):
        now = rotate(now, sizes, limit, dict.fromkeys(waited, 5), elapsed_ms=1.01 * gap, gap_ms=gap)
        waited -= set(now.active)
    assert not waited


def test_a_long_gap_reads_less_often() -> None:
    sizes, waiting = dict.fromkeys(range(6), 10), dict.fromkeys(range(6), 1)
    changes = {}
    for gap in (50.0, 400.0):
        now, changes[gap] = rotate(Rotation(), sizes, 30, {}), 0
        for _ in range(20):
            after = rotate(now, sizes, 30, waiting, elapsed_ms=100, gap_ms=gap)
            changes[gap] += len(set(after.active) - set(now.active))
            now = after
    assert changes[50.0] > 6 * changes[400.0] > 0


def test_without_rows_waiting_nothing_is_read() -> None:
    sizes = dict.fromkeys(range(6), 10)
    now = rotate(Rotation(), sizes, 30, {})
    assert rotate(now, sizes, 30, {}, elapsed_ms=1e6, gap_ms=1.0) == now


def test_a_limit_below_one_bin_works_on_one_bin_at_a_time() -> None:
    sizes, waiting = {1: 50, 2: 50}, {1: 1, 2: 1}
    now = rotate(Rotation(), sizes, 10, waiting)
    seen = set()
    for _ in range(4):
        assert len(now.active) == 1
        seen |= set(now.active)
        now = rotate(now, sizes, 10, waiting, elapsed_ms=10, gap_ms=1.0)
    assert seen == {1, 2}


def test_memory_given_back_lets_everything_in() -> None:
    sizes = dict.fromkeys(range(6), 10)
    short = rotate(Rotation(), sizes, 30, {})
    assert len(short.inactive) == 3
    assert rotate(short, sizes, 60, {}).inactive == ()
    assert rotate(short, sizes, None, {}).inactive == ()


def test_a_bin_that_two_things_wait_for_is_in_one_queue() -> None:
    assert rotate(Rotation(), {0: 40}, 50, [0, 0]) == rotate(Rotation(), {0: 40}, 50, [0])
