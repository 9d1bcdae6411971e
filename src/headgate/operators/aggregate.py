"""A running aggregate per key; each batch emits the keys that it updated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.errors import ConfigError
from headgate.operators.agg import Agg
from headgate.operators.base import BoundOperator, Chunk, Operator
from headgate.state.keys import KeySpec
from headgate.state.lanes import LaneColumn
from headgate.state.layout import StateLayout
from headgate.state.section import Extract, extract
from headgate.state.table import BinTable

if TYPE_CHECKING:
    from headgate.operators.combine import Combined


class Aggregate(Operator):
    """`groupBy(key).agg(...)` over the whole stream.

    Each batch emits one row for each key that it touched: the key columns, then the
    aggregates in the given order.

    >>> from headgate import agg
    >>> Aggregate(n=agg.count(), total=agg.sum("amount"))
    Aggregate(n=count(), total=sum('amount'))
    """

    def __init__(self, *unnamed: Agg, **aggregates: Agg) -> None:
        if unnamed:
            raise ConfigError(
                f"Aggregate({unnamed[0]!r}) has no name for its output; write Aggregate(n=agg.{unnamed[0]!r}) or another name"
            )
        self.aggregates = checked("Aggregate", aggregates)

    def __repr__(self) -> str:
        return f"Aggregate({', '.join(f'{n}={a!r}' for n, a in self.aggregates.items())})"

    def bind(self, key: KeySpec, schema: pa.Schema) -> BoundAggregate:
        """Check the aggregates against the stream's columns."""
        return BoundAggregate(self, key, schema)


def checked(operator: str, aggregates: Mapping[str, Agg]) -> dict[str, Agg]:
    """The aggregates that an operator was given, or an error that says how to write them."""
    if not aggregates:
        raise ConfigError(
            f"{operator}() has nothing to compute; name its output, as in {operator}(n=agg.count())"
        )
    for name, value in aggregates.items():
        if not isinstance(value, Agg):
            raise ConfigError(
                f"{name}={value!r} is not an aggregate; write {name}=agg.sum('column') or the like"
            )
    return dict(aggregates)


def emitted(key: KeySpec, fields: Iterable[tuple[str, pa.DataType]], what: str) -> pa.Schema:
    """The schema of the key's columns, then the operator's own; a duplicate name is refused."""
    columns = [*zip(key.names, key.types, strict=True), *fields]
    names = [name for name, _ in columns]
    twice = [name for name in names if names.count(name) > 1]
    if twice and twice[0] in key.names:
        raise ConfigError(
            f"output column {twice[0]!r} has the name of a key column; give the aggregate another name"
        )
    if twice:
        raise ConfigError(f"{what} would emit column {twice[0]!r} twice; rename it")
    return pa.schema([pa.field(name, kind) for name, kind in columns])


class AggregatingOperator(BoundOperator):
    """What operators that consist of accumulators share."""

    def __init__(self, aggregates: Mapping[str, Agg], key: KeySpec, schema: pa.Schema) -> None:
        self.key = key
        self.parts = [a.bind(name, schema) for name, a in aggregates.items()]
        self.inputs = tuple(dict.fromkeys(p.column for p in self.parts if p.column is not None))
        self.ordered = any(p.ordered for p in self.parts)
        self._types = {c: str(schema.field(c).type) for c in self.inputs}

    def lanes(self, rows: pa.RecordBatch) -> dict[str, LaneColumn]:
        lanes: dict[str, LaneColumn] = {}
        for part in self.parts:
            if part.column is not None and part.input not in lanes:
                lane = part.lane(rows)
                assert lane is not None
                lanes[part.input] = lane
        return lanes

    def update(
        self, table: BinTable, slots: NDArray[np.int64], order: NDArray[np.int64], chunk: Chunk
    ) -> None:
        self.accumulate(table, slots, order, chunk)

    def accumulate(
        self, table: BinTable, slots: NDArray[np.int64], order: NDArray[np.int64], chunk: Chunk
    ) -> None:
        """Apply the chunk's rows `order` to the accumulators of the state rows `slots`."""
        for part in self.parts:
            part.update(table, slots, order, chunk)

    def in_order(self, operator: str, aggregates: Mapping[str, Agg]) -> str:
        """Why a key cannot be split: which aggregates depend on the order of its rows; empty if none does."""
        names = ", ".join(f"{p.name}={aggregates[p.name]!r}" for p in self.parts if p.ordered)
        return (
            f"{operator} cannot split a key, because {names} depends on the order of its rows"
            if names
            else ""
        )

    def answers(self, rows: Extract) -> list[pa.Array]:
        """The aggregates of the given rows of state."""
        return [part.answer(rows) for part in self.parts]


class BoundAggregate(AggregatingOperator):
    """An aggregate bound to the key and schema of a stream."""

    resources = "CLL"  # a few accumulators per key, one update of each per row
    answers_by_key = True

    def __init__(self, config: Aggregate, key: KeySpec, schema: pa.Schema) -> None:
        super().__init__(config.aggregates, key, schema)
        self.config = config
        self.layout = StateLayout(key.is_fixed, tuple(c for part in self.parts for c in part.columns()))
        self.whole = self.in_order("Aggregate", config.aggregates)
        self.output = emitted(key, [(p.name, p.type) for p in self.parts], "Aggregate")

    def fingerprint(self) -> dict[str, Any]:
        return {"operator": repr(self.config), "inputs": self._types, "state": self.layout.fingerprint()}

    def merge(self, pieces: Extract) -> Extract:
        table = BinTable.create(self.layout)
        slots = table.probe(pieces.keys, np.arange(len(pieces)))
        for part in self.parts:
            part.merge(table, slots, pieces)
        return extract(table, table.live, whole=True)

    def combined(self) -> Combined | None:
        from headgate.operators.combine import CombinedAggregate

        return None if self.ordered else CombinedAggregate(self)

    def key_output(self, touched: Extract) -> pa.RecordBatch | None:
        arrays = [*self.key.decode(touched.keys), *self.answers(touched)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.output)
