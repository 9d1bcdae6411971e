"""Laws 1, 5, 6 and 7 of the design, over any tables, loads, requests and misbehaving policies."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate import policies
from headgate.control import LoadView, Loop, Move, Pin, Plan, Reason, journal
from headgate.policies import FluxLoad, Guard, Policy
from headgate.testing import builders
from headgate.testing.strategies import key_hashes, reports, tables

guards = st.builds(
    Guard,
    min_gain=st.sampled_from([0.0, 0.05, 0.3]),
    cool_down_batches=st.integers(0, 3),
    max_moves=st.none() | st.integers(0, 4),
    max_bytes=st.none() | st.integers(0, 1000),
    notice_batches=st.sampled_from([0, 3, 64]),
    damping=st.sampled_from(["batches", "flux", "tuned"]),
)


def assert_one_channel_each(table) -> None:
    channels = [bin for channel in range(table.channels) for bin in table.bins_of(channel)]
    assert sorted(channels) == list(table.bins)


@dataclass
class Wild(Policy):
    """Proposes what Hypothesis draws: sound, stale, broken, or an exception."""

    data: st.DataObject
    name: str = field(default="wild", init=False)

    def propose(self, view, table):
        draw = self.data.draw
        if draw(st.integers(0, 5)) == 0:
            raise RuntimeError("wild")
        channel = st.integers(-1, table.channels)
        bins = st.integers(0, table.bins[-1] + 2)
        sound = st.sampled_from(table.bins).flatmap(
            lambda b: st.builds(Move, st.just(b), st.just(table.channel_of[b]), channel)
        )
        return Plan(
            policy=self.name,
            from_version=table.version - draw(st.sampled_from([0, 0, 0, 1])),
            moves=tuple(draw(st.lists(sound | st.builds(Move, bins, channel, channel), max_size=3))),
            pins=tuple(draw(st.lists(st.builds(Pin, key_hashes, bins, st.just("k")), max_size=2))),
            unpins=tuple(draw(st.lists(bins, max_size=1))),
            channels=draw(st.none() | st.integers(0, table.channels + 1)),
            gain=draw(st.floats(0, 1)),
        )


@given(st.data())
@settings(deadline=None)
def test_law_1_and_7_whatever_a_policy_does_the_stream_goes_on_with_a_whole_table(data) -> None:
    loop = Loop(Wild(data), data.draw(guards), "act", data.draw(tables()))
    for batch in range(4):
        before = loop.table
        decision = loop.step(data.draw(reports(before, batch)))
        assert_one_channel_each(decision.table)
        if decision.plan is not None and decision.plan.from_version != before.version:
            assert decision.refusal is not None
            assert decision.refusal.name is Reason.stale_table
        if decision.refusal is not None:
            assert decision.table is before
        if decision.changed:
            assert decision.table.version == before.version + 1
            assert batch < decision.table.from_batch <= batch + 1 + loop.guard.notice_batches


@given(st.data())
@settings(deadline=None)
def test_law_5_replaying_a_journal_gives_the_same_decisions_byte_for_byte(data) -> None:
    policy = policies.get(data.draw(st.sampled_from(policies.names())))
    guard, mode = data.draw(guards), data.draw(st.sampled_from(["observe", "advise", "act"]))
    view = LoadView(alpha=data.draw(st.floats(0.1, 1)), basis=data.draw(st.sampled_from(["rows", "busy"])))
    loop = Loop(policy, guard, mode, data.draw(tables()), view=view)
    lines, entries = [], []
    for batch in range(data.draw(st.integers(1, 5))):
        if data.draw(st.booleans()):
            loop.request_channels(data.draw(st.integers(1, min(loop.table.hash_bins, 6))))
        report = data.draw(reports(loop.table, batch))
        lines.append(journal.encode(report, loop.step(report)))
        entries.append(report)
        loop = Loop.restore(loop.snapshot(), policy, guard, mode)  # a restart in between changes nothing
    decisions = journal.replay(lines, policy, guard, mode, view=view)
    assert [journal.encode(*pair) for pair in zip(entries, decisions, strict=True)] == lines


@pytest.mark.parametrize("name", policies.names())
@given(st.data())
def test_law_6_on_steady_load_every_policy_falls_silent(name, data) -> None:
    table = data.draw(tables())
    rows = {b: data.draw(st.integers(0, 500)) for b in table.bins}
    speeds = [data.draw(st.sampled_from([0.5, 1.0, 1.5, 3.0])) for _ in range(table.channels)]
    loop = Loop(policies.get(name), Guard(cool_down_batches=data.draw(st.integers(0, 2))), "act", table)
    changed = []
    for batch in range(60):
        report = builders.report(batch, loop.table, rows, ms_per_row=speeds)
        if loop.step(report).changed:
            changed.append(batch)
    assert not [batch for batch in changed if batch >= 40]


@given(st.data())
def test_law_6_on_steady_load_the_busiest_channel_never_gets_busier(data) -> None:
    table = data.draw(tables())
    rows = {b: data.draw(st.integers(0, 500)) for b in table.bins}
    loop = Loop(FluxLoad(), Guard(cool_down_batches=0), "act", table)
    peak = float("inf")
    for batch in range(25):
        report = builders.report(batch, loop.table, rows)
        busiest = max(one.busy_ms for one in report.channels)
        assert busiest <= peak * (1 + 1e-9)
        peak = busiest
        loop.step(report)
