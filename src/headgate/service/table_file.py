"""Arrow tables in section files: constants for the tasks, pieces of state, results."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from headgate.service.manifest import StoredTable
from headgate.storage import section_file
from headgate.storage.store import Store

STATE, RESULTS, CONSTANTS = "state", "results", "constants"
"""The folders of a service's state: one for each kind of file."""


@dataclass(frozen=True)
class EncodedTable:
    """A table as the bytes of a section, with the numbers that label it in its file."""

    labels: tuple[int, ...]
    rows: int
    data: bytes
    owners: tuple[tuple[int, int], ...] = ()
    """(Tenant, rows) of the tenants that have most of it."""


def encode(table: pa.Table, *labels: int, owners: tuple[tuple[int, int], ...] = ()) -> EncodedTable:
    """Encode a table for `write_tables`; `owners` have so many rows of it."""
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return EncodedTable(labels, table.num_rows, out.getvalue(), owners)


def write_tables(
    store: Store, folder: str, name: str, batch: int, tables: Sequence[EncodedTable]
) -> list[StoredTable]:
    """Write tables as the sections of one file; returns where each of them is, in order."""
    inside = store.child(folder)
    section_file.write(inside, name, {}, [(table.labels, [table.data]) for table in tables])
    sections = section_file.contents(inside, name, "file").sections
    return [
        StoredTable(
            name,
            batch,
            table.rows,
            section.at,
            section.size,
            section.checksum,
            tuple((owner, section.size * rows // max(1, table.rows)) for owner, rows in table.owners),
        )
        for table, section in zip(tables, sections, strict=True)
    ]


def read_table(store: Store, folder: str, stored: StoredTable) -> pa.Table:
    """Read a table back."""
    (data,) = section_file.read(store.child(folder), stored.file, [stored.section], f"{folder} file")
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()
