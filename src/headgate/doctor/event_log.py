"""Files of an event log: which belong to an application, and their lines, plain or compressed.

Spark writes one file for each application, or with `spark.eventLog.rolling.enabled` a folder of
several. The end of a name says how a file is compressed; `.inprogress` says that the application has
not ended.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any

import fsspec
import pyarrow as pa

from headgate.errors import ConfigError

ROLLING = "eventlog_v2_"
OPEN = ".inprogress"
SESSION = "_session.json"
"""The first lines of a recording (`headgate.spark.doctoring`), which begins in the middle."""
_PART = re.compile(r"events_(\d+)_")
_CODEC = re.compile(r"\.(zstd|lz4|snappy|lzf)$")
_LZ4, _SNAPPY = b"LZ4Block", b"\x82SNAPPY\x00"
_LZ4_HEAD = struct.Struct("<8sBIII")


def log_files(path: str, application: str = "") -> list[str]:
    """The files of one application, oldest first, as fsspec URLs or paths.

    `path` is a file, the folder of a rolling log, or a folder of logs (`spark.eventLog.dir`), in which
    `application` names one; by default it is the newest.
    """
    fs, root = fsspec.core.url_to_fs(path)
    if not fs.exists(root):
        raise ConfigError(
            f"{path} does not exist: give an event log, or the folder that spark.eventLog.dir names"
        )
    if fs.isfile(root):
        return [fs.unstrip_protocol(root)]
    inside = {info["name"].rsplit("/", 1)[-1]: info for info in fs.ls(root, detail=True)}
    if any(_PART.match(name) for name in inside):
        return [fs.unstrip_protocol(info["name"]) for info in _in_order(inside)]
    logs = {name: info for name, info in inside.items() if not name.startswith((".", "_"))}
    found = {name: info for name, info in logs.items() if application in name}
    if not found:
        about = f"of an application {application!r}; it has {', '.join(sorted(logs))}" if logs else ""
        raise ConfigError(
            f"{path} has no event log {about}".rstrip() + ": give a log of an application that ran with "
            "spark.eventLog.enabled=true, or a folder that hg.doctor.record wrote"
        )
    newest = max(found.values(), key=lambda info: (_changed(fs, info), info["name"]))
    if newest["type"] == "directory":
        return log_files(fs.unstrip_protocol(newest["name"]))
    session = [fs.unstrip_protocol(inside[SESSION]["name"])] if SESSION in inside else []
    return [*session, fs.unstrip_protocol(newest["name"])]


def _in_order(inside: dict[str, Any]) -> list[Any]:
    """Parts of a rolling log by number, beginning with the last one that was compacted."""
    parts = [(int(match[1]), info) for name, info in inside.items() if (match := _PART.match(name))]
    compacted = [number for number, info in parts if info["name"].endswith(".compact")]
    first = max(compacted, default=0)
    kept = [
        (number, info)
        for number, info in parts
        if number > first or info["name"].endswith(".compact") or not compacted
    ]
    return [info for number, info in sorted(kept, key=lambda part: part[0]) if number >= first]


def _changed(fs: Any, info: dict[str, Any]) -> Any:
    return info.get("mtime") or fs.modified(info["name"]).timestamp()


def lines_of(file: str) -> Iterator[bytes]:
    """The lines of one file. A file that ends in the middle of a compressed block gives what came before."""
    codec = _CODEC.search(file.removesuffix(OPEN).removesuffix(".compact"))
    with fsspec.open(file, "rb") as raw:
        yield from _split(_blocks(raw, codec[1] if codec else "", file))


def _blocks(raw: Any, codec: str, file: str) -> Iterator[bytes]:
    match codec:
        case "":
            while block := raw.read(1 << 20):
                yield block
        case "zstd":
            yield from _zstd(raw)
        case "lz4":
            yield from _lz4(raw)
        case "snappy":
            yield from _snappy(raw)
        case _:
            raise ConfigError(
                f"{file} is compressed with {codec}, which headgate does not read: set "
                "spark.eventLog.compression.codec=zstd, or decompress it"
            )


def _zstd(raw: Any) -> Iterator[bytes]:
    stream = pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd")
    while True:
        try:
            block = stream.read(1 << 16)
        except (OSError, pa.ArrowException):  # cut off: the application still writes
            return
        if not block:
            return
        yield block


def _lz4(raw: Any) -> Iterator[bytes]:
    """Blocks as lz4-java writes them: a head of 21 bytes, then one raw block."""
    codec = pa.Codec("lz4_raw")
    while len(head := raw.read(_LZ4_HEAD.size)) == _LZ4_HEAD.size:
        magic, token, packed, size, _ = _LZ4_HEAD.unpack(head)
        data = raw.read(packed)
        if magic != _LZ4 or len(data) < packed:
            return
        if size:
            yield data if token & 0xF0 == 0x10 else bytes(codec.decompress(data, size))


def _snappy(raw: Any) -> Iterator[bytes]:
    """Blocks as snappy-java writes them: a head of 16 bytes, then a length before each block."""
    codec = pa.Codec("snappy")
    if raw.read(16)[:8] != _SNAPPY:
        return
    while len(head := raw.read(4)) == 4:
        (packed,) = struct.unpack(">I", head)
        data = raw.read(packed)
        if len(data) < packed:
            return
        yield bytes(codec.decompress(data, _varint(data)))


def _varint(data: bytes) -> int:
    """The number at the beginning, seven bits a byte.

    >>> _varint(bytes([0xAC, 0x02]))
    300
    """
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return number


def _split(blocks: Iterator[bytes]) -> Iterator[bytes]:
    left = b""
    for block in blocks:
        first, *others = (left + block).split(b"\n")
        if not others:
            left = first
            continue
        yield first
        yield from others[:-1]
        left = others[-1]
    if left:
        yield left


def is_open(file: str) -> bool:
    """Whether the name of a file says that its application has not ended.

    >>> is_open("local-1.zstd.inprogress")
    True
    """
    return file.endswith(OPEN)
