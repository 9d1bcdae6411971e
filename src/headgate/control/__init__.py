"""Control: a report goes in, a decision comes out, and a journal of both can be replayed."""

from headgate.control.loop import Decision, Loop
from headgate.control.modes import Mode
from headgate.control.plan import Move, Pin, Plan, apply
from headgate.control.refusal import Reason, Refusal
from headgate.control.report import BatchReport, BinReport, ChannelReport, HotKey
from headgate.control.view import LoadView, fold

__all__ = [
    "BatchReport",
    "BinReport",
    "ChannelReport",
    "Decision",
    "HotKey",
    "LoadView",
    "Loop",
    "Mode",
    "Move",
    "Pin",
    "Plan",
    "Reason",
    "Refusal",
    "apply",
    "fold",
]
