"""What an operator is.

An `Operator` is configuration that a user writes. `bind` checks it against the key and the schema and
returns a `BoundOperator`: the layout of its state and the compiled updates of one bin's rows. The law for
an implementer: what `update` does to a key depends only on that key's state and its rows in order (not on
the bin, the channel, or other keys). Then every routing gives the same result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.errors import MissingColumn
from headgate.operators.event_time import EventTime
from headgate.state.keys import KeyColumn, KeySpec
from headgate.state.lanes import NO_INTS, LaneColumn
from headgate.state.layout import StateLayout
from headgate.state.payload import check_carried
from headgate.state.section import Extract, Rows
from headgate.state.table import BinTable

if TYPE_CHECKING:
    from headgate.operators.combine import Combined


@dataclass
class Chunk:
    """Rows of one channel: keys, the operator's input columns as lanes, and the results of each row.

    With event time, `closed[r]` is the time up to which state was closed when row r arrived. Row r of a
    chunk has the number `serial + r`, which is larger than the number of every earlier row of its key.
    """

    rows: pa.RecordBatch
    keys: KeyColumn
    lanes: dict[str, LaneColumn]
    closed: NDArray[np.int64] = field(default_factory=lambda: NO_INTS)
    serial: int = 0
    results: dict[str, NDArray[Any]] = field(default_factory=dict)
    parts: list[Any] = field(default_factory=list)
    groups: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = field(default_factory=list)
    """(a row of each key, how many it has), for operators that count the rows of keys themselves (`counts_rows`)."""
    aside: list[tuple[NDArray[np.int64], str]] = field(default_factory=list)
    """Rows that the operator could not use, with the reason: counted, and sent to the `aside` sink."""

    def __len__(self) -> int:
        return len(self.keys)


class BoundOperator(ABC):
    """An operator bound to the key and schema of a stream."""

    key: KeySpec
    layout: StateLayout
    inputs: tuple[str, ...]
    ordered: bool
    """Whether the order of a key's rows matters; if so the stage processes them in the source's order."""
    reads_only: bool = False
    """Whether `update` only reads state; then no key is inserted (`slots` may have -1) and no delta written."""
    output: pa.Schema
    resources: str = "CLL"
    """How a key's state, computation and communication grow with its frequency, in three letters.

    C is constant, L linear and Q quadratic.

    As derived in the paper (section 3.1): a window of time keeps linear state, a window of bounded size
    constant state. Comparing each row with a window of linear size costs quadratic computation; an
    update of bounded cost per row costs linear computation. Each row is sent once, so communication is
    linear. Computation is per unit of time, not per row (PART-E1). Policies such as `rebuild` balance
    the resources that are not constant.
    """

    event_time: EventTime | None = None
    """The event time of rows, if the operator uses it. Late rows and rows without one are put aside."""
    probes: bool = True
    """Whether `update` is given the state row of each key.

    Otherwise `slots` is empty and the operator finds the rows itself, as it must if keys have parts.
    """

    gathers: bool = False
    """Whether all rows of a channel in a batch should come in one chunk, even if their order does not matter.

    An operator that treats the rows of a key together handles one large group faster than several small ones.
    """

    counts_rows: bool = False
    """Whether `update` says in `chunk.groups` how many rows each key has.

    Otherwise the rows of a key are the touches of its state rows. That is wrong if a row touches several, or none.
    """

    answers_by_key: bool = False
    """Whether `key_output` emits rows."""

    builds: bool = False
    """Whether the state is a build side, which `builder` brings up to date."""

    whole: str = ""
    """Why a key's rows must stay on one channel; empty if `in_pieces` can spread them over several."""

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """JSON-ready identity: a checkpoint can only be continued by an operator with an equal one."""

    @abstractmethod
    def lanes(self, rows: pa.RecordBatch) -> dict[str, LaneColumn]:
        """The input columns in the form that compiled code takes."""

    def begin(self, chunk: Chunk) -> None:
        """Prepare per-row results."""
        return None

    @abstractmethod
    def update(
        self, table: BinTable, slots: NDArray[np.int64], order: NDArray[np.int64], chunk: Chunk
    ) -> None:
        """Apply the chunk's rows `order` (all of one bin) to the state rows `slots`."""

    def merge(self, pieces: Extract) -> Extract:
        """Merge rows of state of the same keys into one for each key.

        Only checkpoints from before a split key's state was in one place have such rows.
        """
        raise NotImplementedError(f"{type(self).__name__} never had several rows of state for one key")

    def combined(self) -> Combined | None:
        """This operator, if rows can be combined before they are sent: it takes what they are combined to."""
        return None

    def in_pieces(self) -> Combined | None:
        """This operator, taking what the channels of a split key make of its rows; None if a key must stay whole.

        If `ordered`, partial rows are rows themselves, so that they can be put in the source's order.
        """
        return self.combined()

    def builder(self, mode: Any) -> BoundOperator:
        """The operator that takes build rows into the state, which both share."""
        raise NotImplementedError(f"{type(self).__name__} has no build side")

    def row_output(self, chunk: Chunk) -> pa.RecordBatch | None:
        """Rows to emit for a chunk, if this operator emits row by row."""
        return None

    def late(self, times: NDArray[np.int64], closed: int) -> NDArray[np.bool_]:
        """Which of the event times are late, if everything up to `closed` is closed."""
        return times <= closed

    def close(self, table: BinTable, now: int) -> pa.RecordBatch | Extract | None:
        """Close what is due in one bin by the watermark `now` (windows, expired state); return rows to emit,
        or state rows for `key_output`, which is then called once for all bins.

        It is called at the end of a batch for each bin with `table.due <= now`, even if the batch had
        no rows for it, but not while rows of the bin wait. An operator lowers `table.due` in `update`,
        and `table.take_due` raises it again. State rows that it changes must be marked (`table.mark`)
        or removed (`table.remove`).
        """
        return None

    def answering(self, table: BinTable) -> Rows:
        """The state rows of a bin for `key_output` at the end of a batch: by default those it touched."""
        return table.touched

    def key_output(self, touched: Extract) -> pa.RecordBatch | None:
        """Rows to emit at the end of a batch, if this operator emits by key."""
        return None


class Operator(ABC):
    """Configuration of an operator, as a user writes it."""

    @abstractmethod
    def bind(self, key: KeySpec, schema: pa.Schema) -> BoundOperator:
        """Check this configuration against the data."""

    def build_side(self) -> Any:
        """Rows of a table that the stream is joined with, as the engine holds them; None for most operators."""
        return None

    def build_keys(self, key: tuple[str, ...]) -> tuple[str, ...]:
        """The build side's key columns, for a stage with this key."""
        return key

    def with_build_columns(self, columns: pa.Schema) -> Operator:
        """This operator, told the columns of its build side."""
        return self


def column_type(schema: pa.Schema, name: str, what: str) -> pa.DataType:
    """Type of an input column; an error lists the existing columns, or says why this one cannot be used."""
    index = schema.get_field_index(name)
    if index < 0:
        raise MissingColumn(
            f"{what} reads column {name!r}, but the stream has {', '.join(map(repr, schema.names))}"
        )
    check_carried(schema.field(index).type)
    return schema.field(index).type
