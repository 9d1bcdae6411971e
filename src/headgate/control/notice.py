"""How long before it takes effect a table is announced, so that state can move in the background.

    whole   = bytes that arrive on the executor which receives most * ms to read a byte
    again   = what a batch adds to them, read twice as slowly
    share   = SHARE * period_ms: the time for reading in a batch
    notice  = whole (1 - again / (2 share)) / (share - again) batches, and `NEW_CHANNELS` if their number changes

A bin that was read changes until the move, and what was added has to be read again: a bin that is read
halfway needs half of the additions. If a batch adds more than it has time to read, the notice is the most
that is allowed.

In each batch until then, tasks spend `SHARE` of a batch's time on reading the state that will arrive
on their executor (`flow.read_ahead`), so that the batch of the move finds it there (Flux's StateMover,
Megaphone's migration in pieces). There is no notice if nothing changes its executor, or if reading
takes less time than that: then a move at once costs less than a late one. A plan whose gain would save
more time until then than reading takes is urgent, and gets one batch.

Law: the notice depends only on the view, the tables and the places in the report (5).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from headgate.control.view import LoadView
from headgate.ids import Bin, Channel
from headgate.routing.table import Table

SHARE = 0.15
"""The part of a batch's time that is spent on reading state ahead."""
AGAIN = 2.0
"""Rows of a delta are read at about half the speed of rows of a whole bin: they are few, and far apart."""
NEW_CHANNELS = 2
"""Batches in which the engine finds executors for another number of channels."""
UNMEASURED_MB_S = 100.0
"""The assumed speed of reading state, until a read has been measured."""


def arriving(
    now: Table, later: Table, places: Sequence[str], places_later: Sequence[str] = ()
) -> Iterator[tuple[Bin, Channel]]:
    """The bins that change their executor between two tables, each with its later channel.

    `places` are the executors of the channels now, `places_later` those under the later table. A channel
    whose executor is unknown counts as one that is elsewhere.
    """
    places_later = places_later or places
    for bin, channel in later.items():
        before = now.channel_of.get(bin)
        if before is None:
            continue  # a new pin: its state is made of other bins
        known = before < len(places) and channel < len(places_later)
        moved = before != channel if not known else places[before] != places_later[channel]
        if moved:
            yield bin, channel


def nearest(now: Table, later: Table, places: Sequence[str]) -> list[str]:
    """For each channel of a later table, the executor where it should be, so that little state moves: where it
    is, or for a new one where most of its bins are. `places` are the executors of the channels now.
    """
    held: list[Counter[str]] = [Counter() for _ in range(later.channels)]
    for bin, channel in later.items():
        before = now.channel_of.get(bin, len(places))
        if before < len(places):
            held[channel][places[before]] += 1
    kept = list(places[: min(now.channels, later.channels)])
    new = [max(sorted(mine), key=lambda place: mine[place], default="") for mine in held[len(kept) :]]
    return kept + new


def batches_ahead(
    view: LoadView, now: Table, later: Table, places: Sequence[str], *, most: int, gain: float = 0.0
) -> int:
    """The number of batches that still run under the table `now` before `later` takes effect. `gain` is the
    share of a batch's time that the change saves.
    """
    if most < 1 or len(set(places)) < 2 or view.period_ms <= 0 or not any(view.bin_bytes.values()):
        return 0
    places_later = nearest(now, later, places)
    whole, added = Counter[str](), defaultdict[str, float](float)
    for bin, channel in arriving(now, later, places, places_later):
        place, size = places_later[channel], view.bin_bytes.get(bin, 0)
        whole[place] += size
        added[place] += size * min(1.0, view.bin_work.get(bin, 0.0) / max(view.bin_keys.get(bin, 0), 1))
    found = NEW_CHANNELS if now.channels != later.channels else 0
    byte_ms, share = view.move_ms_per_byte or 1e-3 / UNMEASURED_MB_S, SHARE * view.period_ms
    read_ms = byte_ms * max(whole.values(), default=0)
    notice = float(found)
    if read_ms > share:
        again = AGAIN * byte_ms * max(added.values())
        notice += read_ms * (1 - again / (2 * share)) / (share - again) if again < share else most
    batches = min(most, math.ceil(notice))
    return min(batches, 1) if gain * batches * view.period_ms > read_ms else batches
