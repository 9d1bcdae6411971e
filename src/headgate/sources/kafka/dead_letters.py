"""Records that do not parse: tasks write them beside the checkpoint, and after the commit they
appear in the user's folder.

A file is named after its range, so that a range which is read twice writes the same file. In the
user's folder the name begins with the mark of the query, since several queries may share it. The
commit names the ranges of its batch (in the offset). When the query looks for the next batch, the
files of these ranges are shown, each once. Files of ranges that were planned and never committed
are removed. A driver knows only ranges that it has committed or that begin behind them, so one that
wakes up late removes nothing of its successor.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa

from headgate.errors import SourceFailed
from headgate.kafka_client import log
from headgate.sources.kafka.planning import Span
from headgate.sources.kafka.records import BAD
from headgate.sources.kafka.start import Partition
from headgate.storage.outside import unique
from headgate.storage.store import Store

STAGED, MARK = "bad", "bad.mark"
_SUFFIX = ".parquet"


class DeadLetters:
    """Where records that do not parse are written, and where they appear."""

    def __init__(self, folder: str) -> None:
        self.shown = Store(folder)
        self._staged: Store | None = None
        self._mark = ""

    def open(self, store: Store) -> None:
        """Get ready to show; `store` is the source's folder in the checkpoint."""
        self._staged = store.child(STAGED)
        self._staged.make("")
        self.shown.make("")
        store.write_once(MARK, unique().encode())
        self._mark = store.read(MARK).decode()

    def write(self, span: Span, tables: Sequence[pa.Table]) -> None:
        """In a task: keep the records of a range."""
        import pyarrow.parquet as pq

        assert self._staged is not None, "the driver opens the source before a task reads"
        sink = io.BytesIO()
        pq.write_table(pa.concat_tables(tables), sink)
        self._staged.replace(_name(span), sink.getvalue())

    def show(self, committed: Collection[Span], positions: Mapping[Partition, int]) -> int:
        """Show the records of ranges that are committed, and remove what never was. Return how many
        records there are.
        """
        import pyarrow.parquet as pq

        staged, count = self._staged, 0
        assert staged is not None, "the driver opens the source before it plans"
        wanted = {_name(span) for span in committed}
        for name in staged.names(""):
            span = _span(name)
            if span is None:
                continue
            if name in wanted:
                data = staged.read(name)
                count += pq.ParquetFile(io.BytesIO(data)).metadata.num_rows
                self.shown.write_once(f"{self._mark}-{name}", data)
            if name in wanted or span.first < positions.get((span.topic, span.partition), -1):
                with suppress(FileNotFoundError):
                    staged.remove(name)
        if count:
            log.warning("%d records did not parse; they are in %s", count, self.shown.path())
        return count

    def records(self) -> pa.Table:
        """The records that were shown, by topic, partition and offset."""
        import pyarrow.parquet as pq

        names = [name for name in self.shown.names("") if _span(name)]
        tables = [pq.read_table(io.BytesIO(self.shown.read(name))) for name in names]
        order = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
        return (pa.concat_tables(tables) if tables else BAD.empty_table()).sort_by(order)


def refused(span: Span, tables: Sequence[pa.Table]) -> SourceFailed:
    """The error for a record that does not parse, if it has no place to go."""
    first = next(_rows(tables))
    value = first["value"] or b""
    shown = value if len(value) <= 60 else value[:57] + b"..."
    return SourceFailed(
        f"the record at offset {first['offset']} of partition {span.partition} of {span.topic} {first['reason']}; its value is "
        f"{shown!r}. Nothing of the batch was committed. To put such records aside, start the query again with "
        "Kafka(..., bad='out/bad-records')"
    )


def _rows(tables: Sequence[pa.Table]) -> Iterator[dict[str, Any]]:
    for table in tables:
        yield from table.slice(0, 1).to_pylist()


def _name(span: Span) -> str:
    return f"{quote(span.topic, safe='')}-{span.partition}-{span.first}-{span.last}{_SUFFIX}"


def _span(name: str) -> Span | None:
    topic, *numbers = name.removesuffix(_SUFFIX).rsplit("-", 3)
    if not name.endswith(_SUFFIX) or len(numbers) != 3 or not all(number.isdecimal() for number in numbers):
        return None
    return Span(unquote(topic), *map(int, numbers))
