# mypy: allow-untyped-defs, allow-untyped-calls
"""The consistent hash ring H_c (Gedik, section 4.1.1): the channel of every key that has no pin.

Each channel has many points (replicas) on a ring of 2^64 positions; a key belongs to the first point at
or after its hash. Adding a channel moves about 1/N of the keys, all of them to the new channel;
removing a channel moves only its own keys.

A lookup is O(1): the ring is cut into buckets, about two for each point, and each bucket has the index
of the first point at or after its start, so that a lookup reads one bucket and about one and a half
points. The paper keeps a sorted tree in each of 100 buckets; a flat sorted array with more buckets does
the same without pointers.

Not here: pinned keys (`partitioning`), and bins (the Spark exchange maps bins, not keys).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headgate.compiled import compiled, inlined
from headgate.routing.key_hash import SPARK_SEED, hash_ints, hash_key, int_keys, mix_int64

_MAX_CHANNELS = 2**15
_MAX_REPLICAS = 2**20


@inlined
def find_channel(position, points, owners, buckets, shift):
    """Return the owner of the first point at or after ``position`` (uint64), wrapping at the end."""
    index = buckets[position >> shift]
    size = points.shape[0]
    while index < size and points[index] < position:
        index += 1
    return owners[index if index < size else 0]


@compiled
def _fill_buckets(points, buckets, shift):
    index = 0
    for bucket in range(buckets.shape[0]):
        start = np.uint64(bucket) << shift
        while index < points.shape[0] and points[index] < start:
            index += 1
        buckets[bucket] = index


@compiled
def _lookup_hashes(hashes, points, owners, buckets, shift, out):
    for i in range(hashes.shape[0]):
        out[i] = find_channel(hashes[i], points, owners, buckets, shift)


@compiled
def _lookup_ints(keys, seed, points, owners, buckets, shift, out):
    for i in range(keys.shape[0]):
        out[i] = find_channel(mix_int64(keys[i], seed), points, owners, buckets, shift)


@dataclass(frozen=True)
class HashRing:
    """An immutable ring over the given channels.

    The points of a channel depend only on its id, ``seed`` and its number of replicas, never on the
    other channels; so all other keys stay in place when a channel is added or removed. ``weights``
    gives faster channels more points: a channel of weight w has w times ``replicas``. Building costs
    O(points log points).

    >>> ring = HashRing.uniform(3)
    >>> ring.lookup("user-17") in ring.channels
    True
    >>> ring.lookup_ints([1, 2, 3]).shape
    (3,)
    """

    channels: tuple[int, ...]
    replicas: int = 1000
    seed: int = 0
    weights: tuple[float, ...] | None = None
    points: npt.NDArray[np.uint64] = field(init=False, repr=False, compare=False)
    owners: npt.NDArray[np.int16] = field(init=False, repr=False, compare=False)
    buckets: npt.NDArray[np.int32] = field(init=False, repr=False, compare=False)
    shift: np.uint64 = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the channels and lay out points and buckets."""
        _check(self.channels, self.replicas, self.weights)
        counts = _replica_counts(len(self.channels), self.replicas, self.weights)
        ids = np.repeat(np.asarray(self.channels, dtype=np.int64), counts)
        copies = np.concatenate([np.arange(count, dtype=np.int64) for count in counts])
        points = hash_ints((ids << 20) | copies, seed=hash_key(self.seed)).view(np.uint64)
        order = np.lexsort((ids, points))  # among equal points the lowest channel id comes first
        bits = max(1, int(2 * points.shape[0] - 1).bit_length())
        buckets = np.empty(1 << bits, dtype=np.int32)
        shift = np.uint64(64 - bits)
        points = np.ascontiguousarray(points[order])
        _fill_buckets(points, buckets, shift)
        owners = np.ascontiguousarray(ids[order].astype(np.int16))
        for name, value in (("points", points), ("owners", owners), ("buckets", buckets), ("shift", shift)):
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    @classmethod
    def uniform(cls, channels: int, *, replicas: int = 1000, seed: int = 0) -> HashRing:
        """Return the ring of channels ``0 .. channels - 1`` with equal weights."""
        return cls(tuple(range(channels)), replicas=replicas, seed=seed)

    def lookup(self, key: object) -> int:
        """Return the channel of one key of any hashable type."""
        return int(self.lookup_hashes(np.asarray([hash_key(key)], dtype=np.int64))[0])

    def lookup_ints(self, keys: npt.ArrayLike) -> npt.NDArray[np.int16]:
        """Return the channels of integer keys: one pass, hash and lookup together."""
        values = int_keys(keys)
        out = np.empty(values.shape[0], dtype=np.int16)
        _lookup_ints(
            values.view(np.uint64),
            np.uint64(SPARK_SEED),
            self.points,
            self.owners,
            self.buckets,
            self.shift,
            out,
        )
        return out

    def lookup_hashes(self, hashes: npt.ArrayLike) -> npt.NDArray[np.int16]:
        """Return the channels of keys that are hashed already (`key_hash`, or Spark's ``xxhash64``)."""
        values = int_keys(hashes)
        out = np.empty(values.shape[0], dtype=np.int16)
        _lookup_hashes(values.view(np.uint64), self.points, self.owners, self.buckets, self.shift, out)
        return out

    def with_channels(self, channels: Sequence[int]) -> HashRing:
        """Return a ring of the same seed and replicas over other channels (weights are dropped)."""
        return HashRing(tuple(channels), replicas=self.replicas, seed=self.seed)


def _replica_counts(channels: int, replicas: int, weights: tuple[float, ...] | None) -> npt.NDArray[np.int64]:
    if weights is None:
        return np.full(channels, replicas, dtype=np.int64)
    counts: npt.NDArray[np.int64] = np.maximum(1, np.rint(np.asarray(weights) * replicas)).astype(np.int64)
    return counts


def _check(channels: tuple[int, ...], replicas: int, weights: tuple[float, ...] | None) -> None:
    if not channels:
        raise ValueError("a ring needs at least one channel, got none")
    if len(set(channels)) != len(channels):
        raise ValueError(f"channel ids must differ, got {channels}")
    if min(channels) < 0 or max(channels) >= _MAX_CHANNELS:
        raise ValueError(
            f"channel ids must lie in 0..{_MAX_CHANNELS - 1}, got {min(channels)}..{max(channels)}"
        )
    if not 1 <= replicas < _MAX_REPLICAS:
        raise ValueError(f"replicas must lie in 1..{_MAX_REPLICAS - 1}, got {replicas}")
    if weights is not None:
        if len(weights) != len(channels):
            raise ValueError(f"{len(weights)} weights for {len(channels)} channels; give one for each")
        if min(weights) <= 0:
            raise ValueError(f"weights must be positive, got {min(weights)}")
        if max(weights) * replicas >= _MAX_REPLICAS:
            raise ValueError(f"weight {max(weights)} asks for more than {_MAX_REPLICAS - 1} replicas")
