"""Rows on their way to the servers that want them, in Arrow: what a task that reads ranges sends, and what a server's
task receives.

Law: a server gets each row of the sources that it reads once, whichever task reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True)
class Sender:
    """Reads the rows of a task (`reads`, by its number), and sends each to the servers that host its source."""

    reads: Sequence[Callable[[], Iterator[pa.RecordBatch]]]
    wanted: NDArray[np.bool_]
    """By server and source number."""
    schema: pa.Schema
    """The columns that servers get. Those that the rows lack are null."""

    @classmethod
    def of(
        cls,
        reads: Sequence[Callable[[], Iterator[pa.RecordBatch]]],
        servers_of_source: Sequence[Sequence[int]],
        servers: int,
        schema: pa.Schema,
    ) -> Sender:
        """A sender, given the servers of each source."""
        wanted = np.zeros((servers, len(servers_of_source)), bool)
        for source, some in enumerate(servers_of_source):
            wanted[list(some), source] = True
        return cls(reads, wanted, schema)

    def sent(self, number: int) -> Iterator[tuple[int, bytes]]:
        """What a task sends: a server, and rows in Arrow's stream format. Rows of a source that was added after this batch
        began are for nobody.
        """
        for rows in self.reads[number]() if self.reads else ():
            table = self._fitted(rows)
            source = table.column("source").to_numpy()
            known = source < self.wanted.shape[1]
            for server, wants in enumerate(self.wanted):
                mine = known & wants[np.where(known, source, 0)] if len(wants) else known
                if mine.any():
                    yield server, packed(table if mine.all() else table.filter(pa.array(mine)))

    def _fitted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        has = set(rows.schema.names)
        columns = [
            rows.column(f.name).cast(f.type) if f.name in has else pa.nulls(rows.num_rows, f.type)
            for f in self.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def packed(rows: pa.RecordBatch) -> bytes:
    """Rows in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return bytes(sink.getvalue())


def received(blobs: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    """The rows of what was sent."""
    for blob in blobs:
        yield from pa.ipc.open_stream(pa.py_buffer(blob))
