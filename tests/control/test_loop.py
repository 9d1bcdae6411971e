"""The loop: who decides, in which mode, and what survives a restart."""

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from headgate import policies
from headgate.control import Decision, LoadView, Loop, Mode, Move, Plan, Reason, fold
from headgate.errors import BatchOrder, ConfigError
from headgate.policies import FluxLoad, Guard, Policy, Rebuild, Static
from headgate.routing.table import Table
from headgate.testing import builders

EVEN = Table.uniform(4, 2)


SKEWED = [9, 1, 5, 1]


@dataclass
class Scripted(Policy):
    """Proposes what it is told, or raises it."""

    answer: Any
    name: str = "scripted"

    def propose(self, view, table):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def loop(policy=None, guard=None, mode="act", table=EVEN):
    return Loop(policy or FluxLoad(), guard or Guard(cool_down_batches=0), mode, table)


def reason(decision):
    return decision.refusal and decision.refusal.name


def test_act_changes_the_table_from_the_next_batch() -> None:
    it = loop()
    decision = it.step(builders.report(4, EVEN, SKEWED))
    assert decision.changed
    assert decision.refusal is None
    assert it.table is decision.table
    assert (decision.table.version, decision.table.from_batch) == (1, 5)


@pytest.mark.parametrize(
    ("mode", "planned", "name"),
    [("observe", False, Reason.observe_only), ("advise", True, Reason.advise_only)],
)
def test_other_modes_leave_the_table_alone(mode, planned, name) -> None:
    decision = loop(mode=mode).step(builders.report(0, EVEN, SKEWED))
    assert decision.table is EVEN
    assert (decision.plan is not None) is planned
    assert reason(decision) is name


def test_silence_is_no_plan_and_no_refusal() -> None:
    decision = loop().step(builders.report(0, EVEN, [5, 5, 5, 5]))
    assert (decision.plan, decision.refusal, decision.table) == (None, None, EVEN)


NONSENSE: Any = "nonsense"


GOOD = Plan(policy="scripted", from_version=0, moves=(Move(0, 0, 1),), gain=0.5)


@pytest.mark.parametrize(
    ("answer", "name", "detail"),
    [
        (ZeroDivisionError("oops"), Reason.policy_raised, "ZeroDivisionError: oops"),
        (replace(GOOD, from_version=7), Reason.stale_table, "version 7"),
        (replace(GOOD, moves=(Move(0, 1, 0),)), Reason.invalid_plan, "bin 0 is on channel 0"),
        (replace(GOOD, moves=(Move(0, 0, 9),)), Reason.invalid_plan, "channel 9"),
        (replace(GOOD, moves=NONSENSE), Reason.invalid_plan, "AttributeError"),
        ("a string", Reason.invalid_plan, "str"),
        (replace(GOOD, moves=()), Reason.nothing_to_do, ""),
        (replace(GOOD, gain=0.0), Reason.gain_below_cost, "0.0500"),
    ],
)
def test_a_bad_plan_is_a_named_refusal_and_the_stream_goes_on(answer, name, detail) -> None:
    it = loop(Scripted(answer))
    decision = it.step(builders.report(0, EVEN, SKEWED))
    assert reason(decision) is name
    assert detail in decision.refusal.detail
    assert decision.table is EVEN
    it.policy = Scripted(GOOD)
    assert it.step(builders.report(1, EVEN, SKEWED)).changed


def test_cool_down_holds_the_next_plan_back() -> None:
    it = loop(guard=Guard(min_gain=0.0, cool_down_batches=1))
    assert it.step(builders.report(0, EVEN, SKEWED)).changed
    it.policy = Scripted(Plan(policy="s", from_version=1, moves=(Move(1, 1, 0),), gain=0.5))
    assert reason(it.step(builders.report(1, it.table, SKEWED))) is Reason.cool_down
    assert it.step(builders.report(2, it.table, SKEWED)).changed


@pytest.mark.parametrize("mode", list(Mode))
def test_a_rescale_asked_for_passes_in_every_mode_and_past_the_guard(mode) -> None:
    it = loop(Static(), Guard(min_gain=0.9, cool_down_batches=99, max_moves=0, notice_batches=0), mode)
    for batch, channels in enumerate([3, 1, 4]):
        it.request_channels(2)
        it.request_channels(channels)
        decision = it.step(builders.report(batch, it.table, SKEWED))
        assert decision.asked == channels
        assert (decision.table.channels, decision.table.from_batch) == (channels, batch + 1)
    assert it.step(builders.report(9, it.table, SKEWED)).asked is None


def test_a_rescale_to_what_is_there_does_nothing() -> None:
    it = loop()
    it.request_channels(2)
    decision = it.step(builders.report(0, EVEN, SKEWED))
    assert reason(decision) is Reason.nothing_to_do
    assert decision.table is EVEN


@pytest.mark.parametrize("channels", [0, 5])
def test_a_rescale_that_cannot_be_is_refused_when_asked(channels) -> None:
    with pytest.raises(ConfigError, match=f"{channels} channels for 4 bins"):
        loop().request_channels(channels)


def test_a_batch_is_stepped_once() -> None:
    it = loop()
    it.step(builders.report(3, EVEN, SKEWED))
    with pytest.raises(BatchOrder, match="batch 3 was reported after batch 3"):
        it.step(builders.report(3, EVEN, SKEWED))


