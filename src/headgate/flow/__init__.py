"""How much work goes on at a time, and which rows wait.

The words of this package, each for one thing:

- **wave**: the rows that a gate admits together. (Faucet says batch; here a batch is a micro-batch of
  the stream, and a gate may cut one micro-batch into many waves.)
- **in flight**: a wave is in flight from the moment it is admitted until it is complete.
- **row range**: the positions `start` to `stop` of one staged file; a wave reads a few of them.
- **stamp**: the logical time of a row inside of nested gates, one counter for each gate.
- **complete**: nothing at a stamp is outstanding, and nothing can come there any more.
- **backlog**: rows that were admitted and not yet processed, a queue for each bin.
- **rotation**: bins that do not fit into memory together take turns there. A **turn** is the stay of a
  bin in memory during which its waiting rows are processed.
- **skew buffer**: the part of the backlog that a slow channel may fill, so that it does not hold up
  the other channels.
- **read ahead**: state that will arrive on an executor is read into its cache before it is needed there.

The modules: `gate` (the gate), `sources` (what it draws rows from), `row_ranges` (files as such a
source), `wave_size` (how large a wave should be), `progress` (stamps and what is outstanding at
them), `backlog`, `rotation`, `skew_buffer` and `read_ahead`.
"""

from headgate.flow.backlog import Backlog, BacklogEntry
from headgate.flow.gate import Batcher, Gate, Wave
from headgate.flow.progress import Frontier, Progress, Stamp, enter, leave
from headgate.flow.read_ahead import ReadAhead, read_ahead
from headgate.flow.rotation import Rotation, rotate
from headgate.flow.skew_buffer import WorkBudget, held_back, work_budgets
from headgate.flow.sources import CountedItems, Portion, Rows, RowSource, cut_into_portions

__all__ = [
    "Backlog",
    "BacklogEntry",
    "Batcher",
    "CountedItems",
    "Frontier",
    "Gate",
    "Portion",
    "Progress",
    "ReadAhead",
    "Rotation",
    "RowSource",
    "Rows",
    "Stamp",
    "Wave",
    "WorkBudget",
    "cut_into_portions",
    "enter",
    "held_back",
    "leave",
    "read_ahead",
    "rotate",
    "work_budgets",
]
