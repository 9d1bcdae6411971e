"""The rebuild policy: when it acts, what it pins and lets go, how it follows the load, and resizing."""

import pytest
from tests.policies.proposals import planned, refused

from headgate import policies
from headgate.control import HotKey, LoadView, Loop, Pin, apply, fold, journal
from headgate.errors import ConfigError
from headgate.policies import Guard, Rebuild
from headgate.routing.table import Table
from headgate.testing import builders

OPEN = Guard(min_gain=0, cool_down_batches=0)


def seen(rows, table, **settings):
    return fold(LoadView(alpha=1.0), builders.report(0, table, rows, **settings), table)


def hot(table, **rows_of):
    """Hot keys `k5=40`: the key whose hash is 5 has 40 rows."""
    rows = {int(name[1:]): count for name, count in rows_of.items()}
    return [HotKey(key, int(table.home_bin(key)), f"k{key}", count) for key, count in rows.items()]


def work_by_channel(view, table):
    return view.under(table).channel_load


def batches(loop, keys_by_batch, *, start=0):
    """Feed a loop batches of `{key: rows}`, routed as its table says; the decisions."""
    decisions = []
    for batch, keys in enumerate(keys_by_batch, start):
        table = loop.table
        bin_of = {pin.hash: pin.bin for pin in table.pins}
        rows = dict.fromkeys(table.bins, 0)
        for key, count in keys.items():
            rows[bin_of.get(key, table.home_bin(key))] += count
        found = [
            HotKey(key, bin_of.get(key, table.home_bin(key)), f"k{key}", count)
            for key, count in keys.items()
            if count >= 50
        ]
        decisions.append(loop.step(builders.report(batch, table, rows, hot_keys=found)))
    return decisions


# theta(1.1, 2) = 0.1 / (1 + 1.1) = 0.047619: of a mean of 1050 that is 50 rows between the two channels
@pytest.mark.parametrize(
    ("left", "acts"),
    [(1075, False), (1076, True)],
    ids=["a spread of just what is tolerated is left alone", "a row more is acted upon"],
)
def test_the_bound(left, acts) -> None:
    rows = [left - 40, 2100 - left] + [4, 0] * 10
    plan = Rebuild().propose(seen(rows, Table.uniform(22, 2)), Table.uniform(22, 2))
    assert (plan is not None) is acts


@pytest.mark.parametrize(
    ("rows", "acts"),
    [(49, False), (51, True)],
    ids=["a key just below delta gets no pin", "a key just above delta gets one"],
)
def test_a_key_is_pinned_from_delta_on(rows, acts) -> None:
    # delta = sigma * theta / N = 0.1 * 0.047619 / 2 = 0.002381: of 21000 rows that is 50
    table = Table.uniform(8, 2)
    view = seen([9000, 3000, 3000, 0, 3000, 0, 3000, 0], table, hot_keys=hot(table, k8=rows))
    plan = planned(Rebuild(), view, table)
    assert bool(plan.pins) is acts


def test_a_hot_key_is_pinned_and_leaves_its_bin() -> None:
    table = Table.uniform(4, 2)
    view = seen([60, 20, 40, 0], table, hot_keys=hot(table, k0=50))
    plan = planned(Rebuild(), view, table)
    after = apply(plan, table, 1)
    assert plan.pins == (Pin(0, 4, "k0"),)
    assert work_by_channel(view, after) == pytest.approx((60, 60), abs=3)
    assert plan.gain == pytest.approx(1 - max(work_by_channel(view, after)) / 100)
    assert plan.policy == "rebuild"
    assert plan.from_version == table.version


def test_a_new_pin_moves_from_the_channel_of_its_home_bin() -> None:
    table = builders.table([0, 0, 1, 1])
    view = seen([100, 80, 10, 10], table, hot_keys=hot(table, k0=90, k4=5))
    plan = planned(Rebuild(), view, table)
    moved = {move.bin: move for move in plan.moves}
    pins = {pin.bin for pin in plan.pins}
    assert pins & moved.keys() or {0, 1} & moved.keys()
    assert all(moved[bin].source == 0 for bin in pins & moved.keys())
    apply(plan, table, 1)


def test_a_key_weighs_no_more_than_its_bin() -> None:
    table = Table.uniform(4, 2)
    view = seen([30, 10, 30, 10], table, hot_keys=hot(table, k0=500))
    after = apply(planned(Rebuild(), view, table), table, 1)
    assert sum(work_by_channel(view, after)) == 80
    assert max(work_by_channel(view, after)) == 40


