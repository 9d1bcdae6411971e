"""Backlog files: the rows that one channel deferred in one batch, with one section
per bin in Arrow's stream format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.errors import CorruptState
from headgate.flow.backlog import BacklogEntry
from headgate.storage import section_file
from headgate.storage.section_file import REMEDY
from headgate.storage.store import Store

_KIND = "backlog file"


def write(store: Store, name: str, rows: Mapping[int, list[pa.RecordBatch]]) -> list[BacklogEntry]:
    """Write the rows of each bin, in order; return the entries that name them."""
    sections, added = [], []
    for bin, batches in rows.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        content = sink.getvalue()
        count = sum(batch.num_rows for batch in batches)
        sections.append(((bin, count), [content]))
        added.append(BacklogEntry(name, bin, count, sum(batch.nbytes for batch in batches)))
    section_file.write(store, name, {"rows": "arrow stream"}, sections)
    return added


def read(
    store: Store, entries: Sequence[BacklogEntry], schema: pa.Schema
) -> tuple[pa.RecordBatch, NDArray[np.int32]]:
    """The rows of these entries of one file, in the order of the entries, and the bin of each row."""
    name = entries[0].file
    file = section_file.contents(store, name, _KIND)
    where = {section.labels: section for section in file.sections}
    missing = [entry for entry in entries if (entry.bin, entry.rows) not in where]
    if missing:
        raise CorruptState(
            f"backlog file {store.path(name)} lacks the {missing[0].rows} rows of bin {missing[0].bin}; {REMEDY}"
        )
    wanted = [where[entry.bin, entry.rows] for entry in entries]
    batches: list[pa.RecordBatch] = []
    for raw in section_file.read(store, name, wanted, _KIND, whole=file.whole):
        with pa.ipc.open_stream(pa.py_buffer(raw)) as reader:
            if reader.schema != schema:
                raise CorruptState(
                    f"backlog file {store.path(name)} has columns {reader.schema.names}, but the stage sends "
                    f"{schema.names}; {REMEDY}"
                )
            batches += reader
    bins = np.repeat(np.array([entry.bin for entry in entries], np.int32), [entry.rows for entry in entries])
    return pa.concat_batches(batches), bins
