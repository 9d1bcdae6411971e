"""Flux's memory policy and the hybrid: who gives, what goes first, and when they are silent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control import LoadView, Loop, apply, fold
from headgate.errors import ConfigError
from headgate.policies import FluxHybrid, FluxMemory, Guard
from headgate.routing.table import Move, Table
from headgate.testing import builders
from headgate.testing.strategies import tables

PAIR = Table.uniform(6, 2)


def seen(table, **settings):
    settings = {"rows": [1] * len(table.bins), **settings}
    return fold(LoadView(), builders.report(0, table, settings.pop("rows"), **settings), table)


def paper(table, **settings):
    plan = FluxMemory.paper().propose(seen(table, **settings), table)
    return plan.moves if plan else ()


def test_excess_is_what_was_granted_less_all_state_in_memory_or_on_disk() -> None:
    view = seen(PAIR, memory=[200, 1000], on_disk={0})
    assert view.excess_bytes(PAIR) == [-100, 700]
    assert seen(PAIR, memory=[0, 1000]).excess_bytes(PAIR) == [float("inf"), 700]
    moved = builders.table([1, 1, 0, 1, 0, 1], version=1)
    assert view.excess_bytes(moved) == [0, 600]


def test_the_channel_short_of_memory_gives_its_largest_bin_that_makes_the_pair_more_even() -> None:
    sizes = {0: 700, 2: 150, 4: 180}
    assert paper(PAIR, memory=[900, 850], sizes=sizes, on_disk={2}) == (Move(4, 0, 1),)  # -130 and 550


def test_bins_in_memory_go_before_bins_on_disk_whatever_their_size() -> None:
    assert paper(PAIR, memory=[200, 1000], sizes={2: 300}, on_disk={2}) == (Move(0, 0, 1),)
    assert paper(PAIR, memory=[200, 1000], sizes={2: 300}, on_disk={0, 2, 4}) == (Move(2, 0, 1),)


@pytest.mark.parametrize(("size", "moves"), [(99, 1), (101, 0)], ids=["helps", "makes it worse"])
def test_a_move_must_make_the_pair_strictly_more_even(size, moves) -> None:
    sizes = dict.fromkeys(PAIR.bins, size)
    memory = [3 * size - 1, 3 * size + 99]
    assert len(paper(PAIR, memory=memory, sizes=sizes)) == moves


def test_memory_exhausted_everywhere_still_evens_what_is_on_disk() -> None:
    table = builders.table([0, 0, 0, 0, 1, 1])
    assert paper(table, memory=[100, 100], on_disk={0, 1, 2, 4}) == (Move(3, 0, 1),)


def test_no_limit_no_plan_and_one_channel_no_plan() -> None:
    assert paper(PAIR) == ()
    assert paper(Table.uniform(2, 1), memory=[10]) == ()


def test_a_channel_without_a_limit_takes_from_the_short_and_only_from_them() -> None:
    assert paper(PAIR, memory=[250, 0], on_disk={0}) == (Move(2, 0, 1),)
    assert paper(PAIR, memory=[350, 0]) == ()


@pytest.mark.parametrize(("receiver", "moves"), [(419, False), (420, True)], ids=["below 1.2", "at 1.2"])
def test_a_donor_that_is_not_short_gives_only_beyond_the_ratio_of_memory_in_use(receiver, moves) -> None:
    table = Table.uniform(60, 2)
    view = seen(table, memory=[350, receiver], bytes_per_bin=10)
    assert (FluxMemory().propose(view, table) is not None) is moves
    short = seen(table, memory=[295, 320], bytes_per_bin=10, on_disk={0})
    assert FluxMemory().propose(short, table) is not None


def test_gain_is_the_share_of_the_lack_that_is_made_good() -> None:
    view = seen(PAIR, memory=[100, 1000], on_disk={0, 2})
    plan, whole = FluxMemory(rounds=1).propose(view, PAIR), FluxMemory().propose(view, PAIR)
    assert plan is not None
    assert whole is not None
    assert plan.gain == pytest.approx(0.5)
    assert whole.gain == pytest.approx(1.0)
    assert "channel 0 is short of 200 bytes" in plan.reason
    assert "1 of 2 channels are short" in plan.reason


@pytest.mark.parametrize(
    "settings", [{"imbalance": 0.9}, {"imbalance": float("nan")}, {"rounds": 0}], ids=str
)
def test_settings_that_cannot_be(settings) -> None:
    with pytest.raises(ConfigError, match="flux-memory"):
        FluxMemory(**settings)


@st.composite
def memories(draw, table):
    return {
        "sizes": {b: draw(st.integers(0, 100)) for b in table.bins},
        "memory": [draw(st.sampled_from([0, 50, 200, 400, 1000])) for _ in range(table.channels)],
    }


def spilled(table, sizes, memory):
    """What each channel would have on disk: its last bins, until the rest fits."""
    found = set()
    for channel in range(table.channels):
        mine = list(table.bins_of(channel))
        while memory[channel] and sum(sizes[b] for b in mine) > memory[channel]:
            found.add(mine.pop())
    return found


@pytest.mark.parametrize(
    "policy", [FluxMemory(), FluxMemory.paper(), FluxHybrid()], ids=["memory", "as printed", "hybrid"]
)
@given(st.data())
def test_on_steady_state_sizes_the_policies_fall_silent(policy, data) -> None:
    table = data.draw(tables())
    world = data.draw(memories(table))
    rows = {b: data.draw(st.integers(0, 50)) for b in table.bins}
    loop = Loop(policy, Guard(0.0, 0), "act", table, view=LoadView(alpha=1.0))
    changed = []
    for batch in range(90):
        disk = spilled(loop.table, **world)
        report = builders.report(batch, loop.table, rows, on_disk=disk, **world)
        changed.append(loop.step(report).changed)
    assert not any(changed[70:])


@given(st.data())
def test_no_plan_for_memory_makes_more_of_it_lack(data) -> None:
    table = data.draw(tables())
    world = data.draw(memories(table))
    view = seen(table, on_disk=spilled(table, **world), **world)
    plan = FluxMemory(rounds=data.draw(st.integers(1, 8))).propose(view, table)
    if plan is None:
        return
    lack = [sum(max(0, -one) for one in view.excess_bytes(t)) for t in (table, apply(plan, table, 1))]
    assert lack[1] <= lack[0]
    assert 0 <= plan.gain <= 1