def test_a_pinned_key_that_went_cold_is_let_go_with_the_next_change() -> None:
    table = builders.table([0, 1, 0, 1, 1], pins=[Pin(6, 4, "cold")])
    rows = {0: 500, 1: 100, 2: 400, 3: 100, 4: 0}
    plan = planned(Rebuild(), seen(rows, table), table)
    assert plan.unpins == (4,)
    assert apply(plan, table, 1).pins == ()


@pytest.mark.parametrize(
    ("rows", "kept"),
    [(25, False), (26, True)],
    ids=["just below half of delta it is let go", "just above half of delta it is kept"],
)
def test_pins_near_the_threshold_do_not_flap(rows, kept) -> None:
    # delta is 50 rows of 21000 (see above), and unpin_below 0.5
    table = builders.table([bin % 2 for bin in range(8)] + [0], pins=[Pin(8, 8, "k8")])
    bins = [9000, 3000, 3000, 0, 3000, 0, 3000 - rows, 0, rows]
    plan = planned(Rebuild(), seen(bins, table), table)
    assert (plan.unpins == ()) is kept


def test_cold_pins_alone_are_no_reason_to_act() -> None:
    table = builders.table([0, 1, 0, 1, 1], pins=[Pin(6, 4, "cold")])
    assert Rebuild().propose(seen({0: 100, 1: 100, 2: 100, 3: 100, 4: 0}, table), table) is None


@pytest.mark.parametrize(
    ("rows", "channels", "found"),
    [
        ([90, 1, 1, 1], 1, ()),
        ([0, 0, 0, 0], 2, ()),
        ([50, 50, 50, 50], 4, ()),
        ([50, 50, 50, 50], 2, ()),
        ([60, 60, 0, 0], 4, ()),
    ],
    ids=[
        "one channel has nothing to balance",
        "a batch without rows",
        "all keys are equal, one to a channel",
        "all keys are equal, two to a channel",
        "more channels than keys, each on its own",
    ],
)
def test_what_is_left_alone(rows, channels, found) -> None:
    table = Table.uniform(4, channels)
    view = seen(rows, table, hot_keys=hot(table, **{f"k{key}": rows[key] for key in found}))
    assert Rebuild().propose(view, table) is None


def test_one_key_only_is_refused_by_name_or_split() -> None:
    table = Table.uniform(4, 2)
    view = seen([100, 0, 0, 0], table, hot_keys=hot(table, k0=100))
    refusal = refused(Rebuild().fitted("CLL", whole="history must stay whole"), view, table)
    assert refusal.name == "key_too_hot"
    assert "k0 (100%, needs 2 channels)" in refusal.detail
    assert "history must stay whole" in refusal.detail
    plan = planned(Rebuild(split=True), view, table)
    after = apply(plan, table, 1)
    assert work_by_channel(view, after) == (50, 50)
    assert plan.gain == 0.5
    assert "split: k0 in 2" in plan.reason


def test_a_split_key_is_joined_again_when_it_cools_and_not_before() -> None:
    table = builders.table([bin % 4 for bin in range(16)] + [0, 1], pins=[Pin(5, 16, "k5"), Pin(5, 17, "k5")])
    policy = Rebuild(split=True)
    warm = dict.fromkeys(range(16), 50) | {16: 110, 17: 110, 2: 250}
    plan = planned(policy, seen(warm, table, hot_keys=hot(table, k5=220)), table)
    assert set(apply(plan, table, 1).splits) == {5}
    cold = dict.fromkeys(range(16), 50) | {16: 40, 17: 40, 2: 250}
    plan = planned(policy, seen(cold, table, hot_keys=hot(table, k5=80)), table)
    assert apply(plan, table, 1).splits == {}
    assert len(apply(plan, table, 1).pinned[5]) == 1


@pytest.mark.parametrize("channels", [1, 2, 3, 8])
def test_resize_with_split_keys(channels) -> None:
    table = builders.table(
        [bin % 4 for bin in range(16)] + [0, 1, 3], pins=[Pin(5, 16), Pin(5, 17), Pin(5, 18)]
    )
    rows = dict.fromkeys(range(16), 50) | {16: 400, 17: 400, 18: 400}
    view = seen(rows, table, hot_keys=hot(table, k5=1200))
    for policy in (Rebuild(split=True), Rebuild(split=False)):
        for known in (view, LoadView()):
            after = apply(policy.resize(known, table, channels), table, 1)
            assert after.channels == channels
    ways = len(apply(Rebuild(split=True).resize(view, table, channels), table, 1).pinned.get(5, ()))
    assert ways == {1: 0, 2: 2, 3: 2, 8: 5}[channels]


