"""The map side of a direct batch: reads ranges, applies steps, judges, combines, routes and packs.

Whatever a row becomes depends on the row, its range and the table alone, so a task that runs again
sends the same blobs.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.errors import HeadgateError, SourceFailed
from headgate.flow.backlog import Backlog, BacklogEntry
from headgate.operators.arrival import Arrival, arrived_schema
from headgate.operators.base import BoundOperator
from headgate.operators.combine import Combined
from headgate.operators.event_time import Clock
from headgate.routing.column_hash import hash_columns, key_hashes, normalised
from headgate.routing.table import Table
from headgate.stage.parcel import Parcel
from headgate.stage.routed_rows import HASH, routed_schema, ships_hash
from headgate.state.conform import conform
from headgate.state.kernels import sort_by_bin
from headgate.state.lanes import ints
from headgate.state.payload import Payload, plain_type
from headgate.streams.held_rows import HeldRows
from headgate.streams.planned import Input, InputRange

NOTHING_HELD = HeldRows()
_HEADER = struct.Struct("<qq")
"""The number of the range and the length of the JSON that follows."""


def original_of(operator: BoundOperator) -> BoundOperator:
    """The operator that reads the rows themselves."""
    return operator.original if isinstance(operator, Combined) else operator


def read_schema(operator: BoundOperator, columns: pa.Schema) -> pa.Schema:
    """The columns that a map task must have of each row."""
    return routed_schema(original_of(operator), columns, hashed=False, in_order=True)


def sent_schema(operator: BoundOperator, columns: pa.Schema, *, hashed: bool | None = None) -> pa.Schema:
    """The columns that a channel receives, given those of the stream. Rows come with their hash where a
    channel cannot compute it again as cheaply, or if `hashed` says so.
    """
    read = read_schema(operator, columns)
    sent = operator.partial_schema(read) if isinstance(operator, Combined) else read
    wanted = ships_hash(operator.key) if hashed is None else hashed
    return sent.append(pa.field(HASH, pa.int64())) if wanted else sent


@dataclass(frozen=True)
class MapTask:
    """What every map task of a batch does. It is pickled and sent to the tasks."""

    inputs: tuple[Input, ...]
    columns: pa.Schema
    """The columns after the steps, as far as the operator knows them."""
    operator: BoundOperator
    sent: pa.Schema
    """The columns that a channel receives, before it is said that they have arrived."""
    table: Table
    clock: Clock
    holds: HeldRows = NOTHING_HELD

    @cached_property
    def _reads(self) -> pa.Schema:
        return read_schema(self.operator, self.columns)

    @cached_property
    def _arrives(self) -> pa.Schema:
        return arrived_schema(self.operator, self.sent)

    def run(self, ranges: Iterable[tuple[int, InputRange]], attempt: str = "") -> Iterator[tuple[int, bytes]]:
        """The blobs of some ranges, each with its channel. `attempt` is a name that no other attempt has."""
        for number, part in ranges:
            try:
                for channel, parcel in self._parcels(number, part, attempt=attempt):
                    yield channel, packed_parcel(number, parcel)
            except HeadgateError as error:  # sent as data, so that the driver raises the same error
                yield 0, packed(number, {"error": type(error).__name__, "message": str(error)}, [])

    def parcels(self, ranges: Iterable[InputRange], channel: int) -> Iterator[Parcel]:
        """What one channel gets of some ranges, read by its own task: the same as `run` would send it."""
        for number, part in enumerate(ranges):
            yield from (parcel for _, parcel in self._parcels(number, part, only=channel))

    def _read(self, part: InputRange) -> pa.RecordBatch:
        """The rows of a range after all steps, with the columns that are routed."""
        chosen = self.inputs[part.input]
        source = chosen.source.schema()
        try:
            batches = list(chosen.source.read(part.what))
            rows = pa.Table.from_batches(batches) if batches else source.empty_table()
        except HeadgateError:
            raise
        except Exception as error:
            raise SourceFailed(
                f"{chosen.source!r} could not read {part.what!r}: {type(error).__name__}: {error}. Nothing of the batch was "
                "committed: repair the source and start the query again"
            ) from error
        for field in rows.schema if rows.schema != source else ():
            at = source.get_field_index(field.name)
            if at >= 0 and plain_type(source.field(at).type) != plain_type(field.type):
                raise SourceFailed(
                    f"{chosen.source!r} gave column {field.name!r} as {field.type}, and its schema says {source.field(at).type}: it must "
                    "yield exactly these types"
                )
        for step in chosen.steps:
            rows = step.apply(rows)
        schema = self._reads
        names = schema.names
        missing = [name for name in names if name not in rows.column_names]
        if missing:
            raise SourceFailed(
                f"{chosen.source!r} gave rows without the column {missing[0]!r}, which its schema has; it must yield "
                f"{', '.join(source.names)}"
            )
        arrays = [_single(rows.column(name)) for name in names]
        return conform(pa.RecordBatch.from_arrays(arrays, names), schema)

    def _parcels(
        self, number: int, part: InputRange, only: int | None = None, attempt: str = ""
    ) -> Iterator[tuple[int, Parcel]]:
        """The parcels of a range, each with its channel, or those for one channel alone, who holds its rows itself."""
        rows = self._read(part)
        came, operator, table = rows.num_rows, self.operator, self.table
        for at, (name, kind) in enumerate(zip(operator.key.names, operator.key.types, strict=True)):
            if pa.types.is_floating(kind):
                rows = rows.set_column(at, name, normalised(rows.column(at)))
        arrival = Arrival(original_of(operator), self.clock)
        rows = arrival.admit(rows)
        hashes = self.hashes(rows)
        spread = None
        if isinstance(operator, Combined):
            rows, hashes = operator.partial(rows, hashes)
            spread = np.full(len(hashes), number, np.int64)
        elif table.splits:
            spread = _spread(rows, number)
        channels = table.channel_of_hash(hashes, spread)
        sent = self._sent(rows, hashes)
        waiting: dict[int, list[BacklogEntry]] = {}
        if self.holds.bins and only is None and len(hashes):
            held, entries = self.holds.put(sent, table.bin_of_hash(hashes), number, attempt)
            for entry in entries:
                waiting.setdefault(table.channel_of[entry.bin], []).append(entry)
            if entries:
                sent, channels = sent.filter(pa.array(~held)), channels[~held]
        # What is known about all rows goes to the first channel that has one, once.
        first = int(channels.min()) if len(channels) else 0
        aside = [batch for batch in arrival.aside if batch.num_rows]
        known = (came, arrival.seen(), pa.concat_batches(aside) if aside else None)
        for channel, mine in _by_channel(sent, channels, table.channels, only):
            if mine.num_rows or channel == first or channel in waiting:
                came, seen, put_aside = known if channel == first else (0, NOTHING_SEEN, None)
                held_rows = tuple(waiting.get(channel, ()))
                yield channel, Parcel(mine, came, seen, put_aside, number, held_rows)

    def hashes(self, rows: pa.RecordBatch) -> NDArray[np.int64]:
        """The hash of each row's key."""
        return key_hashes(rows, self.operator.key)

    def _sent(self, rows: pa.RecordBatch, hashes: NDArray[np.int64]) -> pa.RecordBatch:
        """The columns that a channel receives."""
        schema = self._arrives
        arrays = [ints(hashes) if name == HASH else rows.column(name) for name in schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _spread(rows: pa.RecordBatch, number: int) -> NDArray[np.int64]:
    """A hash of each whole row, which picks the piece of a split key."""
    plain = [
        column
        for column, field in zip(rows.columns, rows.schema, strict=True)
        if not isinstance(field.type, Payload) and not pa.types.is_null(field.type)
    ]
    return (
        hash_columns(plain, [column.type for column in plain])
        if plain
        else np.full(rows.num_rows, number, np.int64)
    )


def _by_channel(
    rows: pa.RecordBatch, channels: NDArray[np.int32], count: int, only: int | None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each channel, in order."""
    if count == 1:
        yield 0, rows
    elif only is not None:
        yield only, rows.filter(pa.array(channels == only))
    else:
        order, starts = sort_by_bin(channels, count)
        if np.any(channels[1:] < channels[:-1]):
            rows = rows.take(ints(order))
        for channel in range(count):
            yield channel, rows.slice(starts[channel], starts[channel + 1] - starts[channel])


def _single(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


# -- blobs


NOTHING_SEEN: dict[str, Any] = {"spans": {}, "aside": {}}


def packed_parcel(number: int, parcel: Parcel) -> bytes:
    """A parcel as a blob."""
    header: dict[str, Any] = {"came": parcel.came, "seen": parcel.seen}
    if parcel.waiting:
        header["waiting"] = Backlog(parcel.waiting).to_json()
    return packed(number, header, [parcel.rows, *([] if parcel.aside is None else [parcel.aside])])


def packed(number: int, header: dict[str, Any], batches: Sequence[pa.RecordBatch]) -> bytes:
    """A blob: the number of its range, a header, and batches in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    text = json.dumps({**header, "batches": len(batches)}).encode()
    sink.write(_HEADER.pack(number, len(text)))
    sink.write(text)
    for batch in batches:
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
    return bytes(sink.getvalue())


def unpacked(blobs: Iterable[bytes]) -> Iterator[Parcel]:
    """The parcels of a channel in the order of the source, however the blobs arrived. An error that a
    map task sent is raised here.
    """
    from headgate import errors

    for blob in sorted(blobs, key=lambda blob: _HEADER.unpack_from(blob)[0]):
        number, length = _HEADER.unpack_from(blob)
        header = json.loads(bytes(blob[_HEADER.size : _HEADER.size + length]))
        if "error" in header:
            raise getattr(errors, header["error"])(header["message"])
        source = pa.BufferReader(pa.py_buffer(blob))
        source.seek(_HEADER.size + length)
        batches = [next(iter([*pa.ipc.open_stream(source)])) for _ in range(header["batches"])]
        aside = pa.concat_batches(batches[1:]) if len(batches) > 1 else None
        waiting = Backlog.from_json(header.get("waiting", ())).entries
        yield Parcel(batches[0], header["came"], header["seen"], aside, number, waiting)
