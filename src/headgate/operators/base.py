"""What an operator is.

An `Operator` is configuration that a user writes. `bind` checks it against the key and the schema and gives a
`BoundOperator`: the layout of its state and the compiled steps over one bin's rows. The law for an
implementer: what `update` does to a key depends on that key's state and its rows in order, and on nothing
else (not on the bin, the channel, or other keys). Then every routing gives the same answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

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


@dataclass
class Chunk:
    """Some rows of one channel: keys, the operator's input columns as lanes, and room for per-row results.

    With event time, `closed[r]` is the time up to which state was closed when row r arrived. Row r of a chunk has the number
    `serial + r`, larger than that of every row of its key before it.
    """

    rows: pa.RecordBatch
    keys: KeyColumn
    lanes: dict[str, LaneColumn]
    closed: NDArray[np.int64] = field(default_factory=lambda: NO_INTS)
    serial: int = 0
    results: dict[str, NDArray[Any]] = field(default_factory=dict)
    parts: list[Any] = field(default_factory=list)
    aside: list[tuple[NDArray[np.int64], str]] = field(default_factory=list)
    """Rows that the operator could not use, each lot with the reason: they are counted, and kept aside if that is asked."""

    def __len__(self) -> int:
        return len(self.keys)


class BoundOperator(ABC):
    """An operator that knows its types."""

    key: KeySpec
    layout: StateLayout
    inputs: tuple[str, ...]
    ordered: bool
    """Whether the order of a key's rows matters; if so the stage processes them in the order of the
    source."""
    reads_only: bool = False
    """Whether `update` only looks keys up; then none is inserted (`slots` has -1) and no delta is written."""
    output: pa.Schema
    resources: str = "CLL"
    """How a key's state, computation and communication grow with its frequency, one letter each: C constant, L linear, Q quadratic.

    As the paper derives them (section 3.1): a time window keeps linear state, a bounded one constant; comparing each row with a window
    of linear size costs quadratic computation, an update of bounded cost per row linear; each row is sent once, so communication
    is linear. Computation is per unit of time, not per row (PART-E1). Policies such as `rebuild` balance what is not constant.
    """

    event_time: EventTime | None = None
    """Where rows carry their time, if the operator goes by it. Rows without a time and late rows are put aside when they arrive."""
    probes: bool = True
    """Whether `update` is given the state row of each key; otherwise it finds rows itself (`slots` is empty), as an operator whose
    keys have parts must.
    """

    gathers: bool = False
    """Whether a channel's rows of a batch come in one chunk, though their order does not matter: where rows of a key are treated together,
    one large group costs less than several small ones.
    """

    answers_by_key: bool = False
    """Whether `key_output` has something to say."""

    builds: bool = False
    """Whether the state is a build side, which `builder` brings up to date."""

    whole: str = ""
    """Why a key's rows must stay together, in words; empty where `merge` can join the state of its pieces."""

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """JSON-ready identity: a checkpoint goes on only under an equal one."""

    @abstractmethod
    def lanes(self, rows: pa.RecordBatch) -> dict[str, LaneColumn]:
        """The input columns as compiled code wants them."""

    def begin(self, chunk: Chunk) -> None:
        """Prepare per-row results."""
        return None

    @abstractmethod
    def update(
        self, table: BinTable, slots: NDArray[np.int64], order: NDArray[np.int64], chunk: Chunk
    ) -> None:
        """Apply the chunk's rows `order` (all of one bin) to the state rows `slots`."""

    def merge(self, pieces: Extract) -> Extract:
        """One row for each key, its state that of all the rows that its pieces have seen between them."""
        raise NotImplementedError(self.whole)

    def builder(self, mode: Any) -> BoundOperator:
        """The operator that takes build rows into the state, which both share."""
        raise NotImplementedError(f"{type(self).__name__} has no build side")

    def row_output(self, chunk: Chunk) -> pa.RecordBatch | None:
        """Rows to emit for a chunk, if this operator answers row by row."""
        return None

    def late(self, times: NDArray[np.int64], closed: int) -> NDArray[np.bool_]:
        """Which of some event times come too late, once everything up to `closed` is closed."""
        return times <= closed

    def close(self, table: BinTable, now: int) -> pa.RecordBatch | None:
        """Due work in one bin at the batch's end: visit what is due by the watermark `now` (windows that close, state that expires),
        and give the rows to emit.

        It is called for bins whose `table.due` has come, whether the batch had rows for them or not, but not while rows wait for
        them. An operator lowers `table.due` in `update`, and `table.take_due` raises it again. Rows that it changes are to be
        marked (`table.mark`) or removed (`table.remove`).
        """
        return None

    def answering(self, table: BinTable) -> Rows:
        """The rows of a bin that `key_output` is given at the batch's end: those that the batch touched."""
        return table.touched

    def key_output(self, touched: Extract) -> pa.RecordBatch | None:
        """Rows to emit at the batch's end, if this operator answers by key."""
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
    """Type of an input column, or an error: it lists the columns there are, or says why this one cannot be carried."""
    index = schema.get_field_index(name)
    if index < 0:
        raise MissingColumn(
            f"{what} reads column {name!r}, but the stream has {', '.join(map(repr, schema.names))}"
        )
    check_carried(schema.field(index).type)
    return schema.field(index).type
