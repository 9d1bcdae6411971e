"""The journal's codec: one line, there and back, and lines that it refuses."""

import json

import pytest

from headgate.control import Loop, journal
from headgate.errors import CorruptState, NewerFormat
from headgate.policies import FluxLoad, Guard
from headgate.routing.table import Table
from headgate.testing import builders

GUARD = Guard(cool_down_batches=0)


def record(batches, *, ask=None, skip=0):
    """A run of `batches` batches whose skew wanders; the lines after `skip` begin with a snapshot."""
    loop = Loop(FluxLoad(), GUARD, "act", Table.uniform(16, 4))
    lines = []
    for batch in range(batches):
        if ask and batch in ask:
            loop.request_channels(ask[batch])
        start = loop.snapshot() if skip and batch == skip else None
        rows = [1 + 20 * (b == batch % 16) + b % 3 for b in range(16)]
        report = builders.report(batch, loop.table, rows)
        lines.append(journal.encode(report, loop.step(report), start=start))
    return lines[skip:]


def test_a_line_reads_back_as_what_was_written() -> None:
    lines = record(6, ask={2: 6})
    for line in lines:
        assert "\n" not in line
        entry = journal.decode(line)
        assert journal.encode(entry.report, entry.decision) == line
    assert journal.decode(lines[2]).decision.table.channels == 6
    assert any(journal.decode(line).decision.changed for line in lines)


@pytest.mark.parametrize("skip", [0, 5])
def test_replay_gives_the_same_bytes(skip) -> None:
    lines = record(12, ask={1: 3, 7: 5}, skip=skip)
    entries = [journal.decode(line) for line in lines]
    decisions = journal.replay(lines, FluxLoad(), GUARD, "act")
    again = [
        journal.encode(entry.report, decision, start=entry.start)
        for entry, decision in zip(entries, decisions, strict=True)
    ]
    assert again == lines


def test_replay_under_another_policy_still_answers_the_user() -> None:
    decisions = journal.replay(record(8, ask={4: 3}), FluxLoad(imbalance=50), GUARD, "observe")
    assert [decision.table.channels for decision in decisions] == [4] * 4 + [3] * 4


@pytest.mark.parametrize("line", ["", "{}", "[]", "null", '{"format":1,"report":{}}'])
def test_a_torn_line_is_named(line) -> None:
    with pytest.raises(CorruptState, match="not a journal line"):
        journal.decode(line)


def test_a_line_cut_anywhere_is_named() -> None:
    line = record(1)[0]
    for cut in range(0, len(line), 97):
        with pytest.raises(CorruptState):
            journal.decode(line[:cut])


def test_a_newer_line_asks_for_an_upgrade() -> None:
    data = json.loads(record(1)[0]) | {"format": journal.FORMAT + 1}
    with pytest.raises(NewerFormat, match="upgrade"):
        journal.decode(json.dumps(data))
