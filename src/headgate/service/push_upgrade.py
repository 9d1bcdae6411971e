"""Pushed events of an earlier version become the start of the log.

Earlier versions wrote Parquet files named by the clock, which Spark's file source read. Its checkpoint says which files
belong to which of Spark's batches, and the last commit of the service says which of those were committed. All other files
were acknowledged and not computed: their rows are appended to the log. A file of the log names the file that it was made
of, so that a service that dies in between leaves nothing undone and nothing twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headgate.errors import CorruptState
from headgate.service.batch_log import BatchLog
from headgate.service.flow import Flow
from headgate.service.places import Places
from headgate.service.push_log import PushLog
from headgate.service.push_source import PUSHED
from headgate.storage.store import Store

SUFFIX = ".parquet"


def open_push_log(places: Places, batch_log: BatchLog, flow: Flow, owner: Callable[[int], str]) -> PushLog:
    """Open the log of a service's folder; the first time after an earlier version, with what that has left."""
    last = batch_log.last
    offset, delivered = (last.offsets.get(PUSHED), last.delivered) if last else (None, -1)
    log = PushLog(Store(places.push), batch_log.run, offset, flow)
    log.check_mine = batch_log.commits.check_mine
    take_over(log, places.folder / "spark", delivered, owner)
    return log


def take_over(log: PushLog, checkpoint: Path, delivered: int, owner: Callable[[int], str]) -> int:
    """Append what an earlier version acknowledged and did not commit, and remove its files. Returns how many files had
    such rows. `checkpoint` is that of Spark's query, and `delivered` the last of its batches that was committed.
    """
    store = log.store
    names = [name for name in store.names("") if name.endswith(SUFFIX) and not name.startswith(".")]
    if not names:
        return 0
    entries = logged_files(checkpoint / "sources" / "0")
    upto = taken_upto(checkpoint, delivered, 0)
    committed = {name for name, number in entries.items() if number <= upto}
    left = [name for name in names if name not in committed and name not in log.taken_over]
    for name, number in entries.items():
        if number > upto and name not in names and name not in log.taken_over:
            raise CorruptState(
                f"{store.path(name)} is missing: its events were acknowledged, and {checkpoint} has them in a batch that was "
                "not committed. Restore it from a backup"
            )
    for name in sorted(left, key=lambda name: (entries.get(name, 1 << 62), name)):
        log.write(_by_owner(store.path(name), owner), taken_over=name)
        log.taken_over.add(name)
    store.remove(*names)
    return len(left)


def logged_files(folder: Path) -> dict[str, int]:
    """By file name: the number under which Spark's file source has noted it."""
    return {path.rpartition("/")[2]: number for path, number in logged_paths(folder).items()}


def logged_paths(folder: Path) -> dict[str, int]:
    """The same by path. Newer notes are in files of their own; older ones were put together in files that end in
    `.compact`.
    """
    found: dict[str, int] = {}
    for path in sorted(folder.glob("*")) if folder.is_dir() else []:
        if not path.name.removesuffix(".compact").isdecimal():
            continue
        try:
            version, *lines = path.read_text(encoding="utf-8").splitlines()
            if version != "v1":
                raise ValueError(f"its version is {version!r}")
            for line in filter(None, lines):
                entry = json.loads(line)
                found[unquote(urlsplit(entry["path"]).path)] = int(entry["batchId"])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptState(
                f"{path} is not a log of Spark's file source ({error}): restore it from a backup"
            ) from error
    return found


def taken_upto(checkpoint: Path, delivered: int, source: int) -> int:
    """The last number of the file source's log that Spark's batch `delivered` covers; -1 if there is none."""
    if delivered < 0:
        return -1
    path = checkpoint / "offsets" / str(delivered)
    try:
        version, _, *offsets = path.read_text(encoding="utf-8").splitlines()
        if version != "v1":
            raise ValueError(f"its version is {version!r}")
        offset = json.loads(offsets[source]) if offsets[source] != "-" else {"logOffset": -1}
        return int(offset["logOffset"] if isinstance(offset, dict) else offset)
    except (OSError, ValueError, IndexError, KeyError, TypeError) as error:
        raise CorruptState(
            f"{path} cannot be read ({error}), and without it nobody knows which pushed events were computed: restore it from a "
            "backup"
        ) from error


def _by_owner(path: str, owner: Callable[[int], str]) -> dict[str, pa.Table]:
    try:
        rows = pq.read_table(path, partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise CorruptState(
            f"{path} cannot be read ({error}), and its events were acknowledged: restore it from a backup"
        ) from error
    sources = rows.column("source").to_numpy()
    owners = np.array([owner(number) for number in range(int(sources.max(initial=-1)) + 1)], dtype=object)
    whose = owners[sources] if len(sources) else owners
    return {
        str(tenant): rows.filter(pa.array(whose == tenant)).combine_chunks()
        for tenant in dict.fromkeys(whose)
    }
