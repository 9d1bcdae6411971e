"""Model predictive control on a stage: dear moves, what a plan says, and many channels."""

from dataclasses import replace

import numpy as np
import pytest
from tests.policies.proposals import planned

from headgate.control import LoadView, Plan, apply
from headgate.control.view import fold
from headgate.policies import Mpc
from headgate.policies.horizon import Horizon
from headgate.routing.table import Table
from headgate.testing import builders

EVEN = Table.uniform(60, 3)


SLOW = (1.0, 1.0, 3.0)


def viewed(table=EVEN, costs=SLOW, batches=3, **how):
    view = LoadView(keep=2)
    for batch in range(batches):
        view = fold(view, builders.report(batch, table, [10] * 60, ms_per_row=costs, **how), table)
    return view


def loads(table, costs):
    return [cost * 10 * len(table.bins_of(channel)) for channel, cost in enumerate(costs)]


def test_dear_moves_are_not_made_for_a_small_gain() -> None:
    view = viewed(costs=(1.0, 1.0, 1.3))
    cheap = Mpc(bandwidth_mb_s=1000).propose(view, EVEN)
    assert isinstance(cheap, Plan)
    heavy = replace(view, bin_bytes=dict.fromkeys(range(60), 10**9))
    assert Mpc(bandwidth_mb_s=1).propose(heavy, EVEN) is None


def test_a_plan_names_gain_cost_and_reason() -> None:
    plan = planned(Mpc(), viewed(), EVEN)
    after = apply(plan, EVEN, 4)
    assert plan.gain == pytest.approx(1 - max(loads(after, SLOW)) / max(loads(EVEN, SLOW)))
    assert plan.cost == 100 * len(plan.moves)
    assert "channel 2 takes 1.80 times the mean time" in plan.reason


def test_planning_for_many_channels_gives_shares_and_a_sound_plan() -> None:
    table = Table.uniform(512, 32)
    rng = np.random.default_rng(5)
    report = builders.report(
        0, table, rng.integers(1, 50, 512).tolist(), ms_per_row=rng.uniform(0.5, 3, 32).tolist()
    )
    view = fold(fold(LoadView(), report, table), replace(report, batch=1), table)
    plan = planned(Mpc(horizon=Horizon(3, 6)), view, table)
    assert apply(plan, table, 2).version == 1
    assert plan.gain > 0.3
