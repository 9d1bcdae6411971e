"""Rows that wait, on disk: what one channel deferred in one batch, a section per bin in Arrow's stream format."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from headgate.errors import CorruptState
from headgate.flow.backlog import Waiting
from headgate.spark import section_file
from headgate.spark.section_file import REMEDY
from headgate.spark.store import Store

_KIND = "backlog file"


def write(store: Store, name: str, rows: Mapping[int, list[pa.RecordBatch]]) -> list[Waiting]:
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
        added.append(Waiting(name, bin, count, sum(batch.nbytes for batch in batches)))
    section_file.write(store, name, {"rows": "arrow stream"}, sections)
    return added


def read(store: Store, entry: Waiting, schema: pa.Schema) -> list[pa.RecordBatch]:
    """The rows of an entry, in order."""
    _, sections = section_file.contents(store, entry.file, _KIND)
    for section in sections:
        if section.labels == (entry.bin, entry.rows):
            raw = section_file.read(store, entry.file, section, _KIND, f"bin {entry.bin}")
            with pa.ipc.open_stream(pa.py_buffer(raw)) as reader:
                if reader.schema != schema:
                    raise CorruptState(
                        f"backlog file {store.path(entry.file)} has columns {reader.schema.names}, and the stage sends "
                        f"{schema.names}; {REMEDY}"
                    )
                return list(reader)
    raise CorruptState(
        f"backlog file {store.path(entry.file)} holds no {entry.rows} rows of bin {entry.bin}; {REMEDY}"
    )
