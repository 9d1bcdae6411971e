# mypy: allow-untyped-defs, allow-untyped-calls
"""Windows whose rows are combined before they are sent: one partial row for each key and pane of a range.

A *pane* is a longest span of time whose rows are all in the same windows: a tumbling window, or the piece
of a hopping one between two starts or ends of windows. A partial row has the start of its pane, which is in
exactly the windows of the rows that it stands for. So it is sent once, and takes its place in all of its
windows on the channel, as a row would; a window that closed before the rows arrived does not open again.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.compiled import compiled
from headgate.operators.combine import CombinedAccumulators
from headgate.operators.windows import TIME, BoundWindows, Tumbling
from headgate.state.lanes import LaneColumn, to_lane


class CombinedWindows(CombinedAccumulators, BoundWindows):
    """Tumbling or hopping windows over partial rows."""

    parted = True

    def _parts(self, rows: pa.RecordBatch, hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        assert isinstance(self.window, Tumbling)
        times = to_lane(rows.column(self.config.on)).data
        return np.asarray(panes(times, self.window.size, self.window.every))

    def lanes(self, rows: pa.RecordBatch) -> dict[str, LaneColumn]:
        return {TIME: to_lane(rows.column(self.inputs[0]))}


@compiled
def panes(times, size, every):
    """The start of each time's pane."""
    rest = size % every
    out = np.empty(len(times), np.int64)
    for i in range(len(times)):
        since = times[i] % every
        out[i] = times[i] - since + (rest if since >= rest else 0)
    return out
