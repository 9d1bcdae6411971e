"""Laws of the rebuild policy: its plans apply, relieve the busiest channel, and end on steady load."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import HotKey, LoadView, Plan, apply, fold
from headgate.policies import Rebuild
from headgate.testing import builders
from headgate.testing.strategies import key_hashes, tables

ALGORITHMS = st.sampled_from(["redist", "readj", "scan"])
TAILS = st.sampled_from(["ignore", "see", "move"])


@st.composite
def loads(draw, *, equal_speed):
    """A table, and the view of one batch under it whose hot keys are within their bins' rows."""
    table = draw(tables())
    rows = {bin: draw(st.integers(0, 1000)) for bin in table.bins}
    pinned = {pin.hash for pin in table.pins}
    hot = []
    for key in draw(st.lists(key_hashes, max_size=4, unique=True)):
        if key not in pinned:
            home = table.home_bin(key)
            count = draw(st.integers(1, 800))
            rows[home] += count
            hot.append(HotKey(key, home, f"key {key}", count))
    cost = st.just(1.0) if equal_speed else st.sampled_from([0.5, 1.0, 2.0, 3.0])
    costs = [draw(cost) for _ in range(table.channels)]
    view = LoadView(basis=draw(st.sampled_from(["rows", "busy"] if equal_speed else ["rows"])))
    report = builders.report(0, table, rows, ms_per_row=costs, hot_keys=hot)
    return table, fold(view, report, table)


def assert_one_channel_each(table) -> None:
    channels = [bin for channel in range(table.channels) for bin in table.bins_of(channel)]
    assert sorted(channels) == list(table.bins)


@given(loads(equal_speed=True), ALGORITHMS, TAILS, st.booleans())
@settings(deadline=None)
def test_a_plan_applies_and_the_busiest_channel_gets_no_busier(load, algorithm, tail, split) -> None:
    table, view = load
    plan = Rebuild(algorithm=algorithm, tail=tail, split=split).propose(view, table)
    if not isinstance(plan, Plan):
        return
    after = apply(plan, table, 1)
    assert_one_channel_each(after)
    assert 0 < plan.gain < 1
    busiest = max(view.channel_load)
    assert max(view.under(after).channel_load) <= busiest * (1 + 1e-9)


@given(loads(equal_speed=False), TAILS)
@settings(deadline=None)
def test_with_speeds_the_busiest_channel_gets_no_busier_where_channels_differ(load, tail) -> None:
    table, view = load
    plan = Rebuild(speeds=True, tail=tail).propose(view, table)
    if isinstance(plan, Plan):
        after = view.under(apply(plan, table, 1))
        assert max(after.channel_load) <= max(view.channel_load) * (1 + 1e-9)


@given(loads(equal_speed=True), ALGORITHMS, st.sampled_from(["CLL", "LLL", "LCL", "LQL"]), st.booleans())
@settings(deadline=None)
def test_on_steady_load_it_is_silent_after_at_most_two_rounds(load, algorithm, resources, split) -> None:
    table, view = load
    policy = Rebuild(algorithm=algorithm, resources=resources, split=split)
    for _ in range(2):
        plan = policy.propose(view, table)
        if not isinstance(plan, Plan):
            return
        table = apply(plan, table, table.from_batch + 1)
        view = view.under(table)
    assert not isinstance(policy.propose(view, table), Plan)


@given(loads(equal_speed=False), ALGORITHMS, TAILS, st.integers(1, 8), st.booleans(), st.booleans())
@settings(deadline=None)
def test_every_resize_applies_and_has_the_channels_asked_for(
    load, algorithm, tail, channels, speeds, split
) -> None:
    table, view = load
    channels = min(channels, table.hash_bins)
    policy = Rebuild(algorithm=algorithm, tail=tail, speeds=speeds, split=split)
    plan = policy.resize(view, table, channels)
    after = apply(plan, table, 1)
    assert_one_channel_each(after)
    assert after.channels == channels
    assert sum(view.under(after).bin_work.values()) <= sum(view.bin_work.values()) * (1 + 1e-9)


@given(loads(equal_speed=False), st.integers(1, 8))
@settings(deadline=None)
def test_the_same_view_and_table_give_the_same_plan(load, channels) -> None:
    table, view = load
    again = LoadView.from_json(view.to_json())
    assert Rebuild().propose(view, table) == Rebuild().propose(again, table)
    channels = min(channels, table.hash_bins)
    assert Rebuild().resize(view, table, channels) == Rebuild().resize(again, table, channels)