def test_a_restored_loop_decides_as_the_one_that_went_on() -> None:
    it = loop(guard=Guard(cool_down_batches=1))
    rows = [SKEWED, [1, 9, 1, 9], [30, 1, 1, 1], [5, 5, 5, 5], [1, 1, 9, 1]]
    it.step(builders.report(0, it.table, rows[0]))
    for batch, per_bin in enumerate(rows[1:], 1):
        if batch == 3:
            it.request_channels(3)
        state = json.loads(json.dumps(it.snapshot()))
        other = Loop.restore(state, it.policy, it.guard, it.mode)
        report = builders.report(batch, it.table, per_bin)
        assert other.step(report) == it.step(report)
        assert other.snapshot() == it.snapshot()


def test_a_view_made_by_the_driver_is_decided_on_as_a_folded_report_is() -> None:
    table = Table.uniform(8, 2)
    report = builders.report(0, table, [40, 1, 40, 1, 40, 1, 40, 1])
    by_report = Loop(FluxLoad(), Guard(), "act", table)
    by_view = Loop(FluxLoad(), Guard(), "act", table)
    view = fold(LoadView(), report, table)
    assert by_view.decide(view, 0).to_json() == by_report.step(report).to_json()
    assert by_view.snapshot() == by_report.snapshot()
    with pytest.raises(BatchOrder):
        by_view.decide(view, 0)


class Odd(Rebuild):
    """A rebuild whose `resize` gives what it is told to, or raises it."""

    answer: object = None

    def resize(self, view, table, channels):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def stepped(policy, channels=3, mode="act"):
    loop = Loop(policy, Guard(), mode, Table.uniform(6, 2))
    loop.request_channels(channels)
    return loop.step(builders.report(0, loop.table, [60, 10, 10, 10, 10, 20]))


def test_the_loop_takes_the_plan_of_a_policy_that_can_resize() -> None:
    decision = stepped(Rebuild())
    assert decision.plan.policy == "rescale"
    assert decision.plan.reason.startswith("asked for 3 channels, had 2; busiest over mean 1.33")
    assert decision.table.channels == 3
    assert decision.table.bins_of(decision.table.channel_of[0]) == (0,)  # by count it would have company


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (RuntimeError("no"), "RuntimeError: no"),
        ("no", "returned a str, not a Plan"),
        (Plan(policy="odd", from_version=7, channels=3), "StaleTable"),
        (Plan(policy="odd", from_version=0, channels=3, moves=(Move(0, 1, 2),)), "bin 0 is on channel 0"),
        (Plan(policy="odd", from_version=0, channels=4), "it planned 4 channels"),
    ],
    ids=["it raises", "it returns no plan", "a stale plan", "a plan that does not apply", "other channels"],
)
def test_a_resize_that_fails_is_replaced_and_named(answer, said) -> None:
    policy = Odd()
    object.__setattr__(policy, "answer", answer)
    decision = stepped(policy)
    assert decision.refusal is None
    assert decision.table.channels == 3
    assert decision.plan.reason.startswith("asked for 3 channels, had 2; resize of rebuild was not used: ")
    assert said in decision.plan.reason


@pytest.mark.parametrize("mode", ["observe", "advise"])
def test_where_the_policy_may_not_act_a_resize_is_the_plain_one(mode) -> None:
    assert stepped(Rebuild(), mode=mode).plan == stepped(policies.Static(), mode=mode).plan


def test_a_policy_has_defaults_for_every_hook_but_name_and_propose() -> None:
    policy = Scripted(None)
    assert policy.initial(4, 2) == EVEN
    assert policy.remembers == 0
    assert policy.resize(LoadView(), EVEN, 3) is None
    assert policy.fitted("CLL", whole="it must stay whole") is policy


def announcing(**guard):
    """A loop on two executors whose state takes several batches to read, and its next report."""
    loop = Loop(policies.Static(), Guard(**guard), "act", Table.uniform(6, 2))
    number = iter(range(100))

    def report():
        made = builders.report(next(number), loop.table, [10] * 6, wall_ms=1.0)
        two = [replace(c, executor=f"e{c.channel % 2}") for c in made.channels]
        return replace(
            made, channels=tuple(two), bins=tuple(replace(b, state_bytes=100_000) for b in made.bins)
        )

    return loop, report


def test_a_table_that_moves_much_state_is_announced_and_nothing_else_changes_until_then() -> None:
    loop, report = announcing(cool_down_batches=0)
    before = loop.table
    loop.request_channels(4)
    decision = loop.step(report())
    assert (decision.notice, decision.table.from_batch) == (2, 3)
    assert Decision.from_json(decision.to_json()) == decision
    assert [loop.in_force(batch) for batch in (1, 2)] == [before] * 2
    assert loop.announced(2) is loop.table is loop.in_force(3)
    assert loop.announced(3) is None
    loop.request_channels(3)
    loop.policy = Scripted(Plan(policy="p", from_version=1, moves=(Move(0, 0, 1),), gain=1.0))
    waiting = loop.step(report())
    assert (waiting.asked, waiting.refusal.name) == (None, Reason.cool_down)
    loop = Loop.restore(loop.snapshot(), loop.policy, loop.guard, loop.mode)
    assert loop.in_force(2) == before
    answered = loop.step(report())
    assert (answered.asked, answered.table.version) == (3, 2)
