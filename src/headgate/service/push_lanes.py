"""The files of pushed events: in lanes, one for each service process, numbered from 0 without gaps.

    push/<run>/<number>.push    the rows of some tenants, a section each (`storage.section_file`)

A lane is named by the claim of its service (`storage.commit_log`), so lanes have an order, which no clock decides, and
two services never write to the same one. A service that takes over *ends* the lanes before its own: it creates the
next file of each, exclusively, as an end. The service before it then finds its number taken, and acknowledges nothing
more. So that the next number can always be found, the last file of a lane stays until the lane is removed as a whole,
which is one step: it gets another name.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headgate.errors import CorruptState, Superseded
from headgate.storage import section_file
from headgate.storage.section_file import Section
from headgate.storage.store import Store, translated

KIND = "push file"
_LANE = re.compile(r"\d{8,12}\.(?!parquet)\w+")
_GONE = "gone-"
_FILE = re.compile(r"(\d{12})\.push")


@dataclass(frozen=True)
class Part:
    """The rows of one tenant in a file."""

    tenant: str
    section: Section
    rows: int
    size: int
    """Bytes in memory."""
    columns: tuple[str, ...]


@dataclass(frozen=True)
class PushFile:
    """What a file of a lane holds."""

    lane: str
    number: int
    at: float
    """When it was written, in seconds since 1970."""
    parts: tuple[Part, ...]
    taken_over: str = ""
    """The file of an earlier version whose rows these are."""
    ended_by: str = ""
    """The lane of the service that has ended this one; then there are no rows."""


def file_name(lane: str, number: int) -> str:
    """Where a file is, below the folder of pushes."""
    return f"{lane}/{number:012d}.push"


def lanes_of(store: Store) -> list[str]:
    """The lanes, the oldest first."""
    return sorted((name for name in store.names("") if _LANE.fullmatch(name)), key=claim_of)


def claim_of(lane: str) -> int:
    """The claim of the service that made a lane: lanes are in the order of their claims."""
    return int(lane.partition(".")[0])


def numbers_of(store: Store, lane: str) -> list[int]:
    """The numbers of the files in a lane, in ascending order."""
    return sorted(int(found[1]) for name in store.names(lane) if (found := _FILE.fullmatch(name)))


def encoded(
    name: str, tables: Mapping[str, pa.Table], at: float, *, taken_over: str = "", ended_by: str = ""
) -> bytes:
    """The bytes of a file: a table of rows for each tenant."""
    head: dict[str, Any] = {
        "at": at,
        "tenants": list(tables),
        "rows": [table.num_rows for table in tables.values()],
        "sizes": [table.nbytes for table in tables.values()],
        "columns": [table.column_names for table in tables.values()],
        "taken_over": taken_over,
        "ended_by": ended_by,
    }
    sections = [((at,), [_bytes_of(table)]) for at, table in enumerate(tables.values())]
    return b"".join(section_file.parts_of(name, head, sections))


def _bytes_of(table: pa.Table) -> bytes:
    out, options = io.BytesIO(), pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(out, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    return out.getvalue()


def read_rows(store: Store, lane: str, number: int, section: Section) -> pa.Table:
    """The rows of one tenant in a file. Damaged or missing, it raises `CorruptState`."""
    (data,) = section_file.read(store, file_name(lane, number), [section], KIND)
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()


def read_file(store: Store, lane: str, number: int) -> PushFile:
    """What a file holds. Damaged or missing, it raises `CorruptState`."""
    contents = section_file.contents(store, file_name(lane, number), KIND)
    head = contents.head
    columns = [tuple(names) for names in head["columns"]]
    lists = zip(head["tenants"], contents.sections, head["rows"], head["sizes"], columns, strict=True)
    parts = tuple(Part(*values) for values in lists)
    return PushFile(lane, number, head["at"], parts, head["taken_over"], head["ended_by"])


def take_lanes(store: Store, mine: str, now: float) -> list[str]:
    """Make this service's lane, and end those before it, which are returned. `Superseded` if there is one after it."""
    store.make(mine)
    begin = file_name(
        mine, 0
    )  # an object store has no empty folders, and a copy of a service leaves them out
    with suppress(FileExistsError):
        store.create(begin, encoded(begin, {}, now))
    store.flush("")
    lanes = lanes_of(store)  # after ours was made: of two services at once, at least one sees the other
    newer = [lane for lane in lanes if claim_of(lane) >= claim_of(mine) and lane != mine]
    if newer:
        raise _taken_over(store, newer[-1], mine)
    store.remove(*(name for name in store.names("") if name.startswith(_GONE)))
    before = [lane for lane in lanes if claim_of(lane) < claim_of(mine)]
    for lane in before:
        _end(store, lane, mine, now)
    return before


def remove_lane(store: Store, lane: str) -> None:
    """Remove a lane: on a disk in one step, so that nobody can write to it after its end is gone. On an object store
    whoever writes to it looks for a later claim before it acknowledges anything.
    """
    if store.disk is None:
        store.remove(*(file_name(lane, number) for number in numbers_of(store, lane)))
        return
    with suppress(FileNotFoundError), translated(store.path(lane), "removing", passing=FileNotFoundError):
        store.disk.rename(store.path(lane), store.path(f"{_GONE}{lane}"))
        store.flush("")
        store.remove(f"{_GONE}{lane}")


def _end(store: Store, lane: str, by: str, now: float) -> None:
    """Create the end of a lane, unless it has one."""
    numbers = numbers_of(store, lane)
    if numbers and read_file(store, lane, numbers[-1]).ended_by:
        return
    number = numbers[-1] + 1 if numbers else 0
    while True:
        name = file_name(lane, number)
        try:
            store.create(name, encoded(name, {}, now, ended_by=by))
            return
        except FileExistsError:
            if read_file(store, lane, number).ended_by:
                return
            number += 1


def read_lanes(store: Store, lanes: Sequence[str], start: tuple[str, int] | None) -> list[PushFile]:
    """All files of ended lanes from a place on, in order. A lane or a file that is missing raises `CorruptState`."""
    if start is not None and start[0] not in lanes:
        raise _missing(store, start[0])
    found = list[PushFile]()
    for lane in lanes:
        if start is not None and claim_of(lane) < claim_of(start[0]):
            continue
        first = start[1] if start is not None and lane == start[0] else 0
        numbers = [number for number in numbers_of(store, lane) if number >= first]
        for expected, number in enumerate(numbers or [first + 1], first):
            if number != expected:
                raise _missing(store, file_name(lane, expected))
        found += [read_file(store, lane, number) for number in numbers]
    return found


def check_chain(store: Store, files: Sequence[PushFile], lanes: Sequence[str], mine: str) -> None:
    """Whoever ended a lane has a lane: if that is missing, rows may be. A lane that is newer than this service's (`mine`)
    is not missing: another service has taken over since the lanes were listed.
    """
    for file in files:
        if file.ended_by and file.ended_by not in (*lanes, mine):
            if claim_of(file.ended_by) >= claim_of(mine):
                raise _taken_over(store, file.ended_by, mine)
            raise _missing(store, file.ended_by)


def _taken_over(store: Store, newer: str, mine: str) -> Superseded:
    return Superseded(
        f"another service has taken over {store.path()}: it writes to {newer}, which is not older than {mine}. Stop one "
        "of them; if the service's state was deleted, or restored from a backup, move this folder away: its events do not "
        "belong to that state"
    )


def _missing(store: Store, name: str) -> CorruptState:
    return CorruptState(
        f"{store.path(name)} is missing, and it has pushed events that were acknowledged and not yet computed: restore it "
        "from a backup of the service's folder"
    )
