"""What the controllers share: channels without a measurement, memory, the paper's rules, settings."""

from dataclasses import replace

import pytest
from tests.policies.proposals import planned, refused

from headgate import policies
from headgate.control import LoadView, Loop, Plan, Reason, apply, journal
from headgate.control.view import fold
from headgate.errors import ConfigError
from headgate.policies import Guard, Lqr, Mpc
from headgate.policies.controller import Rules
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


@pytest.mark.parametrize(
    "policy", [Mpc(), Mpc("quadratic"), Mpc("quadratic", 5.0), Mpc(forecast=False), Lqr()]
)
def test_a_slow_channel_is_relieved_until_the_times_are_even(policy) -> None:
    loop = Loop(policy, Guard(min_gain=0.0, cool_down_batches=0), "act", Table.uniform(300, 3))
    for batch in range(12):
        loop.step(builders.report(batch, loop.table, [10] * 300, ms_per_row=SLOW))
    got = loads(loop.table, SLOW)
    assert max(got) / min(got) < 1.15


def silent(report):
    return replace(report, channels=report.channels[:2])


def stalled(report):
    return replace(
        report, channels=(*report.channels[:2], replace(report.channels[2], rows=0, busy_ms=900.0))
    )


def not_a_number(report):
    return replace(report, channels=(*report.channels[:2], replace(report.channels[2], busy_ms=float("nan"))))


def without_time(report):
    return replace(report, channels=(*report.channels[:2], replace(report.channels[2], busy_ms=0.0)))


@pytest.mark.parametrize("policy", ["mpc", "lqr"])
@pytest.mark.parametrize("broken", [silent, stalled, not_a_number, without_time], ids=lambda f: f.__name__)
def test_a_channel_that_tells_nothing_leaves_the_shares_as_they_are_and_the_stream_goes_on(
    policy, broken
) -> None:
    loop = Loop(policies.get(policy), Guard(min_gain=0.0, cool_down_batches=0), "act", EVEN)
    for batch in range(3):
        decision = loop.step(broken(builders.report(batch, EVEN, [10] * 60, ms_per_row=SLOW)))
        assert decision.refusal is not None
        assert decision.refusal.name is Reason.unmeasured
        assert "channel 2" in decision.refusal.detail
        assert not decision.changed
    for batch in range(3, 6):
        report = builders.report(batch, loop.table, [10] * 60, ms_per_row=SLOW)
        journal.encode(report, loop.step(report))
    assert loop.table.version > 0


def test_one_channel_and_no_work_are_nothing_to_decide() -> None:
    alone = Table.uniform(4, 1)
    assert Mpc().propose(LoadView(reports=5, bin_work={0: 1.0}), alone) is None
    assert Mpc().propose(LoadView(reports=5), EVEN) is None


def test_memory_that_cannot_hold_the_state_is_infeasible_by_name() -> None:
    tight = viewed(memory=[1500, 1500, 1500])
    refusal = refused(Mpc(), tight, EVEN)
    assert refusal.name is Reason.infeasible
    assert "75.0%" in refusal.detail


def test_memory_bounds_a_channels_share() -> None:
    plan = planned(Mpc(), viewed(memory=[2200, 10**9, 10**9]), EVEN)
    after = apply(plan, EVEN, 4)
    assert len(after.bins_of(0)) <= 22
    assert len(after.bins_of(1)) > 25


def test_the_papers_rules_wait_for_reports_and_for_costs_that_stand_still() -> None:
    paper = Mpc.paper()
    early = refused(paper, viewed(batches=9), EVEN)
    assert early.name is Reason.unsettled
    assert "9 of 10" in early.detail
    assert isinstance(paper.propose(viewed(batches=10), EVEN), Plan)
    jumps = fold(viewed(batches=10), builders.report(10, EVEN, [10] * 60, ms_per_row=(1.0, 1.1, 3.0)), EVEN)
    jumped = refused(paper, jumps, EVEN)
    assert jumped.name is Reason.unsettled
    assert "channel 1 changed by 10.0%" in jumped.detail


def test_cx_14_within_the_deadband_nothing_moves() -> None:
    view = viewed(costs=(1.0, 1.0, 1.06))
    shares = Mpc("quadratic", 0.0)
    assert shares.propose(view, EVEN) is None
    assert isinstance(shares.propose(viewed(costs=(1.0, 1.0, 1.2)), EVEN), Plan)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Mpc("cubic"), "neither 'linear' nor 'quadratic'"),  # type: ignore[arg-type]
        (lambda: Mpc(weight=3.0), "only the quadratic cost"),
        (lambda: Mpc(bandwidth_mb_s=0), "above 0"),
        (lambda: Lqr(-1.0), "0 or more"),
        (lambda: Rules(deadband=1.0), "out of range"),
        (lambda: Rules(gate=0.0), "out of range"),
    ],
)
def test_settings_that_cannot_be_are_refused(make, says) -> None:
    with pytest.raises(ConfigError, match=says):
        make()
