# mypy: allow-untyped-defs, allow-untyped-calls
"""The partitioning function p = <H_p, H_c> (Gedik, section 4.1): a few pinned keys, and a ring for all others.

A lookup tries the explicit map first and the ring second (Algorithm 1), both in O(1). The explicit map is
keyed by the 64-bit hash of a key, so it takes keys of every type and needs 10 bytes per pin; for integers
the hash is a bijection.

A function is a value: building a new one (`builders`) does not change the old one. It has no versions
and no bins; those belong to the routing table of a stage.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headgate.compiled import compiled, inlined
from headgate.routing.key_hash import SPARK_SEED, hash_key, int_keys, mix_int64
from headgate.routing.ring import HashRing, find_channel

_EMPTY = np.int16(-1)


@inlined
def _find_pin(position, mask, slot_hash, slot_channel):
    slot = position & mask
    while slot_channel[slot] >= 0:
        if slot_hash[slot] == position:
            return slot_channel[slot]
        slot = (slot + np.uint64(1)) & mask
    return np.int16(-1)


@compiled
def _fill_slots(hashes, channels, mask, slot_hash, slot_channel):
    for i in range(hashes.shape[0]):
        slot = hashes[i] & mask
        while slot_channel[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slot_hash[slot] = hashes[i]
        slot_channel[slot] = channels[i]


@compiled
def _lookup(keys, hash_first, seed, mask, slot_hash, slot_channel, points, owners, buckets, shift, out):
    for i in range(keys.shape[0]):
        position = keys[i]
        if hash_first:
            position = mix_int64(position, seed)
        channel = _find_pin(position, mask, slot_hash, slot_channel)
        if channel < 0:
            channel = find_channel(position, points, owners, buckets, shift)
        out[i] = channel


@dataclass(frozen=True)
class PartitioningFunction:
    """An immutable map from every key to exactly one channel.

    ``pins`` maps key *hashes* to channels; `pinning` takes the keys themselves. Every pinned channel
    must be on the ring, so the explicit map never names a removed channel.

    >>> p = PartitioningFunction.pinning(HashRing.uniform(4), {"hot": 2, 17: 3})
    >>> p.lookup("hot"), p.lookup(17), p.lookup_ints([17]).tolist()
    (2, 3, [3])
    >>> p.lookup("cold") == p.ring.lookup("cold")
    True
    """

    ring: HashRing
    pins: Mapping[int, int] = field(default_factory=dict)
    _mask: np.uint64 = field(init=False, repr=False, compare=False)
    _slot_hash: npt.NDArray[np.uint64] = field(init=False, repr=False, compare=False)
    _slot_channel: npt.NDArray[np.int16] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the pins and lay them out for lookup."""
        pins = {int(key): int(channel) for key, channel in self.pins.items()}
        unknown = sorted(set(pins.values()) - set(self.ring.channels))
        if unknown:
            raise ValueError(
                f"pins name channels {unknown} that are not on the ring {self.ring.channels}; rebuild them"
            )
        size = 1 << max(3, (4 * len(pins)).bit_length())
        slot_hash = np.zeros(size, dtype=np.uint64)
        slot_channel = np.full(size, _EMPTY, dtype=np.int16)
        hashes = np.fromiter(pins.keys(), dtype=np.int64, count=len(pins)).view(np.uint64)
        channels = np.fromiter(pins.values(), dtype=np.int16, count=len(pins))
        mask = np.uint64(size - 1)
        _fill_slots(hashes, channels, mask, slot_hash, slot_channel)
        object.__setattr__(self, "pins", pins)
        object.__setattr__(self, "_mask", mask)
        object.__setattr__(self, "_slot_hash", slot_hash)
        object.__setattr__(self, "_slot_channel", slot_channel)

    @classmethod
    def pinning(cls, ring: HashRing, keys: Mapping[Hashable, int]) -> PartitioningFunction:
        """Return the function that pins the given keys (of any hashable type) to the given channels."""
        return cls(ring, {hash_key(key): channel for key, channel in keys.items()})

    @property
    def channels(self) -> tuple[int, ...]:
        """The channel ids, in the ring's order."""
        return self.ring.channels

    def lookup(self, key: Hashable) -> int:
        """Return the channel of one key of any hashable type."""
        digest = hash_key(key)
        pinned = self.pins.get(digest)
        if pinned is not None:
            return pinned
        return int(self.ring.lookup_hashes(np.asarray([digest], dtype=np.int64))[0])

    def lookup_ints(self, keys: npt.ArrayLike) -> npt.NDArray[np.int16]:
        """Return the channels of integer keys."""
        return self._many(int_keys(keys), True)

    def lookup_hashes(self, hashes: npt.ArrayLike) -> npt.NDArray[np.int16]:
        """Return the channels of keys that are hashed already."""
        return self._many(int_keys(hashes), False)

    def _many(self, values: npt.NDArray[np.int64], hash_first: bool) -> npt.NDArray[np.int16]:
        out = np.empty(values.shape[0], dtype=np.int16)
        ring = self.ring
        _lookup(
            values.view(np.uint64),
            hash_first,
            np.uint64(SPARK_SEED),
            self._mask,
            self._slot_hash,
            self._slot_channel,
            ring.points,
            ring.owners,
            ring.buckets,
            ring.shift,
            out,
        )
        return out


def uniform_lookup(keys: npt.ArrayLike, channels: int) -> npt.NDArray[np.int16]:
    """The paper's uniform hash, as its numbers imply: an integer key modulo N (PART-E3).

    If keys are numbered by rank this deals the ranks round robin. That is why it balances so well at low
    skew, and moves nearly everything when N changes.

    >>> uniform_lookup([0, 1, 2, 3], 3).tolist()
    [0, 1, 2, 0]
    """
    if channels < 1:
        raise ValueError(f"channels must be at least 1, got {channels}")
    return (int_keys(keys) % channels).astype(np.int16)
