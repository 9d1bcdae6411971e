"""How much work goes on, and what waits: gates, rotation of bins through memory, and the transient-skew buffer."""

from headgate.flow.backlog import Backlog, Waiting
from headgate.flow.buffer import Share, shares
from headgate.flow.gate import Batch, Batcher, Gate
from headgate.flow.rotation import Rotation, rotate
from headgate.flow.sources import Counted, Portion, Rows, Source, cut
from headgate.flow.stamps import Frontier, Progress, Stamp, enter, leave

__all__ = [
    "Backlog",
    "Batch",
    "Batcher",
    "Counted",
    "Frontier",
    "Gate",
    "Portion",
    "Progress",
    "Rotation",
    "Rows",
    "Share",
    "Source",
    "Stamp",
    "Waiting",
    "cut",
    "enter",
    "leave",
    "rotate",
    "shares",
]
