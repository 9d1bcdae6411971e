"""Which bins each channel reads before they arrive: pure planning."""

from hypothesis import given
from hypothesis import strategies as st

from headgate.control.notice import NEW_CHANNELS, SHARE, arriving, batches_ahead, nearest
from headgate.control.view import LoadView
from headgate.flow.read_ahead import read_ahead
from headgate.testing import builders

MB = 1 << 20


def view_of(work, size=MB, period_ms=1000.0, keys=10**9, **more):
    return LoadView(
        reports=1,
        bin_work=dict(enumerate(map(float, work))),
        bin_bytes=dict.fromkeys(range(len(work)), size),
        bin_keys=dict.fromkeys(range(len(work)), keys),
        period_ms=period_ms,
        **more,
    )


def test_the_hottest_bins_come_first() -> None:
    now, later = builders.table([0, 0, 0, 0], channels=2), builders.table([1, 1, 0, 1], channels=2)
    ahead = read_ahead(now, later, view_of([5, 9, 7, 8]), places="ab", places_later="ab", room={})
    assert ahead.bins == {1: (1, 3, 0)}
    assert ahead.work_ms == {1: SHARE * 1000}


def test_the_channel_with_the_least_load_reads_and_others_what_it_has_no_room_for() -> None:
    now, later = builders.table([0] * 5 + [1], channels=3), builders.table([1] * 6, channels=3)
    view = view_of([6, 5, 4, 3, 2, 1])
    ahead = read_ahead(now, later, view, places="abb", places_later="abb", room={})
    assert ahead.bins == {2: (0, 1, 2, 3, 4)}
    ahead = read_ahead(now, later, view, places="abb", places_later="abb", room={2: 2 * MB, 1: 2 * MB})
    assert ahead.bins == {1: (2, 3), 2: (0, 1)}
    assert set(ahead.work_ms.values()) == {SHARE * 1000 / 2}


def test_a_new_channel_s_bins_are_read_by_the_channels_that_are_there_already() -> None:
    now, later = builders.table([0, 0, 1, 1]), builders.table([0, 2, 1, 3])
    ahead = read_ahead(now, later, view_of([1, 1, 1, 1]), places="ab", places_later="abba", room={})
    assert ahead.bins == {0: (3,), 1: (1,)}


def test_a_move_within_an_executor_is_none() -> None:
    now, later = builders.table([0, 1], channels=2), builders.table([1, 0], channels=2)
    assert list(arriving(now, later, "aa")) == []
    assert read_ahead(now, later, view_of([1, 1]), places="aa", places_later="aa", room={}).bins == {}


def test_an_executor_without_a_channel_reads_nothing() -> None:
    now, later = builders.table([0, 0], channels=1), builders.table([0, 1], channels=2)
    assert read_ahead(now, later, view_of([1, 1]), places="a", places_later="ab", room={}).bins == {}


@given(st.data())
def test_laws_of_reading_ahead(data) -> None:
    bins = data.draw(st.integers(1, 12))
    channels = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    tables = [
        builders.table(data.draw(st.lists(st.integers(0, n - 1), min_size=bins, max_size=bins)), channels=n)
        for n in channels
    ]
    places = [data.draw(st.text("abc", min_size=n, max_size=n)) for n in channels]
    view = view_of(data.draw(st.lists(st.integers(0, 9), min_size=bins, max_size=bins)), size=10)
    room = data.draw(st.dictionaries(st.integers(0, 3), st.integers(0, 60)))
    without = data.draw(st.sets(st.integers(0, bins - 1)))
    now, later = tables
    ahead = read_ahead(now, later, view, places=places[0], places_later=places[1], room=room, without=without)
    read = [b for mine in ahead.bins.values() for b in mine]
    assert len(read) == len(set(read)), "a bin is read by one channel"
    assert not set(read) & without
    for channel, mine in ahead.bins.items():
        assert list(mine) == sorted(mine, key=lambda b: (-view.bin_work[b], b))
        assert 10 * len(mine) <= room.get(channel, 1000)
        for b in mine:
            here = places[1][tables[1].channel_of[b]]
            assert places[0][channel] == here, "on the executor where it will be"
            assert places[0][tables[0].channel_of[b]] != here, "and is not yet"
    if not room and not without:
        wanted = {b for b, c in arriving(now, later, *places) if places[1][c] in places[0]}
        assert set(read) == wanted


def test_the_notice_grows_with_the_state_and_ends_at_the_most() -> None:
    now, later = builders.table([0] * 4, channels=2), builders.table([1] * 4, channels=2)
    rate = {"period_ms": 100.0, "move_ms_per_byte": 1.0}  # fifteen bytes a batch

    def notice(size, most=16):
        return batches_ahead(view_of([1] * 4, size=size, **rate), now, later, "ab", most=most)

    assert [notice(size) for size in (0, 2, 3, 10, 20)] == [0, 0, 0, 3, 6]
    assert notice(1000) == 16
    assert notice(1000, most=3) == 3
    assert notice(1000, most=0) == 0


def test_there_is_no_notice_on_one_executor_and_none_before_a_time_is_known() -> None:
    now, later = builders.table([0] * 4, channels=2), builders.table([1] * 4, channels=2)
    assert batches_ahead(view_of([1] * 4, size=10 * MB), now, later, "aa", most=16) == 0
    assert batches_ahead(view_of([1] * 4, size=10 * MB, period_ms=0.0), now, later, "ab", most=16) == 0
    assert batches_ahead(view_of([1] * 4, size=10 * MB), now, later, "ab", most=16) > 0


def test_an_urgent_plan_gets_one_batch() -> None:
    now, later = builders.table([0] * 4, channels=2), builders.table([1] * 4, channels=2)
    view = view_of([1] * 4, size=10, period_ms=100.0, move_ms_per_byte=1.0)
    found = [batches_ahead(view, now, later, "ab", most=16, gain=gain) for gain in (0.0, 0.05, 0.2)]
    assert found == [3, 3, 1]


def test_a_new_channel_should_be_where_its_bins_are() -> None:
    now, later = builders.table([0, 0, 0, 1, 1, 1]), builders.table([0, 2, 2, 1, 3, 3])
    assert nearest(now, later, "ab") == ["a", "b", "a", "b"]
    assert nearest(later, now, "abab") == ["a", "b"]
    assert nearest(now, builders.table([0, 0, 0, 1, 1, 1], channels=3), "ab") == ["a", "b", ""]


def test_a_new_number_of_channels_is_announced_even_if_no_state_moves() -> None:
    now, later = builders.table([0, 0, 1, 1]), builders.table([0, 2, 1, 3])
    assert batches_ahead(view_of([1] * 4), now, later, "ab", most=16) == NEW_CHANNELS
    assert batches_ahead(view_of([1] * 4, size=0), now, later, "ab", most=16) == 0


def test_what_batches_add_to_a_bin_has_to_be_read_again() -> None:
    now, later = builders.table([0] * 4, channels=2), builders.table([1] * 4, channels=2)

    def notice(keys):
        view = view_of([1] * 4, size=10, period_ms=100.0, move_ms_per_byte=1.0, keys=keys)
        return batches_ahead(view, now, later, "ab", most=64)

    assert [notice(keys) for keys in (10**9, 20, 10, 1)] == [3, 4, 5, 64]