def test_an_empty_view_proposes_nothing() -> None:
    assert Rebuild().propose(LoadView(), Table.uniform(4, 2)) is None


def test_more_channels_than_keys_spreads_the_keys() -> None:
    table = builders.table([0, 0, 0, 0], channels=4)
    view = seen([60, 0, 60, 0], table)
    after = apply(planned(Rebuild(), view, table), table, 1)
    assert sorted(work_by_channel(view, after)) == [0, 0, 60, 60]


def test_a_key_too_hot_for_any_channel_is_named_with_the_channels_it_needs() -> None:
    table = builders.table([0, 0, 1, 1, 2, 2, 3, 3])
    view = seen([500, 100, 60, 60, 60, 60, 80, 80], table, hot_keys=hot(table, k8=480))
    plan = planned(Rebuild(), view, table)
    assert "computation: the channels differ by" in plan.reason
    assert "at best 1.92; too hot for one channel: k8 (48%, needs 2 channels)" in plan.reason


def test_what_the_plan_costs_is_the_bytes_of_what_moves() -> None:
    table = builders.table([0, 0, 1, 1])
    plan = planned(Rebuild(), seen([50, 50, 0, 0], table), table)
    assert len(plan.moves) == 1
    assert plan.cost == 100


def test_a_hot_key_that_moves_costs_its_part_of_its_bin() -> None:
    table = builders.table([0, 0, 1, 1])
    view = seen([100, 0, 0, 0], table, hot_keys=hot(table, k0=50))
    plan = planned(Rebuild(), view, table)
    moved = {move.bin for move in plan.moves}
    assert len(moved) == 1
    assert plan.cost == (50 if moved == {4} else 100)


@pytest.mark.parametrize("tail", ["ignore", "see"])
def test_bins_stay_where_the_tail_is_not_to_be_moved(tail) -> None:
    table = builders.table([0, 0, 1, 1])
    view = seen([100, 100, 10, 10], table, hot_keys=hot(table, k0=45, k4=45))
    plan = planned(Rebuild(tail=tail), view, table)
    assert plan.moves
    assert {move.bin for move in plan.moves} <= {pin.bin for pin in plan.pins}


@pytest.mark.parametrize(
    ("speeds", "slow"), [(False, 300), (True, 150)], ids=["equal rows for all", "a slow channel gets less"]
)
def test_channels_of_unequal_speed(speeds, slow) -> None:
    table = builders.table([0] * 6 + [1] * 34)
    view = seen([15] * 40, table, ms_per_row=[1.0, 3.0])
    after = apply(planned(Rebuild(speeds=speeds), view, table), table, 1)
    rows = 15 * len(after.bins_of(1))
    assert rows == pytest.approx(slow, abs=15)


def test_the_hot_set_is_followed_within_three_batches() -> None:
    tail = dict.fromkeys(range(1000, 1064), 10)
    first, then = {16 * k: 100 for k in range(1, 9)}, {16 * k + 3: 100 for k in range(20, 28)}
    loop = Loop(Rebuild(), OPEN, "act", Table.uniform(16, 4))
    batches(loop, [tail | first] * 4)
    assert {pin.hash for pin in loop.table.pins} >= set(first)
    batches(loop, [tail | then] * 3, start=4)
    assert {pin.hash for pin in loop.table.pins} >= set(then)
    busy = batches(loop, [tail | then] * 8, start=7)
    table = loop.table
    rows = [0] * 4
    for key, count in (tail | then).items():
        bins = {pin.hash: pin.bin for pin in table.pins}
        rows[table.channel_of[bins.get(key, table.home_bin(key))]] += count
    assert max(rows) * 4 / sum(rows) <= 1.1
    assert not any(decision.changed for decision in busy[-4:])
    batches(loop, [dict.fromkeys(range(2000, 2064), 10) | {5: 400}] * 6, start=15)
    assert not {pin.hash for pin in loop.table.pins} & set(first)  # `then` waits for the next change


