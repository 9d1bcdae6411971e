"""The load view: smoothing, slow channels, and what is decided but not yet seen."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import policies
from headgate.control import ChannelReport, HotKey, LoadView, Loop, fold
from headgate.errors import ConfigError
from headgate.policies import Guard, Mpc
from headgate.routing.table import Pin, Table
from headgate.testing import builders
from headgate.testing.strategies import reports, tables

EVEN = Table.uniform(4, 2)


def test_the_first_report_is_taken_whole_and_the_next_by_alpha() -> None:
    view = fold(
        LoadView(alpha=0.25), builders.report(0, EVEN, [8, 0, 0, 0]), EVEN
    )  # so few say nothing of a shift
    assert view.bin_work[0] == 8
    view = fold(view, builders.report(1, EVEN, [0, 4, 0, 0]), EVEN)
    assert view.bin_work == {0: 6.0, 1: 1.0, 2: 0.0, 3: 0.0}


def views_of(batches, **settings):
    """The views after each batch of rows by bin, under an even table."""
    view, found = LoadView(**settings), []
    for number, rows in enumerate(batches):
        view = fold(view, builders.report(number, EVEN, rows), EVEN)
        found.append(view)
    return found


@pytest.mark.parametrize(
    ("then", "forgets"),
    [
        ([4000, 4000, 1000, 1000], True),
        ([6200, 1800, 1000, 1000], False),
        ([15000, 500, 2000, 2500], False),
        ([0, 0, 0, 0], False),
    ],
    ids=[
        "a third of the load moved",
        "a little moved",
        "twice the load, in the same places",
        "no rows at all",
    ],
)
def test_the_past_is_forgotten_when_the_load_moves_elsewhere(then, forgets) -> None:
    view = views_of([[7500, 500, 1000, 1000], then])[-1]
    assert (view.bin_work[0] == then[0]) is forgets


@pytest.mark.parametrize(("rows", "forgets"), [(20, False), (2000, True)])
def test_what_chance_explains_is_no_shift(rows, forgets) -> None:
    first, then = [rows // 2, rows // 2, 0, 0], [rows // 5, 4 * rows // 5, 0, 0]
    assert (views_of([first, then])[-1].bin_work[0] == then[0]) is forgets


def test_shift_1_never_forgets() -> None:
    assert views_of([[1000, 0, 0, 0], [0, 1000, 0, 0]], shift=1.0)[-1].bin_work[0] == 500


def test_hot_keys_are_smoothed_as_the_bins_are() -> None:
    key, other = HotKey(8, 0, "a", 60), HotKey(4, 0, "b", 50)
    rows = [100, 100, 100, 100]
    view = LoadView(alpha=0.25)
    for number, seen in enumerate([[key], [key, other], [other], []]):
        view = fold(view, builders.report(number, EVEN, rows, hot_keys=seen), EVEN)
        again = LoadView.from_json(json.loads(json.dumps(view.to_json())))
        assert again == view
    smoothed = {"a": 60.0, "b": 0.0}
    for a, b in [(60, 50), (0, 50), (0, 0)]:
        smoothed = {"a": 0.75 * smoothed["a"] + 0.25 * a, "b": 0.75 * smoothed["b"] + 0.25 * b}
    assert {k.label: k.rows for k in view.hot_keys} == {n: round(x) for n, x in smoothed.items()}


def test_bins_that_fall_silent_decay_and_state_bytes_are_the_last() -> None:
    view = fold(LoadView(), builders.report(0, EVEN, [8, 0, 0, 0], bytes_per_bin=50), EVEN)
    view = fold(view, builders.report(1, EVEN, [0, 0, 0, 0], bytes_per_bin=70), EVEN)
    assert view.bin_work[0] == 4
    assert view.bin_bytes[0] == 70


def test_load_is_busy_time_where_channels_are_equally_fast() -> None:
    view = fold(LoadView(), builders.report(0, EVEN, [5, 1, 5, 1], ms_per_row=2.0), EVEN)
    assert view.channel_load == pytest.approx((20.0, 4.0))


def test_a_slow_channel_is_seen_as_slow_for_the_bins_it_would_get() -> None:
    view = fold(LoadView(), builders.report(0, EVEN, [10, 10, 10, 10], ms_per_row=[1.0, 3.0]), EVEN)
    assert view.bin_load(0, 1) > 2.5 * view.bin_load(0, 0)
    by_time = fold(
        LoadView(basis="busy"), builders.report(0, EVEN, [10, 10, 10, 10], ms_per_row=[1.0, 3.0]), EVEN
    )
    assert by_time.channel_load == (20.0, 60.0)


def test_fixed_overhead_on_a_handful_of_rows_is_not_slowness() -> None:
    report = builders.report(0, EVEN, [10_000, 1, 10_000, 0], ms_per_row=[0.01, 5.0])
    view = fold(LoadView(), report, EVEN)
    assert view.row_cost_ms(1) == view.row_cost_ms(0)


def test_a_handful_of_rows_may_show_that_a_channel_recovered() -> None:
    stalled = builders.report(0, EVEN, [500, 500, 500, 500], ms_per_row=[0.01, 10.0])
    view = fold(LoadView(), stalled, EVEN)
    view = fold(view, builders.report(1, EVEN, [1000, 1, 999, 0], ms_per_row=0.01), EVEN)
    assert view.row_cost_ms(1) == pytest.approx(5.005)


def test_an_emptied_channel_is_remembered_as_slow() -> None:
    view = fold(LoadView(), builders.report(0, EVEN, [5, 5, 5, 5], ms_per_row=[1.0, 3.0]), EVEN)
    for batch in range(1, 30):
        view = fold(view, builders.report(batch, EVEN, [10, 0, 10, 0]), EVEN)
    assert view.row_cost_ms(1) == 3.0


def test_a_move_that_was_decided_counts_before_it_is_seen() -> None:
    view = fold(LoadView(), builders.report(0, EVEN, [8, 2, 8, 2]), EVEN)
    moved = builders.table([1, 1, 0, 1], version=1, from_batch=2)
    assert view.under(moved).channel_load == pytest.approx((8, 12))
    late = fold(view, builders.report(1, EVEN, [8, 2, 8, 2]), moved)
    assert late.channel_load == pytest.approx((8, 12))


def test_a_pin_takes_its_keys_rows_along_and_an_unpin_brings_them_home() -> None:
    hot = HotKey(hash=4, bin=0, label="k", rows=6)
    view = fold(LoadView(), builders.report(0, EVEN, [8, 2, 0, 0], hot_keys=[hot]), EVEN)
    pinned = builders.table([0, 1, 0, 1, 1], pins=[Pin(4, 7, "k")], version=1)
    seen = view.under(pinned)
    assert seen.bin_work[7] == 6
    assert seen.bin_work[0] == 2
    assert seen.channel_load == pytest.approx((2, 8))
    assert seen.under(EVEN).bin_work == view.bin_work


def test_a_reused_bin_id_does_not_inherit_the_old_keys_load() -> None:
    first = builders.table([0, 1, 0, 1, 1], pins=[Pin(4, 4, "old")])
    view = fold(LoadView(), builders.report(0, first, {0: 1, 4: 50}), first)
    second = builders.table([0, 1, 0, 1, 1], pins=[Pin(5, 4, "new")], version=1)
    assert view.under(second).bin_work[4] == 0
    assert view.under(second).bin_work[0] == 51


@given(st.data())
def test_json_round_trip_is_exact_and_folds_alike(data) -> None:
    table = data.draw(tables())
    view = fold(LoadView(alpha=0.3), data.draw(reports(table, 0)), table)
    again = LoadView.from_json(json.loads(json.dumps(view.to_json())))
    assert again == view
    report = data.draw(reports(table, 1))
    assert fold(again, report, table) == fold(view, report, table)


@given(st.data())
def test_no_work_is_lost_under_another_table(data) -> None:
    table = data.draw(tables())
    view = fold(LoadView(), data.draw(reports(table, 0)), table)
    other = builders.table([0] * table.hash_bins, channels=1)
    assert sum(view.under(other).bin_work.values()) == pytest.approx(sum(view.bin_work.values()))


@pytest.mark.parametrize("settings", [{"alpha": 0}, {"alpha": 1.5}, {"basis": "bytes"}])
def test_settings_that_cannot_be(settings) -> None:
    with pytest.raises(ConfigError):
        LoadView(**settings)


def test_utilization_is_the_busy_share_of_the_time_under_the_table_in_force_alone() -> None:
    report = builders.report(0, EVEN, [5, 1, 5, 1], wall_ms=20.0)
    assert fold(LoadView(), report, EVEN).utilization == {0: 0.5, 1: 0.1}
    newer = builders.table([0, 0, 0, 1], version=1)
    assert fold(LoadView(), report, newer).utilization == {}


def test_limits_disks_and_backlogs_are_the_last_ones_and_survive_json() -> None:
    first = builders.report(0, EVEN, [1, 1, 1, 1], memory=[50, 0], on_disk={0, 2})
    view = fold(LoadView(), first, EVEN)
    assert (view.memory_limit, view.on_disk) == ({0: 50}, frozenset({0, 2}))
    assert LoadView.from_json(json.loads(json.dumps(view.to_json()))) == view
    later = fold(view, builders.report(1, EVEN, [1, 1, 1, 1], memory=[90, 90], on_disk={2}), EVEN)
    assert (later.memory_limit, later.on_disk) == ({0: 90, 1: 90}, frozenset({2}))


def test_a_view_written_before_there_was_memory_can_be_read() -> None:
    data = fold(LoadView(), builders.report(0, EVEN, [1, 1, 1, 1]), EVEN).to_json()
    for name in ("utilization", "period_ms", "memory"):
        del data[name]
    assert LoadView.from_json(data).memory_limit == {}


SIXTY = Table.uniform(60, 3)


def test_the_cost_of_a_move_is_measured() -> None:
    report = builders.report(0, SIXTY, [10] * 60, bytes_per_bin=1000)
    moved = replace(report.channels[0], rebuilt_bins=4, read_ms=20.0)
    view = fold(LoadView(), replace(report, channels=(moved, *report.channels[1:])), SIXTY)
    assert view.move_ms_per_byte == pytest.approx(20 / 4000)
    assert fold(view, report, SIXTY).move_ms_per_byte == view.move_ms_per_byte


def test_the_view_remembers_as_much_as_its_policy_asks() -> None:
    for policy, kept in ((Mpc(forecast=False), 2), (Mpc(), 128), (policies.get("static"), 0)):
        loop = Loop(policy, Guard(), "act", SIXTY)
        for batch in range(4):
            loop.step(builders.report(batch, SIXTY, [10] * 60))
        assert len(loop.view.history) == min(kept, 4)
        assert LoadView.from_json(loop.view.to_json()) == loop.view
    old = {name: value for name, value in loop.view.to_json().items() if name != "change"}
    assert LoadView.from_json(old).history == ()


def test_a_channel_report_without_rows_is_not_silence() -> None:
    table = builders.table([0, 0, 1, 1], channels=3)
    report = builders.report(0, table, [5, 5, 5, 5])
    assert report.channels[2] == ChannelReport(2, 0, idle_ms=10.0, executor="executor-2")
    assert fold(LoadView(), report, table).silent == frozenset()
