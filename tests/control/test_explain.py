"""Decisions in words."""

import pytest

from headgate.control.explain import REMEDIES, explained
from headgate.control.loop import Loop
from headgate.control.refusal import Reason
from headgate.policies import FluxLoad, Guard, Static
from headgate.routing.table import Table
from headgate.testing import builders


def decided(policy=None, guard=None, mode="act", rows=(90, 10, 10, 10)):
    table = Table.uniform(4, 2)
    loop = Loop(policy or FluxLoad(), guard or Guard(), mode, table)
    report = builders.report(0, table, list(rows))
    return explained(report, loop.step(report))


def test_a_plan_that_is_carried_out_names_its_moves_gain_and_bytes() -> None:
    text = decided()
    assert "channel 0 was busiest" in text
    assert "bin 2 (10 rows a batch, 100 B): channel 0 to 1" in text
    assert "moves 100 B, gain 10.0% of the busiest channel's time" in text
    assert text.endswith("carried out: table 1 is in force from batch 1")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"guard": Guard(min_gain=0.9)}, "refused: gain_below_cost: gain 0.1000 is below min_gain 0.9000"),
        ({"mode": "observe"}, "refused: observe_only"),
        ({"mode": "advise"}, "refused: advise_only"),
        ({"policy": Static()}, "the policy found nothing to change"),
    ],
    ids=["too little gain", "observing", "advising", "static"],
)
def test_what_is_not_carried_out_says_why_and_what_to_do(settings, said) -> None:
    assert said in decided(**settings)


def test_every_refusal_has_a_remedy() -> None:
    assert set(REMEDIES) == set(Reason)


def test_memory_and_backlog_are_told() -> None:
    table = Table.uniform(4, 2)
    report = builders.report(0, table, [9, 1, 1, 1], sizes={0: 900}, memory=[500, 5000], on_disk={0})
    loop = Loop(Static(), Guard(), "act", table)
    assert "on disk for lack of memory: channel 0 900 B (limit 500 B)" in explained(report, loop.step(report))
