"""A file of sections, each with its own checksum. Each channel writes such files in a batch.

    magic, format | section | section | ... | footer (JSON) | footer size, checksum, magic

A section is contiguous, so that a reader fetches only the bytes that it needs. The footer lists the
sections and their places. It also has the name of the file, so that a file that was put in
another's place is recognised. A file is never changed after it was written, and its name (which has
the batch, channel, driver and attempt) is never used again.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import xxhash

from headgate.errors import CorruptState
from headgate.storage.commit_log import FORMAT, as_json, check_format
from headgate.storage.store import Store

MAGIC = b"HEADGATE"
REMEDY = "restore the file from a backup of the checkpoint"
_START = struct.Struct("<8sII")
_END = struct.Struct("<QQ8s")
_TAIL_GUESS = 1 << 16


@dataclass(frozen=True)
class Section:
    """The place of a section in its file, and the numbers that identify it
    (`labels`, chosen by the writer).
    """

    labels: tuple[int, ...]
    at: int
    size: int
    checksum: int


@dataclass(frozen=True)
class Contents:
    """What the footer of a file says, and the whole file if it is so small that it was read with the footer."""

    head: dict[str, Any]
    sections: list[Section]
    whole: bytes | None


def write(
    store: Store, name: str, head: dict[str, Any], sections: Sequence[tuple[tuple[int, ...], Sequence[Any]]]
) -> int:
    """Write sections, given as (labels, buffers), and the head in the footer;
    return the number of bytes written.
    """
    return store.write(name, parts_of(name, head, sections))


def parts_of(
    name: str, head: dict[str, Any], sections: Sequence[tuple[tuple[int, ...], Sequence[Any]]]
) -> list[Any]:
    """The bytes of a file of sections, in parts."""
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
    footer = as_json({**head, "file": name, "sections": index}).encode()
    parts += [footer, _END.pack(len(footer), xxhash.xxh3_64_intdigest(footer), MAGIC)]
    return parts


def contents(store: Store, name: str, kind: str) -> Contents:
    """The head and the list of sections of a file, from its footer, whose checksum is verified."""
    where = f"{kind} {store.path(name)}"
    tail = _fetch(store, name, kind, -_TAIL_GUESS)
    if len(tail) < _START.size + _END.size:
        raise CorruptState(f"{where} is cut short at {len(tail)} bytes; {REMEDY}")
    whole = tail if len(tail) < _TAIL_GUESS else None
    start = tail if whole is not None else _fetch(store, name, kind, 0, _START.size)
    first_magic, version, zero = _START.unpack(start[: _START.size])
    if first_magic != MAGIC or version < 1:
        raise CorruptState(f"{where} does not begin as a headgate {kind} does; {REMEDY}")
    check_format(version, where)  # before anything else is read: the rest may have another layout
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
    sections = [Section(tuple(numbers[:-3]), *numbers[-3:]) for numbers in head.pop("sections")]
    return Contents(head, sections, whole)


def read(
    store: Store, name: str, sections: Sequence[Section], kind: str, *, whole: bytes | None = None
) -> list[bytearray]:
    """The bytes of these sections, fetched in one request unless the `whole` file is at hand; each
    checksum is verified.
    """
    first = min((section.at for section in sections if section.size), default=0)
    last = max((section.at + section.size for section in sections if section.size), default=0)
    if last <= first:
        raw = memoryview(b"")
    else:
        raw = memoryview(_fetch(store, name, kind, first, last) if whole is None else whole[first:last])
    parts_read = []
    for section in sections:
        start, end = section.at - first, section.at - first + section.size
        part = raw[start:end] if section.size else memoryview(b"")
        if len(part) != section.size or xxhash.xxh3_64_intdigest(part) != section.checksum:
            raise CorruptState(
                f"{kind} {store.path(name)} is damaged at bytes {section.at}-{section.at + section.size} "
                f"(bin {section.labels[0]}): "
                f"its checksum does not match; {REMEDY}"
            )
        parts_read.append(bytearray(part))
    return parts_read


def _fetch(store: Store, name: str, kind: str, start: int, end: int | None = None) -> bytes:
    try:
        return store.read(name, start=start, end=end)
    except FileNotFoundError:
        raise CorruptState(f"{kind} {store.path(name)} is missing; {REMEDY}") from None
