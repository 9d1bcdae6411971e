"""Flux's load policy: pairs, thresholds, what it leaves alone, and the registry of names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control import LoadView, Loop, apply, fold
from headgate.errors import ConfigError
from headgate.policies import FluxLoad, Guard
from headgate.routing.table import Move, Table
from headgate.testing import builders
from headgate.testing.strategies import reports, tables


def seen(rows, table, **settings):
    return fold(LoadView(alpha=1.0), builders.report(0, table, rows, **settings), table)


def propose(rows, table, *, imbalance=1.2, rounds=1, settle=1.2, **settings):
    return FluxLoad(imbalance, rounds, settle).propose(seen(rows, table, **settings), table)


def test_moves_the_bin_that_evens_the_pair_best() -> None:
    plan = propose([8, 1, 5, 0, 1, 1], Table.uniform(6, 2))
    assert plan.moves == (Move(2, 0, 1),)  # 14 and 2: moving 5 gives 9 and 7, moving 8 gives 6 and 10
    assert plan.gain == pytest.approx(1 - 9 / 14)
    assert plan.cost == 100


def test_equal_choices_go_to_the_lower_bin() -> None:
    assert propose([3, 0, 3, 0], Table.uniform(4, 2)).moves == (Move(0, 0, 1),)


def test_pairs_run_from_the_ends_inwards() -> None:
    table = Table.uniform(8, 4)
    plan = propose([20, 0, 10, 1, 20, 0, 10, 1], table)
    assert plan.moves == (Move(0, 0, 1), Move(2, 2, 3))


@pytest.mark.parametrize(
    "rows",
    [[12, 5, 0, 5], [6, 5, 6, 5], [5, 5, 5, 5]],
    ids=["one bin is all the load", "every bin is larger than the difference", "the loads are equal"],
)
def test_what_cannot_be_helped_is_left(rows) -> None:
    assert propose(rows, Table.uniform(4, 2), imbalance=1.0) is None


def test_when_the_busiest_channel_cannot_be_relieved_the_others_are_left_too() -> None:
    assert propose([50, 20, 1, 1, 0, 20, 1, 1], Table.uniform(8, 4)) is None


@pytest.mark.parametrize(("heavy", "silent"), [(119, True), (121, False)])
def test_threshold_of_imbalance(heavy, silent) -> None:
    rows = [heavy - 5, 100, 5, 0]
    assert (propose(rows, Table.uniform(4, 2)) is None) is silent


def test_only_channels_above_the_mean_give() -> None:
    plan = propose([100, 1, 30, 2, 100, 1, 30, 2], Table.uniform(8, 4))
    assert {move.source for move in plan.moves} == {0}


def test_equally_busy_donors_are_all_relieved_over_rounds() -> None:
    table = Table.uniform(8, 4)
    rows = [5, 5, 5, 0, 5, 5, 5, 0]
    plan = propose(rows, table, rounds=1)
    assert plan.moves == (Move(0, 0, 3),)
    assert plan.gain == pytest.approx(0.5)


def test_a_slow_receiver_is_spared() -> None:
    table = Table.uniform(6, 2)
    rows = [10, 10, 10, 10, 10, 10]
    plan = propose(rows, table, ms_per_row=[1.0, 8.0])
    assert {(move.source, move.target) for move in plan.moves} == {(1, 0)}


def test_no_load_no_plan_and_one_channel_no_plan() -> None:
    assert propose([0, 0], Table.uniform(2, 2)) is None
    assert propose([5, 1], Table.uniform(2, 1)) is None


@given(st.data())
def test_no_channel_ends_above_the_load_of_a_donor_before(data) -> None:
    table = data.draw(tables())
    view = fold(LoadView(), data.draw(reports(table)), table)
    plan = FluxLoad(rounds=data.draw(st.integers(1, 5))).propose(view, table)
    if plan is None:
        return
    after = view.under(apply(plan, table, 1)).channel_load
    assert max(after) <= max(view.channel_load) * (1 + 1e-9)
    assert 0 < plan.gain < 1


@given(st.data())
def test_one_round_moves_each_channel_once(data) -> None:
    table = data.draw(tables())
    view = fold(LoadView(), data.draw(reports(table)), table)
    plan = FluxLoad(rounds=1).propose(view, table)
    ends = [end for move in (plan.moves if plan else ()) for end in (move.source, move.target)]
    assert len(ends) == len(set(ends)) <= table.channels


@pytest.mark.parametrize(
    "settings",
    [
        {"imbalance": 0.9},
        {"imbalance": float("nan")},
        {"rounds": 0},
        {"settle": 0.5},
        {"choice": "worst"},
        {"utilization": "idle"},
        {"receiver": 0.0},
        {"receiver": 1.1},
    ],
    ids=str,
)
def test_settings_that_cannot_be(settings) -> None:
    with pytest.raises(ConfigError):
        FluxLoad(**settings)


def test_a_slow_channel_that_was_emptied_is_not_tried_again_and_again() -> None:
    loop = Loop(FluxLoad(), Guard(cool_down_batches=0), "act", builders.table([0, 0], channels=2))
    changes = 0
    for batch in range(40):
        changes += loop.step(builders.report(batch, loop.table, [1, 1], ms_per_row=[0.5, 1.5])).changed
    assert changes <= 2


def paper(rows, table, **settings):
    return FluxLoad.paper().propose(seen(rows, table, **settings), table)


def test_fx_36_the_example_of_figure_6() -> None:
    """Four sites by utilization; bin 5 goes to site 4, and bin 8, not the larger 9, from site 2 to site 3."""
    table = builders.table([0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3])
    rows = {0: 15, 1: 12, 2: 14, 3: 9, 4: 40, 5: 5, 6: 16, 7: 9, 8: 38, 9: 20, 10: 15, 11: 5, 12: 10}
    by_rank = sorted(rows, key=lambda bin: (table.channel_of[bin], rows[bin]))
    names = {"partition 5": by_rank[4], "partition 9": by_rank[8], "partition 8": by_rank[7]}
    assert [table.channel_of[bin] for bin in names.values()] == [0, 1, 1]
    plan = paper(rows, table, wall_ms=100.0)
    assert [(m.bin, m.source + 1, m.target + 1) for m in plan.moves] == [
        (names["partition 5"], 1, 4),
        (names["partition 8"], 2, 3),
    ]


PAIR = Table.uniform(4, 2)


@pytest.mark.parametrize(("busy", "moves"), [(119, 0), (121, 1)], ids=["below th_imb", "above th_imb"])
def test_the_paper_stops_at_the_ratio_of_utilizations(busy, moves) -> None:
    plan = paper([5, 100, busy - 5, 0], PAIR, wall_ms=200.0)
    assert len(plan.moves if plan else ()) == moves


@pytest.mark.parametrize(("wall", "moves"), [(110.0, 0), (112.0, 1)], ids=["above th_util", "below th_util"])
def test_the_paper_gives_nothing_to_a_receiver_above_th_util(wall, moves) -> None:
    plan = paper([5, 100, 120, 0], PAIR, wall_ms=wall)
    assert len(plan.moves if plan else ()) == moves


def test_the_paper_takes_the_first_bin_that_helps_and_ours_the_best() -> None:
    rows, table = {0: 60, 2: 30, 4: 11, 1: 20}, Table.uniform(6, 2)
    assert paper(rows, table, wall_ms=200.0).moves == (Move(0, 0, 1),)  # 101 and 20: then 41 and 80
    assert propose(rows, table).moves == (Move(2, 0, 1),)  # 71 and 50


def test_the_paper_skips_a_bin_that_would_overfill_the_receiver() -> None:
    plan = paper({0: 100, 2: 5, 1: 5}, PAIR, ms_per_row=[1.0, 10.0], wall_ms=110.0)
    assert plan.moves == (Move(2, 0, 1),)


def test_a_fresh_channel_without_rows_takes_at_the_price_of_the_others() -> None:
    """FLUX-E5: no division by zero, and the ratio to an idle channel counts as infinite."""
    table = builders.table([0, 0, 1, 1], channels=3)
    plan = paper({0: 40, 1: 40, 2: 30, 3: 30}, table, wall_ms=100.0)
    assert plan.moves == (Move(0, 0, 2),)


def test_without_a_measured_utilization_the_paper_is_silent() -> None:
    older = builders.table([0, 1, 0, 1], version=4)
    view = fold(LoadView(), builders.report(0, PAIR, [50, 0, 50, 0]), older)  # reported under version 0
    assert view.utilization == {}
    assert FluxLoad.paper().propose(view, older) is None


def test_once_it_acts_it_goes_on_until_the_pair_is_settled() -> None:
    table = Table.uniform(128, 2)
    rows = [10] * 128
    slow = {"ms_per_row": [1.0, 1.15]}
    assert FluxLoad(imbalance=1.2).propose(seen(rows, table, **slow), table) is None
    plan = FluxLoad(imbalance=1.1).propose(seen(rows, table, **slow), table)
    assert plan is not None
    after = seen(rows, table, **slow).under(apply(plan, table, 1)).channel_load
    assert max(after) / min(after) < 1.04


@given(st.data())
def test_the_paper_falls_silent_where_channels_are_equally_fast(data) -> None:
    """Each move keeps the sum and shrinks a difference, so the sum of squares falls: it must end."""
    table = data.draw(tables())
    rows = {b: data.draw(st.integers(0, 100)) for b in table.bins}
    loop = Loop(FluxLoad.paper(), Guard(0.0, 0), "act", table, view=LoadView(alpha=1.0))
    changed = [
        loop.step(builders.report(batch, loop.table, rows, wall_ms=1 + float(sum(rows.values())))).changed
        for batch in range(80)
    ]
    assert not any(changed[60:])
