"""Rows that wait at the producer (Flux, sections 4 and 5.2): a map task does not send them.

The rows of a bin wait because its state is on disk or moves, or because its channel is late
(`stage.flow_control` decides before the batch). A map task writes them to the backlog itself, and sends
their entries to the channel, which commits them with its answer. So they cross no exchange, the channel
that is late has no work with them, and whoever has the bin when they are due reads them.

Law: all rows of a bin are held in a batch or none, so the rows of a key keep their order, whichever map
tasks they come from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.flow.backlog import BacklogEntry
from headgate.stage.task import Task
from headgate.state.kernels import sort_by_bin
from headgate.state.lanes import ints
from headgate.storage import backlog_file
from headgate.storage.store import Store


@dataclass(frozen=True)
class HeldRows:
    """The bins whose rows map tasks hold back, and where they put them. Without bins nothing is held."""

    bins: frozenset[int] = frozenset()
    store: Store | None = None
    name: str = ""
    """The beginning and the end of the names of files, around the number of the range."""

    @classmethod
    def of(cls, task: Task) -> HeldRows:
        """What is held in a batch. Pieces of split keys are not: their bin depends on the channel."""
        table, flow = task.table, task.flow
        pieces = {pin.bin for pins in table.splits.values() for pin in pins}
        bins = ((flow.asleep | flow.held_back) & set(table.bins)) - task.regrouped.keys() - pieces
        return cls(frozenset(bins), task.backlog_store, f"{task.batch:012d}-{{:05d}}-{task.run}-p{{}}.hgb")

    def put(
        self, rows: pa.RecordBatch, bins: NDArray[np.int32], number: int, attempt: str
    ) -> tuple[NDArray[np.bool_], list[BacklogEntry]]:
        """Write the rows to hold of a range; which rows they are, and their entries. `attempt` is a name that no
        other attempt at this range has.
        """
        held = np.isin(bins, np.fromiter(self.bins, np.int32, len(self.bins)))
        if not held.any():
            return held, []
        assert self.store is not None
        mine, of = rows.filter(pa.array(held)), bins[held]
        order, starts = sort_by_bin(of, int(of.max()) + 1)
        mine = mine.take(ints(order))
        by_bin = {int(b): [mine.slice(starts[b], starts[b + 1] - starts[b])] for b in np.unique(of).tolist()}
        return held, backlog_file.write(self.store, self.name.format(number, attempt), by_bin)
