# mypy: allow-untyped-defs, allow-untyped-calls
"""Hashes of keys: xxHash64 with seed 42, bit for bit the result of Spark's `xxhash64` column function.

The paper uses MurmurHash3; any uniform hash works. This one can be computed by the JVM side of an
exchange as a plain column expression, so both sides agree on every key without sending hashes. For
64-bit integers the hash is a bijection: two integer keys never share a hash.

Not here: the ring (`ring`), bins, and Spark itself.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from headgate.compiled import compiled, inlined

SPARK_SEED = 42

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_R27, _R31, _R33, _R37 = np.uint64(27), np.uint64(31), np.uint64(33), np.uint64(37)
_R29, _R32, _EIGHT = np.uint64(29), np.uint64(32), np.uint64(8)

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


@inlined
def mix_int64(value, seed):
    """xxHash64 of the eight little-endian bytes of ``value`` (both arguments uint64)."""
    k = value * _P2
    k = ((k << _R31) | (k >> _R33)) * _P1
    h = (seed + _P5 + _EIGHT) ^ k
    h = ((h << _R27) | (h >> _R37)) * _P1 + _P4
    h = (h ^ (h >> _R33)) * _P2
    h = (h ^ (h >> _R29)) * _P3
    return h ^ (h >> _R32)


@compiled
def _hash_many(values, seed, out):
    for index in range(values.shape[0]):
        out[index] = mix_int64(values[index], seed)


def hash_ints(keys: npt.ArrayLike, *, seed: int = SPARK_SEED) -> npt.NDArray[np.int64]:
    """Hash 64-bit integer keys, as ``xxhash64(CAST(key AS BIGINT))`` does in Spark.

    >>> hash_ints([1, 2]).tolist()
    [-7001672635703045582, -3341702809300393011]
    """
    values = int_keys(keys).view(np.uint64)
    out = np.empty(values.shape[0], dtype=np.uint64)
    _hash_many(values, np.uint64(seed & 0xFFFFFFFFFFFFFFFF), out)
    return out.view(np.int64)


def hash_key(key: Any, *, seed: int = SPARK_SEED) -> int:
    """Hash one key of any hashable type to a signed 64-bit integer.

    Integers, floats, booleans, text, bytes, None and tuples of these have the hash of the same
    columns in Spark (an integer as BIGINT; a tuple as several columns, each seeded with the hash
    before it). Integers outside 64 bits are hashed as decimal text, and any other type by its
    ``repr``, which must be stable.

    >>> hash_key(1) == int(hash_ints([1])[0])
    True
    >>> hash_key("gate")
    4394893885802268062
    """
    digest = _digest(key, seed & 0xFFFFFFFFFFFFFFFF)
    return digest - 2**64 if digest > _INT64_MAX else digest


def int_keys(keys: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return ``keys`` as a contiguous int64 array; raise if that would lose information."""
    array = np.asarray(keys)
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1:
        raise ValueError(f"keys must be one-dimensional, got shape {array.shape}; flatten them first")
    if array.dtype == np.uint64:
        return np.ascontiguousarray(array).view(np.int64)
    if not (np.issubdtype(array.dtype, np.integer) or array.dtype == np.bool_):
        raise ValueError(f"integer keys expected, got {array.dtype}; hash other types with hash_key")
    return np.ascontiguousarray(array, dtype=np.int64)


def _digest(key: Any, seed: int) -> int:
    if key is None:
        return seed
    if isinstance(key, bool | np.bool_):
        return _bytes_digest(struct.pack("<i", int(key)), seed)
    if isinstance(key, int | np.integer):
        number = int(key)
        if _INT64_MIN <= number <= _INT64_MAX:
            return _bytes_digest(struct.pack("<q", number), seed)
        return _bytes_digest(str(number).encode(), seed)
    if isinstance(key, float | np.floating):
        return _bytes_digest(struct.pack("<d", float(key) or 0.0), seed)  # as Spark, -0.0 hashes as 0.0
    if isinstance(key, str):
        return _bytes_digest(key.encode(), seed)
    if isinstance(key, bytes | bytearray | memoryview):
        return _bytes_digest(bytes(key), seed)
    if isinstance(key, tuple):
        for part in key:
            seed = _digest(part, seed)
        return seed
    return _bytes_digest(repr(key).encode(), seed)


def _bytes_digest(data: bytes, seed: int) -> int:
    return int(xxhash.xxh64_intdigest(data, seed=seed))
