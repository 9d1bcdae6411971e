"""A file of sections, each with its own checksum: what one channel writes in one batch.

    magic, format | section | section | ... | footer (JSON) | footer size, checksum, magic

A section is contiguous, so that a reader fetches the bytes that it wants and no others. The footer says what the sections
are and where, and how the file is called: one that was put in another's place is recognised. A file is never changed after it
was written, and its name (with its batch, channel, driver and attempt) is never used again.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import xxhash

from headgate.errors import CorruptState
from headgate.storage.commit_log import FORMAT, check_format
from headgate.storage.store import Store

MAGIC = b"HEADGATE"
REMEDY = "restore the file from a backup of the checkpoint"
_START = struct.Struct("<8sII")
_END = struct.Struct("<QQ8s")
_TAIL_GUESS = 1 << 16


@dataclass(frozen=True)
class Section:
    """Where a section lies, and the numbers that its writer wants to know it by."""

    labels: tuple[int, ...]
    at: int
    size: int
    checksum: int


def write(
    store: Store, name: str, head: dict[str, Any], sections: Sequence[tuple[tuple[int, ...], Sequence[Any]]]
) -> int:
    """Write (labels, buffers) of each section under a head; returns the bytes written."""
    parts: list[Any] = [_START.pack(MAGIC, FORMAT, 0)]
    at = _START.size
    index: list[list[int]] = []
    for labels, buffers in sections:
        digest, size = xxhash.xxh3_64(), 0
        for buffer in buffers:
            view = memoryview(buffer)
            digest.update(view)
            size += view.nbytes
        index.append([*labels, at, size, digest.intdigest()])
        parts += buffers
        at += size
    footer = json.dumps({**head, "file": name, "sections": index}, separators=(",", ":")).encode()
    parts += [footer, _END.pack(len(footer), xxhash.xxh3_64_intdigest(footer), MAGIC)]
    return store.write(name, parts)


def contents(store: Store, name: str, kind: str) -> tuple[dict[str, Any], list[Section]]:
    """The head and the sections of a file, the footer checked."""
    where = f"{kind} {store.path(name)}"
    tail = _fetch(store, name, kind, -_TAIL_GUESS)
    if len(tail) < _START.size + _END.size:
        raise CorruptState(f"{where} is cut short at {len(tail)} bytes; {REMEDY}")
    start = tail if len(tail) < _TAIL_GUESS else _fetch(store, name, kind, 0, _START.size)
    first_magic, version, zero = _START.unpack(start[: _START.size])
    if first_magic != MAGIC or version < 1:
        raise CorruptState(f"{where} does not begin as a headgate {kind} does; {REMEDY}")
    check_format(version, where)  # before anything else is read: what comes after may be of another shape
    if zero:
        raise CorruptState(f"{where} is damaged in its first {_START.size} bytes; {REMEDY}")
    size, checksum, magic = _END.unpack(tail[-_END.size :])
    if magic != MAGIC:
        raise CorruptState(f"{where} does not end as a headgate {kind} does; {REMEDY}")
    if size + _END.size > len(tail):
        tail = _fetch(store, name, kind, -(size + _END.size))
    footer = tail[-(size + _END.size) : -_END.size]
    if len(footer) != size or xxhash.xxh3_64_intdigest(footer) != checksum:
        raise CorruptState(f"the footer of {where} is damaged; {REMEDY}")
    head = json.loads(footer)
    written_as = head.pop("file", None)
    if written_as != name:
        raise CorruptState(f"{where} was written as {written_as}: it was put in another's place; {REMEDY}")
    return head, [Section(tuple(one[:-3]), *one[-3:]) for one in head.pop("sections")]


def read(store: Store, name: str, sections: Sequence[Section], kind: str) -> list[bytearray]:
    """The bytes of some sections, fetched in one go, every one checked."""
    first = min((one.at for one in sections if one.size), default=0)
    last = max((one.at + one.size for one in sections if one.size), default=0)
    raw = memoryview(_fetch(store, name, kind, first, last) if last > first else b"")
    found = []
    for one in sections:
        part = raw[one.at - first : one.at - first + one.size] if one.size else memoryview(b"")
        if len(part) != one.size or xxhash.xxh3_64_intdigest(part) != one.checksum:
            raise CorruptState(
                f"{kind} {store.path(name)} is damaged at bytes {one.at}-{one.at + one.size} (bin {one.labels[0]}): "
                f"its checksum does not match; {REMEDY}"
            )
        found.append(bytearray(part))
    return found


def _fetch(store: Store, name: str, kind: str, start: int, end: int | None = None) -> bytes:
    try:
        return store.read(name, start=start, end=end)
    except FileNotFoundError:
        raise CorruptState(f"{kind} {store.path(name)} is missing; {REMEDY}") from None
