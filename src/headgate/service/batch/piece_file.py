"""Tables in section files: constants for the tasks, pieces of state, results. No pyspark."""

from __future__ import annotations

import io

import pyarrow as pa

from headgate.service.batch.manifest import Stored
from headgate.storage import section_file
from headgate.storage.store import Store

STATE, RESULTS, CONSTANTS = "state", "results", "constants"


def placed(store: Store, name: str) -> list[list[int]]:
    """Labels and place of every section of a file."""
    _, found = section_file.contents(store, name, "file")
    return [[*one.labels, one.at, one.size, one.checksum] for one in found]


def read_table(store: Store, folder: str, stored: Stored) -> pa.Table:
    """A section as a table."""
    (data,) = section_file.read(store.child(folder), stored.file, [stored.section], f"{folder} file")
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()


def table_bytes(table: pa.Table) -> bytes:
    """A table as a section's bytes."""
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return out.getvalue()
