"""What a change of pins does to bins: which keys' state goes where.

Pinning a key moves its state from its hash bin to a bin of its own; unpinning moves it back. When a key
is split, its first piece has its state and the others have none. Whenever its pieces change, the first one
takes what any of them had (rows that wait, and state that an older version left with several of them), so a
bin may have several sources with the same key. Moves are not concerned: they change a bin's reader, not its
content. Law: the rows of a reshaped bin are those of its sources, and every row of every old bin is used
exactly once.
"""

from __future__ import annotations

from dataclasses import dataclass

from headgate.ids import Bin
from headgate.routing.table import Table


@dataclass(frozen=True)
class BinPart:
    """A part of an old bin: the keys with these hashes, or (`without`) all but these."""

    bin: Bin
    hashes: frozenset[int]
    without: bool


def reshaped(old: Table, new: Table) -> dict[Bin, tuple[BinPart, ...]]:
    """The bins whose content differs between two tables, each with the parts of old bins that it consists of.

    >>> from headgate.routing.table import Pin, Table
    >>> old = Table.uniform(4, 2)
    >>> new = Table(version=1, from_batch=3, channels=2, hash_bins=4, assignment=(0, 1, 0, 1, 1), pins=(Pin(6, 4),))
    >>> sorted(reshaped(old, new))
    [2, 4]
    """
    before = {h: tuple(pin.bin for pin in pins) for h, pins in old.pinned.items()}
    after = {h: tuple(pin.bin for pin in pins) for h, pins in new.pinned.items()}
    changed = sorted(h for h in before.keys() | after.keys() if before.get(h) != after.get(h))
    out: dict[Bin, tuple[BinPart, ...]] = {}
    for home in sorted({new.home_bin(h) for h in changed}):
        mine = [h for h in changed if new.home_bin(h) == home]
        leaving = frozenset(h for h in mine if h not in before)
        coming = [_only(h, bin) for h in mine if h not in after for bin in before[h]]
        if leaving or coming:
            out[home] = (BinPart(home, leaving, True), *coming)
    for h in changed:
        was, now = before.get(h, (new.home_bin(h),)), after.get(h, ())
        for bin in now[1:]:
            out[bin] = ()
        if now and was != now[:1]:
            out[now[0]] = tuple(_only(h, b) for b in was)
    return out


def _only(key_hash: int, bin: Bin) -> BinPart:
    return BinPart(bin, frozenset([key_hash]), False)
