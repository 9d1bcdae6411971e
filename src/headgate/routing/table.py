"""The routing table: key hash -> bin -> channel. Immutable, versioned, in force from a named batch.

It is Flux's mini-partition map (section 5.1) with the explicit hash of Gedik (section 4) in
addition: an ordinary key is in bin `pmod(hash, hash_bins)`; a pinned key is known by its 64-bit hash
and has a bin of its own.

Not here: how the hash is computed (`key_hash`), who decides a change (`policies`), how a
change becomes the next table (`control.plan`). The ring of keys in the papers' figures is
`ring`; this table places bins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heapreplace
from itertools import count, islice
from math import ceil, floor
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.errors import ConfigError
from headgate.ids import BatchId, Bin, Channel, Version

_MIX = 0x9E3779B1  # odd, so that multiplying by it modulo 2^32 permutes the bins' order


@dataclass(frozen=True, slots=True)
class Pin:
    """A hot key with a bin of its own: its signed 64-bit hash, the bin, and a label for people.

    Several pins with one hash are the *pieces* of a split key: its rows are spread over them.
    """

    hash: int
    bin: Bin
    label: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """One bin changes its channel."""

    bin: Bin
    source: Channel
    target: Channel


@dataclass(frozen=True, kw_only=True)
class Table:
    """The routing in force from batch `from_batch` until the next version.

    `assignment[b]` is the channel of hash bin `b`. After the `hash_bins` entries of these comes one
    entry for each pin, in the order of `pins`, which are sorted by bin id. So the ids of pinned bins
    may have gaps, and every bin still has exactly one channel (Law 1): the constructor refuses
    anything else. The pieces of a split key are on different channels, so that a row's key and
    channel determine its bin.

    >>> table = Table.uniform(8, 2)
    >>> table.bins_of(1)
    (1, 3, 5, 7)
    """

    version: Version
    from_batch: BatchId
    channels: int
    hash_bins: int
    assignment: tuple[Channel, ...]
    pins: tuple[Pin, ...] = ()

    def __post_init__(self) -> None:
        """Check Law 1."""
        if self.hash_bins < 1 or self.channels < 1:
            raise ConfigError(
                f"a table needs a bin and a channel: hash_bins={self.hash_bins}, channels={self.channels}"
            )
        pinned = [pin.bin for pin in self.pins]
        if pinned != sorted(set(pinned)):
            raise ConfigError(f"pins must be in the order of distinct bins, got bins {pinned}")
        if pinned and pinned[0] < self.hash_bins:
            raise ConfigError(
                f"pinned bin {pinned[0]} is a hash bin: give it an id of {self.hash_bins} or more"
            )
        bad_hash = [pin for pin in self.pins if not -(2**63) <= pin.hash < 2**63]
        if bad_hash:
            raise ConfigError(f"{bad_hash[0]} has a hash outside the signed 64-bit range")
        if len(self.assignment) != self.hash_bins + len(pinned):
            raise ConfigError(
                f"every bin has exactly one channel: {self.hash_bins} hash bins and {len(pinned)} pins need "
                f"as many channels, got {len(self.assignment)}"
            )
        for bin, channel in self.items():
            if not 0 <= channel < self.channels:
                raise ConfigError(
                    f"bin {bin} is on channel {channel}, outside 0..{self.channels - 1}: move it"
                )
        for pins in self.splits.values():
            places = [self.channel_of[pin.bin] for pin in pins]
            if len(set(places)) < len(places):
                raise ConfigError(
                    f"the pieces of key {pins[0].label or pins[0].hash} must be on different channels, "
                    f"but are on {places}"
                )

    @classmethod
    def uniform(cls, bins: int, channels: int) -> Table:
        """Deal the bins round robin: counts differ by at most one, and neighbouring ids are apart."""
        _check_size(bins, channels)
        assignment = tuple(bin % channels for bin in range(bins))
        return cls(version=0, from_batch=0, channels=channels, hash_bins=bins, assignment=assignment)

    @classmethod
    def ring(cls, bins: int, channels: int) -> Table:
        """Place the bins so that adding or removing one channel changes the channel of few bins.

        Law: from `n` to `n + 1` channels bins move only to channel `n`, and back only from it; counts
        differ by at most one for every `n`. Channel `n` takes `bins // (n + 1)` bins, each from the
        fullest channel before it (lowest number first). Cost: about `bins * ln(channels)` heap steps.
        """
        _check_size(bins, channels)
        held: list[list[Bin]] = [sorted(range(bins), key=lambda bin: bin * _MIX % 2**32)]
        for newest in range(1, channels):
            fullest = [(-len(mine), channel) for channel, mine in enumerate(held)]
            heapify(fullest)
            taken: list[Bin] = []
            for _ in range(bins // (newest + 1)):
                size, channel = fullest[0]
                taken.append(held[channel].pop())
                heapreplace(fullest, (size + 1, channel))
            held.append(taken)
        channel_of = {bin: channel for channel, mine in enumerate(held) for bin in mine}
        assignment = tuple(channel_of[bin] for bin in range(bins))
        return cls(version=0, from_batch=0, channels=channels, hash_bins=bins, assignment=assignment)

    @cached_property
    def bins(self) -> tuple[Bin, ...]:
        """All bin ids: the hash bins, then the pinned ones, ascending."""
        return (*range(self.hash_bins), *(pin.bin for pin in self.pins))

    def items(self) -> Iterator[tuple[Bin, Channel]]:
        """Each bin with its channel, ascending by bin."""
        return zip(self.bins, self.assignment, strict=True)

    @cached_property
    def channel_of(self) -> Mapping[Bin, Channel]:
        """The channel of each bin."""
        return dict(self.items())

    def bins_of(self, channel: Channel) -> tuple[Bin, ...]:
        """The bins on a channel, ascending."""
        return tuple(bin for bin, owner in self.items() if owner == channel)

    def home_bin(self, key_hash: int) -> Bin:
        """The bin that a key has when it is not pinned."""
        return key_hash % self.hash_bins

    def free_bins(self, number: int) -> tuple[Bin, ...]:
        """The lowest `number` bin ids that new pins may use."""
        used = {pin.bin for pin in self.pins}
        return tuple(islice((bin for bin in count(self.hash_bins) if bin not in used), number))

    @cached_property
    def pinned(self) -> Mapping[int, tuple[Pin, ...]]:
        """The pins of each pinned key hash, ascending by bin: one, or the pieces of a split key."""
        by_hash: dict[int, list[Pin]] = {}
        for pin in self.pins:
            by_hash.setdefault(pin.hash, []).append(pin)
        return {key_hash: tuple(pins) for key_hash, pins in by_hash.items()}

    @cached_property
    def splits(self) -> Mapping[int, tuple[Pin, ...]]:
        """The keys with more than one piece."""
        return {key_hash: pins for key_hash, pins in self.pinned.items() if len(pins) > 1}

    def bin_of_hash(
        self, hashes: npt.NDArray[np.int64], channel: Channel | None = None
    ) -> npt.NDArray[np.int32]:
        """The bin of each key hash; it depends only on the hash and the table (Law 4).

        For a split key it is the piece on `channel`, where the rows arrived; by default the first piece.
        """
        from headgate.routing.bin_lookup import bins_of

        pin_hashes, pin_bins = self._pin_arrays
        if self.splits and channel is not None:
            pin_bins = pin_bins.copy()
            for key_hash, pins in self.splits.items():
                for pin in pins:
                    if self.channel_of[pin.bin] == channel:
                        pin_bins[np.searchsorted(pin_hashes, key_hash)] = pin.bin
        return np.asarray(bins_of(hashes, np.int64(self.hash_bins), pin_hashes, pin_bins))

    def channel_of_hash(
        self, hashes: npt.NDArray[np.int64], spread: npt.NDArray[np.int64] | None = None
    ) -> npt.NDArray[np.int32]:
        """The channel of each key hash; `spread` is a hash of the whole row and selects a split key's piece."""
        channels = self._channel_of_bin[self.bin_of_hash(hashes)]
        if spread is None:
            return channels
        for key_hash, pins in self.splits.items():
            mine = hashes == key_hash
            pieces = np.array([self.channel_of[pin.bin] for pin in pins], dtype=np.int32)
            channels[mine] = pieces[np.mod(spread[mine], len(pieces))]
        return channels

    @cached_property
    def _channel_of_bin(self) -> npt.NDArray[np.int32]:
        channels = np.full(self.bins[-1] + 1, -1, dtype=np.int32)
        channels[list(self.bins)] = self.assignment
        return channels

    @cached_property
    def _pin_arrays(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        hashes = sorted(self.pinned)
        bins = [self.pinned[key_hash][0].bin for key_hash in hashes]
        return np.array(hashes, dtype=np.int64), np.array(bins, dtype=np.int32)

    def to_json(self) -> dict[str, Any]:
        """JSON-native values in a stable order."""
        return {
            "version": int(self.version),
            "from_batch": int(self.from_batch),
            "channels": int(self.channels),
            "hash_bins": int(self.hash_bins),
            "assignment": [int(channel) for channel in self.assignment],
            "pins": [[int(pin.hash), int(pin.bin), pin.label] for pin in self.pins],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Table:
        """Read what `to_json` wrote."""
        return cls(
            version=data["version"],
            from_batch=data["from_batch"],
            channels=data["channels"],
            hash_bins=data["hash_bins"],
            assignment=tuple(data["assignment"]),
            pins=tuple(Pin(*pin) for pin in data["pins"]),
        )


def rescale(
    table: Table,
    channels: int,
    bin_load: Mapping[Bin, float] | None = None,
    places: Sequence[str] = (),
) -> tuple[Move, ...]:
    """The fewest moves after which each channel's count of hash bins is within one of the mean.

    While a removed channel holds a bin, or a count differs from the mean by more than one, one bin goes
    from a removed (or else the fullest) channel to one that lacks bins: the emptiest, but one on the same
    executor comes first, because its state is there. `places` are the executors of the channels, as far as
    they are known. A move reduces one excess and one shortage as long as both exist; only where there is
    more excess than shortage it may leave the shortage to a later one. So there are exactly max(total
    excess, total shortage) moves, and no plan has fewer. Pinned bins stay, but those of removed channels
    go to the channel with the least `bin_load` (without loads: the fewest pins). `lost_pieces` do not
    move: unpin them.
    """
    _check_size(table.hash_bins, channels)
    load = bin_load or {}
    held: list[list[Bin]] = [[] for _ in range(max(channels, table.channels))]
    pinned: list[list[Bin]] = [[] for _ in held]
    lost = set(lost_pieces(table, channels))
    for bin, channel in table.items():
        if bin not in lost:
            (held if bin < table.hash_bins else pinned)[channel].append(bin)
    moves: list[Move] = []
    kept, removed = range(channels), range(channels, len(held))
    mean = table.hash_bins / channels
    least, most = ceil(mean) - 1, floor(mean) + 1
    while True:
        fullest = max(kept, key=lambda channel: (len(held[channel]), -channel))
        emptiest = min(kept, key=lambda channel: (len(held[channel]), channel))
        donor = next((channel for channel in removed if held[channel]), fullest)
        high = (len(held[fullest]) - 1) * channels > table.hash_bins
        low = (len(held[emptiest]) + 1) * channels < table.hash_bins
        if not (donor != fullest or high or low):
            break
        target = emptiest
        if donor < len(places):
            excess = sum(max(0, len(held[c]) - most) for c in kept) + sum(len(held[c]) for c in removed)
            spare = excess > sum(max(0, least - len(held[c])) for c in kept)
            room = mean if spare else least
            near = (c for c in kept[: len(places)] if len(held[c]) < room and places[c] == places[donor])
            target = min(near, key=lambda channel: (len(held[channel]), channel), default=emptiest)
        bin = held[donor].pop()
        held[target].append(bin)
        moves.append(Move(bin, donor, target))
    total = [sum(load.get(bin, 0.0) for bin in (*held[c], *pinned[c])) for c in kept]
    for donor in removed:
        for bin in pinned[donor]:
            target = min(kept, key=lambda c: (total[c], len(pinned[c]), len(held[c]), c))
            total[target] += load.get(bin, 0.0)
            pinned[target].append(bin)
            moves.append(Move(bin, donor, target))
    return tuple(moves)


def lost_pieces(table: Table, channels: int) -> tuple[Bin, ...]:
    """The pieces of split keys on removed channels; each key keeps at least one piece."""
    lost: list[Bin] = []
    for pins in table.splits.values():
        gone = [pin.bin for pin in pins if table.channel_of[pin.bin] >= channels]
        lost += gone if len(gone) < len(pins) else gone[1:]
    return tuple(sorted(lost))


def _check_size(bins: int, channels: int) -> None:
    if not 1 <= channels <= bins:
        raise ConfigError(
            f"{channels} channels for {bins} bins: ask for 1 to {bins}, or make the stage with more bins"
        )