@pytest.mark.parametrize("tail", ["ignore", "see", "move"])
@pytest.mark.parametrize("channels", [1, 2, 3, 5, 8])
def test_resize(channels, tail) -> None:
    table = builders.table([bin % 4 for bin in range(32)] + [2, 3], pins=[Pin(7, 32, "a"), Pin(9, 33, "b")])
    rows = dict.fromkeys(range(32), 100) | {32: 200, 33: 150}
    view = seen(rows, table, hot_keys=hot(table, k7=200, k9=150))
    plan = Rebuild(tail=tail).resize(view, table, channels)
    after = apply(plan, table, 1)
    load = work_by_channel(view, after)
    assert after.channels == channels == len(load)
    assert sum(load) == 3550
    if tail == "move":
        assert max(load) <= sum(load) / channels + 100  # within a bin of the mean
    assert all(after.bins_of(channel) for channel in range(channels))
    assert bool(after.pins) is (channels > 1)


def test_resize_to_more_channels_moves_only_what_it_must() -> None:
    table = Table.uniform(32, 4)
    plan = Rebuild().resize(seen([100] * 32, table), table, 8)
    assert {move.target for move in plan.moves} == {4, 5, 6, 7}
    assert len(plan.moves) == 16


def test_resize_without_load_deals_the_bins_by_count_and_keeps_the_pins() -> None:
    table = builders.table([0, 1, 0, 1, 1], pins=[Pin(6, 4, "k")])
    for channels in (1, 3, 4):
        after = apply(Rebuild().resize(LoadView(), table, channels), table, 1)
        sizes = [len([b for b in after.bins_of(c) if b < 4]) for c in range(channels)]
        assert all(abs(size - 4 / channels) <= 1 for size in sizes)
        assert after.pins == table.pins


def test_resize_to_what_is_there_mends_the_balance_or_does_nothing() -> None:
    table = builders.table([0, 0, 1, 1])
    assert Rebuild().resize(seen([5, 5, 5, 5], table), table, 2).is_empty
    skewed = seen([50, 50, 0, 0], table)
    assert Rebuild().resize(skewed, table, 2) == Rebuild().propose(skewed, table)


@pytest.mark.parametrize("channels", [0, 5])
def test_resize_to_what_cannot_be(channels) -> None:
    with pytest.raises(ConfigError, match=f"{channels} channels for 4 bins"):
        Rebuild().resize(LoadView(), Table.uniform(4, 2), channels)


def test_a_journal_with_pins_and_resizes_replays() -> None:
    loop = Loop(Rebuild(), OPEN, "act", Table.uniform(16, 4))
    lines = []
    for batch in range(8):
        if batch in (2, 5):
            loop.request_channels({2: 6, 5: 3}[batch])
        keys = {16 * k + batch // 4: 60 for k in range(1, 6)}
        rows = dict.fromkeys(loop.table.bins, 10)
        hot_keys = [HotKey(key, loop.table.home_bin(key), str(key), count) for key, count in keys.items()]
        for key in hot_keys:
            rows[key.bin] += key.rows
        report = builders.report(batch, loop.table, rows, hot_keys=hot_keys)
        lines.append(journal.encode(report, loop.step(report)))
    reports = [journal.decode(line).report for line in lines]
    again = journal.replay(lines, Rebuild(), OPEN, "act")
    assert [journal.encode(*pair) for pair in zip(reports, again, strict=True)] == lines


def test_settings_of_the_operator_fill_in_only_what_was_left_open() -> None:
    assert Rebuild().fitted("LQL") == Rebuild(resources="LQL", split=True)
    assert Rebuild(resources="CCL").fitted("LQL") == Rebuild(resources="CCL", split=True)
    assert Rebuild(split=False).fitted("LQL") == Rebuild(resources="LQL", split=False)
    assert Rebuild().fitted("CLL", whole="it must").split is False
    with pytest.raises(ConfigError, match="split=True, but it must"):
        Rebuild(split=True).fitted("CLL", whole="it must")
    assert policies.get("rebuild") == Rebuild()
    assert Rebuild().initial(8, 2) == Table.uniform(8, 2)


@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm": "greedy"},
        {"utility": "B"},
        {"alpha": 1.0},
        {"sigma": 0.0},
        {"resources": "LX"},
        {"tail": "drop"},
        {"unpin_below": 1.5},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_settings_that_cannot_be(settings) -> None:
    with pytest.raises(ConfigError, match="rebuild"):
        Rebuild(**settings)
