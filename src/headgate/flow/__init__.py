"""How much work goes on, and what waits: rotation of bins through memory, and the transient-skew buffer."""

from headgate.flow.backlog import Backlog, Waiting
from headgate.flow.buffer import Share, shares
from headgate.flow.rotation import Rotation, rotate

__all__ = ["Backlog", "Rotation", "Share", "Waiting", "rotate", "shares"]
