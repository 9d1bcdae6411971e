"""The gates of a stage in this process: staged rows are one Parquet file, and work ahead is done at once."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from headgate.flow.fan_out import FanOut
from headgate.flow.gated_ranges import RangeWave, unfinished
from headgate.flow.lazy_rows import Draw, batch_of
from headgate.flow.row_ranges import RowRange
from headgate.stage.routed_rows import ORDER
from headgate.stage.settings import Expansion
from headgate.stage.waves import Ahead
from headgate.storage.store import Store

_ROWS, _ABOUT = "rows.parquet", "headgate"


@dataclass(frozen=True)
class InProcessStaged:
    """Staged rows (`headgate.stage.waves.Staged`)."""

    table: pa.Table
    depth: int
    fan_out: FanOut | None

    @property
    def ends(self) -> NDArray[np.int64]:
        """The position after each row."""
        return np.cumsum(_widths(self.table, self.fan_out))

    @property
    def lengths(self) -> Sequence[int]:
        """The number of positions of the one file."""
        return [int(self.ends[-1])] if self.table.num_rows else []

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.table.num_rows)

    def check(self, ranges: Sequence[RowRange]) -> None:
        """Nothing can change here."""

    def take(
        self, wave: RangeWave, gate: Expansion, name: str, *, in_order: bool
    ) -> tuple[pa.Table, Callable[[], list[RowRange]]]:
        """The rows of a wave."""
        if gate.explode is None:
            return pa.concat_tables([self._part(piece) for piece in wave.ranges]), list
        places: dict[RowRange, tuple[int, int]] = {}
        parts = [gate.schema.empty_table()]
        for piece in wave.ranges:
            rows = self.table.slice(piece.start, len(piece)).to_pylist()
            draw = Draw(gate.explode, f"{name}/{self.depth}", budget=wave.budget, made=piece.made)
            numbered = ((piece.file, piece.start + at, row) for at, row in enumerate(rows))
            parts += [pa.Table.from_batches([batch_of(some, gate.schema)]) for some in draw(numbered)]
            assert draw.place is not None
            places[piece] = draw.place
        return pa.concat_tables(parts), lambda: unfinished(wave.ranges, places.__getitem__)

    def _part(self, piece: RowRange) -> pa.Table:
        ends = self.ends
        begins = ends - _widths(self.table, self.fan_out)
        if self.fan_out is None or not self.fan_out.splits:  # a row belongs to the wave in which it begins
            chosen = np.flatnonzero((begins >= piece.start) & (begins < piece.stop))
            return self.table.take(pa.array(chosen))
        chosen = np.flatnonzero((begins < piece.stop) & (ends > piece.start))
        first = np.maximum(0, piece.start - begins[chosen])
        last = np.minimum(ends[chosen], piece.stop) - begins[chosen]
        return _with_outputs(self.table.take(pa.array(chosen)), self.fan_out, first, last)


class InProcessWaves:
    """What waves need from this process (`headgate.stage.waves.WaveEngine`)."""

    spread = 1

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now

    def none(self, rows: pa.Table) -> pa.Table:
        """No rows, with the same columns."""
        return rows.schema.empty_table()

    def whole(self, rows: pa.Table, gate: Expansion) -> pa.Table:
        """The rows as the step of a gate gets them if all are let through."""
        if gate.explode is not None:
            drawn = [made for row in rows.to_pylist() for made in gate.explode(row)]
            return (
                pa.Table.from_batches([batch_of(drawn, gate.schema)]) if drawn else gate.schema.empty_table()
            )
        fan_out = FanOut.of(gate.fan_out)
        if fan_out is None or not fan_out.splits:
            return rows
        widths = _widths(rows, fan_out)
        return _with_outputs(rows, fan_out, np.zeros_like(widths), widths)

    def stage(
        self, rows: pa.Table, store: Store, depth: int, fan_out: FanOut | None, *, plain: bool
    ) -> InProcessStaged:
        """Write rows. Those that become nothing are left out."""
        if plain:
            rows = rows.append_column(ORDER, pa.array(np.arange(rows.num_rows)))
        if fan_out is not None:
            rows = rows.filter(pa.array(_widths(rows, fan_out) > 0))
        store.make("")
        about = json.dumps({"depth": depth, "fan_out": None if fan_out is None else astuple(fan_out)})
        write_table(store, _ROWS, rows.replace_schema_metadata({_ABOUT: about}))
        return InProcessStaged(rows, depth, fan_out)

    def staged(self, rows: pa.Table, store: Store) -> InProcessStaged:
        """Read what `stage` wrote."""
        table = read_table(store, _ROWS)
        about = json.loads(table.schema.metadata[_ABOUT.encode()])
        fan_out = FanOut(*about["fan_out"]) if about["fan_out"] else None
        return InProcessStaged(table.replace_schema_metadata(None), about["depth"], fan_out)

    def keep(self, rows: pa.Table, store: Store, *, in_order: bool) -> pa.Table:
        """The rows themselves: nothing is computed later."""
        return rows

    @contextmanager
    def ahead(self, threads: int) -> Iterator[Ahead]:
        """Work is done at once."""

        def done(work):  # type: ignore[no-untyped-def]
            result = work()
            return lambda: result

        yield done


def _widths(rows: pa.Table, fan_out: FanOut | None) -> NDArray[np.int64]:
    """How many positions each row has."""
    if fan_out is None:
        return np.ones(rows.num_rows, np.int64)
    return np.asarray(rows.column(fan_out.column).to_numpy(), np.int64)


def _with_outputs(rows: pa.Table, fan_out: FanOut, first: object, last: object) -> pa.Table:
    return rows.append_column(fan_out.first, pa.array(first)).append_column(fan_out.last, pa.array(last))


def write_table(store: Store, name: str, rows: pa.Table) -> None:
    """Write a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    store.write(name, [sink.getvalue()])


def read_table(store: Store, name: str) -> pa.Table:
    """Read a Parquet file."""
    return pq.ParquetFile(io.BytesIO(store.read(name))).read()
