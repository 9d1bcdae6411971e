"""What a batch writes of the bins that it has changed: a delta of each, or all of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headgate.operators.channel_run import ChannelRun
from headgate.state.section import Change, extract
from headgate.storage import state_file


def changed_sections(
    run: ChannelRun, touched: Mapping[int, Change], snapshots: Collection[int]
) -> list[state_file.Piece]:
    """The sections of a state file: deltas of the `touched` bins, and the bins of `snapshots` whole."""
    sections = [
        state_file.Piece(b, kind, rows)
        for b, change in touched.items()
        if b not in snapshots
        for kind, rows in ((state_file.GONE, change.gone), (state_file.DELTA, change.rows))
        if len(rows)
    ]
    for b in snapshots:
        table = run.table(b)
        sections.append(state_file.Piece(b, state_file.SNAPSHOT, extract(table, table.live, whole=True)))
    return sections
