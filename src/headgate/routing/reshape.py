"""What a change of pins does to bins: which keys' state goes where.

Pinning a key takes its state out of its hash bin into a bin of its own; unpinning puts it back. Moves need
nothing of this: they change a bin's reader, not its content. Law: every key is in exactly one bin before and
after, and the rows of a reshaped bin are those of its sources, each taken once.
"""

from __future__ import annotations

from dataclasses import dataclass

from headgate.ids import Bin
from headgate.routing.table import Table


@dataclass(frozen=True)
class Source:
    """A part of an old bin: the keys with these hashes, or (`without`) all but these."""

    bin: Bin
    hashes: frozenset[int]
    without: bool


def reshaped(old: Table, new: Table) -> dict[Bin, tuple[Source, ...]]:
    """The bins whose content differs between two tables, each with the old bins that it is made of.

    >>> from headgate.routing.table import Pin, Table
    >>> old = Table.uniform(4, 2)
    >>> new = Table(version=1, from_batch=3, channels=2, hash_bins=4, assignment=(0, 1, 0, 1, 1), pins=(Pin(6, 4),))
    >>> sorted(reshaped(old, new))
    [2, 4]
    """
    before = {pin.hash: pin.bin for pin in old.pins}
    after = {pin.hash: pin.bin for pin in new.pins}
    changed = {h for h in before.keys() | after.keys() if before.get(h) != after.get(h)}
    out: dict[Bin, tuple[Source, ...]] = {}
    homes = sorted({new.home_bin(h) for h in changed})
    for home in homes:
        mine = {h for h in changed if new.home_bin(h) == home}
        leaving = frozenset(h for h in mine if h not in before and h in after)
        coming = [
            Source(before[h], frozenset([h]), False) for h in sorted(mine) if h in before and h not in after
        ]
        if leaving or coming:
            out[home] = (Source(home, leaving, True), *coming)
    for h in sorted(changed):
        if h in after:
            out[after[h]] = (Source(before.get(h, new.home_bin(h)), frozenset([h]), False),)
    return out
