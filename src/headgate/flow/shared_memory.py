"""One memory for several stages: what each may hold on a channel (FLUX-F2).

Stages of a pipeline run one after the other in a batch. So a batch takes the sum over its stages of each one's
slowest channel, every stage's load is balanced by itself, and a common balance of loads would gain nothing.
Their state is in memory at the same time, though. Here it has one budget for each channel:

    a stage may hold    what it holds, if all stages fit, and an equal part of the rest
                        otherwise the smaller ones what they hold, and the larger ones equal parts

A stage that is short then moves bins to channels where the stages together leave room, since the policies
see limits that take the other stages into account.

Laws: what the stages may hold adds up to the budget. A stage never gets less than its equal part if it
needs that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

from headgate.errors import ConfigError
from headgate.ids import Channel
from headgate.sizes import parse_bytes


def divided(budget: int, held: Sequence[int]) -> tuple[int, ...]:
    """What each stage may hold of a channel's budget, given what each holds now; at least a byte.

    >>> divided(100, [10, 30]), divided(100, [10, 200, 300])
    ((40, 60), (10, 45, 45))
    """
    given = [0] * len(held)
    left = budget
    for number, at in enumerate(sorted(range(len(held)), key=lambda at: (held[at], at))):
        given[at] = min(held[at], left // (len(held) - number))
        left -= given[at]
    part, odd = divmod(left, len(held))
    return tuple(max(1, size + part + (at < odd)) for at, size in enumerate(given))


class SharedMemory:
    """A budget of memory for each channel that several stages share: `hg.Limits(memory=shared)` in each of them.

    >>> SharedMemory("1GB")
    SharedMemory('1GB')
    """

    def __init__(self, memory: str | int) -> None:
        self.budget, self._text = parse_bytes(memory, "memory"), memory
        if self.budget < 1:
            raise ConfigError(f"memory={memory!r} is no memory to share: give some bytes, such as '1GB'")
        self._held: WeakKeyDictionary[object, Mapping[Channel, int]] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"SharedMemory({self._text!r})"

    def limits(self, member: object, held: Mapping[Channel, int]) -> dict[Channel, int]:
        """What a stage may hold on each of its channels, if it holds this much now. It is remembered for the others."""
        self._held[member] = dict(held)
        members = list(self._held)
        at = next(number for number, each in enumerate(members) if each is member)
        return {
            channel: divided(self.budget, [self._held[each].get(channel, 0) for each in members])[at]
            for channel in held
        }
