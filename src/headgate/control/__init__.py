"""Control: report in, decision out, and the journal that can be replayed."""

from headgate.control.loop import Decision, Loop
from headgate.control.modes import Mode

__all__ = ["Decision", "Loop", "Mode"]
