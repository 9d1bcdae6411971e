"""State moves in the background: which bins each channel reads before they arrive on its executor.

A table is announced some batches before it takes effect (`control.notice`). Until then the channels of
an executor read the bins that will arrive there into its cache, after their own work and for a part of
a batch's time. A bin changes meanwhile; then only the newest sections of its chain are read again. What
is not read by then is read when it is needed, so a read that is cut short changes nothing but time.

Laws: the hottest bins come first (Meces). A bin is read by one channel, on the executor where it will
be. What a channel reads fits into the memory that its limit leaves.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from headgate.control.notice import SHARE, arriving
from headgate.control.view import LoadView
from headgate.ids import Bin, Channel
from headgate.routing.table import Table


@dataclass(frozen=True)
class ReadAhead:
    """The bins that each channel reads ahead, those to read first at the head, and for how long."""

    bins: Mapping[Channel, tuple[Bin, ...]] = field(default_factory=dict)
    work_ms: Mapping[Channel, float] = field(default_factory=dict)


def read_ahead(
    now: Table,
    later: Table,
    view: LoadView,
    *,
    places: Sequence[str],
    places_later: Sequence[str],
    room: Mapping[Channel, int],
    without: Collection[Bin] = (),
) -> ReadAhead:
    """What the channels of `now` read before `later` takes effect.

    `places` are the executors of the channels now, `places_later` those under the later table. `room` is
    how many bytes a channel may read; a channel that is not in it has no limit. Bins in `without` are
    left out. On each executor the channel with the least load reads, and others only what its memory has
    no room for.
    """
    here: dict[str, list[Channel]] = defaultdict(list)
    loads = view.under(now).channel_load
    for channel, place in sorted(enumerate(places[: now.channels]), key=lambda one: (loads[one[0]], one[0])):
        here[place].append(channel)
    coming = [(bin, channel) for bin, channel in arriving(now, later, places, places_later)]
    coming.sort(key=lambda one: (-view.bin_work.get(one[0], 0.0), one[0]))
    given: dict[Channel, list[Bin]] = defaultdict(list)
    taken: dict[Channel, int] = defaultdict(int)
    for bin, channel in coming:
        size = view.bin_bytes.get(bin, 0)
        if bin in without or channel >= len(places_later) or size <= 0:
            continue
        able = (c for c in here.get(places_later[channel], ()) if c not in room or taken[c] + size <= room[c])
        reader = next(able, None)
        if reader is not None:
            taken[reader] += size
            given[reader].append(bin)
    readers = Counter(places[channel] for channel in given)
    return ReadAhead(
        bins={channel: tuple(bins) for channel, bins in sorted(given.items())},
        work_ms={c: SHARE * view.period_ms / readers[places[c]] for c in sorted(given)},
    )
