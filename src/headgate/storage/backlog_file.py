"""Rows that wait, on disk: what one channel deferred in one batch, a section per bin in Arrow's stream format."""

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
    """Write the rows of each bin, in order; returns the entries that name them."""
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
    """The rows of some entries of one file, and the bin of each row; in the order of the entries."""
    name = entries[0].file
    where = {section.labels: section for section in section_file.contents(store, name, _KIND)[1]}
    missing = [one for one in entries if (one.bin, one.rows) not in where]
    if missing:
        raise CorruptState(
            f"backlog file {store.path(name)} holds no {missing[0].rows} rows of bin {missing[0].bin}; {REMEDY}"
        )
    wanted = [where[one.bin, one.rows] for one in entries]
    batches: list[pa.RecordBatch] = []
    for raw in section_file.read(store, name, wanted, _KIND):
        with pa.ipc.open_stream(pa.py_buffer(raw)) as reader:
            if reader.schema != schema:
                raise CorruptState(
                    f"backlog file {store.path(name)} has columns {reader.schema.names}, and the stage sends "
                    f"{schema.names}; {REMEDY}"
                )
            batches += reader
    bins = np.repeat(np.array([one.bin for one in entries], np.int32), [one.rows for one in entries])
    return pa.concat_batches(batches), bins
