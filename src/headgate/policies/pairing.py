"""Flux's rounds of pairs (section 5.3), for whatever presses on the channels: load or memory.

A round sorts the channels by pressure and pairs the first with the last, the second with the second-last, and
so on towards the middle. Each pair gives one bin at most, so a round has `channels // 2` moves at most and a
channel takes part in one of them. The first pair that isn't worth it ends the round: those further in are
closer together still.
"""

from __future__ import annotations

from typing import Protocol

from headgate.ids import Bin, Channel
from headgate.routing.table import Move, Table

STRICTLY = 1 - 1e-9
"""A move must beat rounding errors, or equal channels would trade bins for ever."""


class Scale(Protocol):
    """What presses on the channels, and what a move would do to it.

    Law: `choose` only returns a bin whose move makes the pair strictly more even, `shift` predicts that move,
    and a bin that was shifted is not chosen again.
    """

    pressure: list[float]

    def worthwhile(self, donor: Channel, receiver: Channel) -> bool:
        """Whether the pair is uneven enough."""

    def choose(self, donor: Channel, receiver: Channel) -> Bin | None:
        """The donor's bin to move; None when none helps."""

    def shift(self, bin: Bin, donor: Channel, receiver: Channel) -> None:
        """Change `pressure` to what it will be."""


def even(scale: Scale, rounds: int, *, first_decides: bool = False) -> list[Move]:
    """The moves of so many rounds, each predicted from the one before; fewer when nothing is left to do.

    With `first_decides` a round ends when the first pair cannot be helped, since nothing else matters then.
    """
    moves: list[Move] = []
    for _ in range(rounds):
        of_round = _round(scale, first_decides)
        if not of_round:
            break
        moves += of_round
    return moves


def _round(scale: Scale, first_decides: bool) -> list[Move]:
    order = sorted(range(len(scale.pressure)), key=lambda channel: (-scale.pressure[channel], channel))
    moves: list[Move] = []
    for rank in range(len(order) // 2):
        donor, receiver = order[rank], order[-1 - rank]
        if not scale.worthwhile(donor, receiver):
            break
        bin = scale.choose(donor, receiver)
        if bin is not None:
            scale.shift(bin, donor, receiver)
            moves.append(Move(bin, donor, receiver))
        elif rank == 0 and first_decides:
            break
    return moves


def bins_held(table: Table) -> list[list[Bin]]:
    """The bins of every channel that may go to any other, ascending, in one pass.

    The pieces of a split key may not, lest they meet.
    """
    pieces = {pin.bin for pins in table.splits.values() for pin in pins}
    held: list[list[Bin]] = [[] for _ in range(table.channels)]
    for bin, channel in table.items():
        if bin not in pieces:
            held[channel].append(bin)
    return held
