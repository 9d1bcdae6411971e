# mypy: allow-untyped-defs, allow-untyped-calls
"""Session windows: rows of a key that are no more than a gap apart, in whatever order they come.

A key has a state row for each of its open sessions; the part of the row is the time of one of the
session's rows. The rows of a chunk are first grouped into sessions among themselves, and these are then
combined with the open sessions that they touch. Sessions that a row connects become one, and their
aggregates are merged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.compiled import compiled
from headgate.errors import ConfigError
from headgate.operators.base import Chunk
from headgate.operators.groups import by_key, state_rows
from headgate.operators.windows import END, START, TIME, BoundWindows, Session, Windows
from headgate.state.keys import KeySpec
from headgate.state.layout import Kind, StateColumn, StateLayout
from headgate.state.section import Extract, extract
from headgate.state.table import BinTable

if TYPE_CHECKING:
    from headgate.operators.combine import Combined


class BoundSessions(BoundWindows):
    """Session windows bound to the key and schema of a stream."""

    gathers = True
    counts_rows = True  # a row that opens a session touches it twice

    def __init__(self, config: Windows, key: KeySpec, schema: pa.Schema) -> None:
        super().__init__(config, key, schema)
        if self.ordered:
            names = ", ".join(p.name for p in self.parts if p.ordered)
            raise ConfigError(
                f"{names}: sessions that become one have no order of rows between them; "
                "use agg.min or agg.max of a time"
            )

    def _layout(self, columns: tuple[StateColumn, ...]) -> StateLayout:
        times = (StateColumn(START, Kind.I64), StateColumn(END, Kind.I64))
        return StateLayout(self.key.is_fixed, (*times, *columns), parts=True, grouped=True)

    def late(self, times: NDArray[np.int64], closed: int) -> NDArray[np.bool_]:
        return times + self._gap <= closed

    @property
    def _gap(self) -> int:
        assert isinstance(self.window, Session)
        return self.window.gap

    def starts(self, rows: Extract) -> NDArray[np.int64]:
        return np.asarray(rows.columns[START])

    def update(
        self, table: BinTable, slots: NDArray[np.int64], order: NDArray[np.int64], chunk: Chunk
    ) -> None:
        times, ends = chunk.lanes[TIME].data, self.ends(chunk)
        order = order[np.argsort(times[order], kind="stable")]
        order, keys = by_key(chunk.keys, order, fixed_key=self.layout.fixed_key)
        chunk.groups.append((order[keys[:-1]], np.diff(keys)))
        open_rows, open_starts = state_rows(table, chunk.keys, order[keys[:-1]], by=START)
        of_row, survivor, start, end, example, dead, heir = _combine(
            order, keys, times, ends, chunk.closed,
            open_rows, open_starts, table.arrays[START], table.arrays[END],
        )  # fmt: skip
        new = survivor < 0
        survivor[new] = table.probe(chunk.keys, example[new], start[new])
        if len(dead):
            pieces = extract(table, dead, whole=True)
            for part in self.parts:
                part.merge(table, survivor[heir], pieces)
            table.remove(dead)
        table.arrays[START][survivor], table.arrays[END][survivor] = start, end
        table.due = min(table.due, int(end.min(initial=table.due)))
        mine = survivor[of_row]
        table.count(mine)
        self.accumulate(table, mine, order, chunk)

    def ends(self, chunk: Chunk) -> NDArray[np.int64]:
        """The time until which each row keeps its session open."""
        return np.asarray(chunk.lanes[TIME].data + self._gap)

    def in_pieces(self) -> Combined | None:
        from headgate.operators.combine_sessions import CombinedSessions

        return CombinedSessions(self)


@compiled
def _combine(order, keys, times, ends, closed, open_rows, open_starts, open_start, open_end):
    """Combine a chunk's rows (by key, then time) with the open sessions (by key, then start).

    Returns for each row its session; for each session its state row (-1 if it is new), its start and end,
    and one of its rows; and each state row that is absorbed, with the session that absorbs it.
    """
    n = len(order)
    of_row = np.empty(n, np.int64)
    survivor = np.empty(n, np.int64)
    start = np.empty(n, np.int64)
    end = np.empty(n, np.int64)
    example = np.empty(n, np.int64)
    dead = np.empty(len(open_rows), np.int64)
    heir = np.empty(len(open_rows), np.int64)
    count = 0
    died = 0
    for k in range(len(keys) - 1):
        mine = open_rows[open_starts[k] : open_starts[k + 1]]
        at = 0
        current = -1
        for i in range(keys[k], keys[k + 1]):
            r = order[i]
            t = times[r]
            if current < 0 or t > end[current] or end[current] <= closed[r]:
                current = count
                count += 1
                survivor[current] = -1
                start[current] = t
                end[current] = ends[r]
                example[current] = r
                while at < len(mine) and (open_end[mine[at]] < t or open_end[mine[at]] <= closed[r]):
                    at += 1
            of_row[i] = current
            end[current] = max(end[current], ends[r])
            while at < len(mine) and open_start[mine[at]] <= end[current]:
                if survivor[current] < 0:
                    survivor[current] = mine[at]
                else:
                    dead[died] = mine[at]
                    heir[died] = current
                    died += 1
                start[current] = min(start[current], open_start[mine[at]])
                end[current] = max(end[current], open_end[mine[at]])
                at += 1
    return (
        of_row,
        survivor[:count].copy(),
        start[:count].copy(),
        end[:count].copy(),
        example[:count].copy(),
        dead[:died].copy(),
        heir[:died].copy(),
    )
