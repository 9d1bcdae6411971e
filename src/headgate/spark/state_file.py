"""The file that one channel writes in one batch: a section per bin, each with its own checksum.

    magic, format | section of bin b1 | section of bin b2 | ... | footer (JSON) | footer size, checksum, magic

A section is a delta or a snapshot of one bin (`headgate.state.section`), contiguous, so that the new channel
of a moved bin reads that bin's bytes and no others. The footer says where each section lies. A file is never
changed after it was written.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from headgate.errors import CorruptState, NewerFormat
from headgate.spark.store import Store
from headgate.state.layout import StateLayout
from headgate.state.section import Extract, decode, encode

MAGIC = b"HEADGATE"
FORMAT = 1
_START = struct.Struct("<8sII")
_END = struct.Struct("<QQ8s")
_TAIL_GUESS = 1 << 16


@dataclass(frozen=True)
class Piece:
    """One bin's section to be written."""

    bin: int
    snapshot: bool
    rows: Extract


def write(store: Store, name: str, layout: StateLayout, pieces: list[Piece]) -> int:
    """Write all pieces of one channel; returns the bytes written."""
    parts: list[Any] = [_START.pack(MAGIC, FORMAT, 0)]
    at = _START.size
    index: list[list[int]] = []
    for piece in pieces:
        buffers = encode(piece.rows, layout)
        digest, size = xxhash.xxh3_64(), 0
        for buffer in buffers:
            digest.update(buffer.data)
            size += buffer.nbytes
        index.append([piece.bin, int(piece.snapshot), len(piece.rows), at, size, digest.intdigest()])
        parts += buffers
        at += size
    footer = json.dumps({"layout": layout.fingerprint(), "sections": index}, separators=(",", ":")).encode()
    parts += [footer, _END.pack(len(footer), xxhash.xxh3_64_intdigest(footer), MAGIC)]
    return store.write(name, parts)


def read(
    store: Store, name: str, layout: StateLayout, wanted: set[int] | None = None
) -> Iterator[tuple[int, bool, Extract]]:
    """(bin, is a snapshot, rows) of each wanted section, in file order, every byte checked."""
    where = store.path(name)
    for b, snapshot, rows, at, size, checksum in _sections(store, name, layout):
        if wanted is not None and b not in wanted:
            continue
        raw = _bytes_of(store, name, at, at + size) if size else b""
        if len(raw) != size or xxhash.xxh3_64_intdigest(raw) != checksum:
            raise CorruptState(
                f"state file {where} is damaged at bytes {at}-{at + size} (bin {b}): its checksum does not match; {_REMEDY}"
            )
        try:
            piece = decode(_writable(raw), rows, layout)
        except CorruptState as error:
            raise CorruptState(f"state file {where}, bin {b}: {error}; {_REMEDY}") from None
        yield b, bool(snapshot), piece


_REMEDY = "restore the file from a backup of the checkpoint"


def _writable(raw: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(bytearray(raw), np.uint8)


def _bytes_of(store: Store, name: str, start: int, end: int | None = None) -> bytes:
    try:
        return store.read(name, start=start, end=end)
    except FileNotFoundError:
        raise CorruptState(f"state file {store.path(name)} is missing; {_REMEDY}") from None


def _sections(store: Store, name: str, layout: StateLayout) -> list[list[int]]:
    """[bin, is a snapshot, rows, start, size, checksum] of each section."""
    where = store.path(name)
    tail = _bytes_of(store, name, -_TAIL_GUESS)
    if len(tail) < _START.size + _END.size:
        raise CorruptState(f"state file {where} is cut short at {len(tail)} bytes; {_REMEDY}")
    start = tail if len(tail) < _TAIL_GUESS else _bytes_of(store, name, 0, _START.size)
    first_magic, version, zero = _START.unpack(start[: _START.size])
    if first_magic != MAGIC or version < 1:
        raise CorruptState(f"state file {where} does not begin as a headgate state file does; {_REMEDY}")
    if version > FORMAT:  # before anything else is read: what comes after may be of another shape
        raise NewerFormat(
            f"state file {where} has format {version}, and this headgate reads up to {FORMAT}; upgrade headgate"
        )
    if zero:
        raise CorruptState(f"state file {where} is damaged in its first {_START.size} bytes; {_REMEDY}")
    size, checksum, magic = _END.unpack(tail[-_END.size :])
    if magic != MAGIC:
        raise CorruptState(f"state file {where} does not end as a headgate state file does; {_REMEDY}")
    if size + _END.size > len(tail):
        tail = _bytes_of(store, name, -(size + _END.size))
    footer = tail[-(size + _END.size) : -_END.size]
    if len(footer) != size or xxhash.xxh3_64_intdigest(footer) != checksum:
        raise CorruptState(f"the footer of state file {where} is damaged; {_REMEDY}")
    content = json.loads(footer)
    if content["layout"] != layout.fingerprint():
        raise CorruptState(
            f"state file {where} holds columns {content['layout']}, not {layout.fingerprint()}; {_REMEDY}"
        )
    sections: list[list[int]] = content["sections"]
    return sections
