"""Streams that Spark's own sources read in earlier versions go on where they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from headgate.errors import ConfigError
from headgate.service.push_upgrade import logged_paths, taken_upto
from headgate.service.service import Service
from headgate.service.stream_config import FOLDER
from headgate.sources.file_log import FileLog
from headgate.sources.files import Files
from headgate.sources.place import Entry
from headgate.sources.source import Source


def place_after_spark(service: Service, name: str, kind: str, source: Source) -> Any:
    """The offset at which a stream begins, if Spark's query of an earlier version has read from it; None if it has not.

    Files that it has read are noted in the stream's log as read. Of a table it is not known how far Spark was.
    """
    last, checkpoint = service.batch_log.last, service.settings.folder / "spark"
    if last is None or last.delivered < 0 or name in last.offsets or not (checkpoint / "offsets").is_dir():
        return None
    offsets = (checkpoint / "offsets" / str(last.delivered)).read_text(encoding="utf-8").splitlines()[2:]
    if isinstance(source, Files):
        log = FileLog(service.batch_log.store.child(f"{FOLDER}/{name}"))
        read = _read_by_spark(checkpoint, last.delivered, len(offsets), source.folder)
        log.append([Entry(path, 0, 0) for path in read])
        return {"file": len(read), "at": 0} if read else None
    if kind != "kafka" and any("reservoirVersion" in line for line in offsets[1:]):
        raise ConfigError(
            f"stream {name!r}: Spark has read tables for this service in an earlier version, and this version does not know how "
            "far. Let the earlier version read all rows, and set only_new = true"
        )
    return None


def _read_by_spark(checkpoint: Path, delivered: int, sources: int, folder: str) -> list[str]:
    """The paths below a folder that Spark's file sources, but for the first, have read in batches that were committed."""
    root = f"{unquote(urlsplit(folder).path).rstrip('/')}/"
    found: dict[str, int] = {}
    for source in range(1, sources):
        upto = taken_upto(checkpoint, delivered, source)
        for path, number in logged_paths(checkpoint / "sources" / str(source)).items():
            if path.startswith(root) and number <= upto:
                found[path.removeprefix(root)] = number
    return sorted(found, key=lambda path: (found[path], path))
