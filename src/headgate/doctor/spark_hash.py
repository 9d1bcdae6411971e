"""Spark's hash partitioning: Murmur3 with seed 42, and the remainder by the number of partitions.

Native Spark sends a key to the shuffle partition, and so to the state partition, that this gives.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

SEED = 42
_MASK = 0xFFFFFFFF


def partition_of(values: Sequence[Any], types: Sequence[pa.DataType], partitions: int) -> int | None:
    """The partition of a key; None if one of its types is not one that is hashed here.

    >>> partition_of([7], [pa.int64()], 200)
    11
    """
    digest = SEED
    for value, kind in zip(values, types, strict=True):
        data = _bytes(value, kind)
        if data is None:
            return None
        digest = _murmur(data, digest) if value is not None else digest
    signed = digest - (1 << 32) if digest >= 1 << 31 else digest
    return signed % partitions


def _bytes(value: Any, kind: pa.DataType) -> bytes | None:
    if value is None:
        return b""
    if pa.types.is_int64(kind):
        return struct.pack("<q", value)
    if pa.types.is_integer(kind) and pa.types.is_signed_integer(kind):
        return struct.pack("<i", value)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return bytes(value.encode())
    return None


def _murmur(data: bytes, seed: int) -> int:
    """Spark's variant: the bytes after the last whole word are mixed one by one, with their sign."""
    whole = len(data) - len(data) % 4
    digest = seed
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        digest = _mix(digest, word)
    for byte in data[whole:]:
        digest = _mix(digest, (byte - 256 if byte >= 128 else byte) & _MASK)
    digest ^= len(data)
    digest ^= digest >> 16
    digest = digest * 0x85EBCA6B & _MASK
    digest ^= digest >> 13
    digest = digest * 0xC2B2AE35 & _MASK
    return digest ^ digest >> 16


def _mix(digest: int, word: int) -> int:
    word = word * 0xCC9E2D51 & _MASK
    word = _turned(word, 15) * 0x1B873593 & _MASK
    return (_turned(digest ^ word, 13) * 5 + 0xE6546B64) & _MASK


def _turned(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & _MASK
