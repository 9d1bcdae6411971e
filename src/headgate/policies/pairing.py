"""Flux's rounds of pairs (section 5.3), for any pressure on the channels: load or memory.

A round sorts the channels by pressure and pairs the first with the last, the second with the
second-last, and so on. Each pair moves at most one bin, so a round has at most `channels // 2` moves
and a channel takes part in at most one of them. The first pair that is not worthwhile ends the round,
because the pairs after it are more even still.
"""

from __future__ import annotations

from typing import Protocol

from headgate.ids import Bin, Channel
from headgate.routing.table import Move, Table

STRICTLY = 1 - 1e-9
"""A move must gain more than rounding errors, or equal channels would exchange bins forever."""


class Scale(Protocol):
    """The pressure on each channel, and how a move would change it.

    Law: `choose` only returns a bin whose move makes the pair strictly more even; `shift` applies that
    move to `pressure`; and a bin that was shifted is not chosen again.
    """

    pressure: list[float]

    def worthwhile(self, donor: Channel, receiver: Channel) -> bool:
        """Whether the pair is uneven enough to act."""

    def choose(self, donor: Channel, receiver: Channel) -> Bin | None:
        """The donor's bin to move; None if no bin helps."""

    def shift(self, bin: Bin, donor: Channel, receiver: Channel) -> None:
        """Update `pressure` to what it will be after the move."""


def even(scale: Scale, rounds: int, *, first_decides: bool = False) -> list[Move]:
    """The moves of at most `rounds` rounds, each predicted from the one before.

    With `first_decides` a round ends if no move helps the first pair, because then no other pair matters.
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
    """For every channel its bins that may move to any other channel, ascending.

    Pieces of a split key are excluded, because two of them must not be on one channel.
    """
    pieces = {pin.bin for pins in table.splits.values() for pin in pins}
    held: list[list[Bin]] = [[] for _ in range(table.channels)]
    for bin, channel in table.items():
        if bin not in pieces:
            held[channel].append(bin)
    return held
