"""A real stage in this process, whose routing, chunks and sleeping bins the
test decides: for tests of laws.

The stage, its tasks, the commit, the files and the cache are the product's own;
only the engine is `InProcess`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headgate.control.view import LoadView
from headgate.operators.base import BoundOperator, Operator
from headgate.operators.event_time import Clock
from headgate.routing.table import Table
from headgate.stage import sinks
from headgate.stage.bin_reader import BinReader
from headgate.stage.flow_control import Flow, FlowControl
from headgate.stage.settings import Routing
from headgate.stage.stage import KeyedStage, compaction
from headgate.state.keys import KeySpec
from headgate.state.section import encode
from headgate.state.table import BinTable
from headgate.storage import state_file
from headgate.storage.manifest import Manifest
from headgate.storage.state_index import StateIndex
from headgate.testing.engine import InProcess

ENGINE: ContextVar[type[InProcess]] = ContextVar("engine", default=InProcess)
"""The engine of trials: that of a stage, or `InProcessDirect`, the one of direct streams."""
Section = tuple[int, int, bytes]


class Crash(BaseException):
    """Simulates the death of the driver."""


class Trial:
    """A stage with one operator. `batch` returns what the operator emits."""

    def __init__(
        self,
        operator: Operator | BoundOperator,
        key: str | Sequence[str] = (),
        *,
        distinct_hashes: int = 2**63,
        **options: Any,
    ) -> None:
        if isinstance(operator, BoundOperator):
            key, operator = operator.key.names, _Bound(operator)
        self.engine = ENGINE.get()(distinct_hashes=distinct_hashes)
        self._operator, self._key, self._options = operator, key, options
        self._checkpoint = f"{self.engine.folder}/checkpoint"
        self._snapshots: set[int] = set()
        self._asleep: Collection[int] = ()
        self._bins = 0
        self.output, self._aside = sinks.Memory(), sinks.Memory()
        self.batches = 0
        """The number of batches so far."""
        self.stage = self._new()

    def _new(self) -> KeyedStage[pa.Table]:
        stage = KeyedStage(
            self.engine,
            key=self._key,
            operator=self._operator,
            checkpoint=self._checkpoint,
            sink=self.output,
            aside=self._aside,
            routing=Routing(policy="static", channels=1, bins=self._bins or None),
            durable=False,
            **self._options,
        )
        stage.flow_control = _Sleep(self)
        stage.compaction = self._compaction
        return stage

    def _compaction(self, batch: int, state: StateIndex) -> tuple[list[int], int]:
        chosen, credit = compaction(batch, state)
        return [*chosen, *self._snapshots], credit

    def batch(
        self,
        rows: pa.RecordBatch | pa.Table,
        under: Table | None = None,
        *,
        chunks: Sequence[int] = (),
        snapshots: Iterable[int] = (),
        asleep: Collection[int] = (),
        crash: bool = False,
    ) -> pa.Table:
        """Process a batch under a table, with each channel's rows cut at the positions `chunks`,
        and write the bins of `snapshots` whole.

        Rows of bins that are `asleep` wait until a batch in which their bin is awake. With `crash`
        the driver and all executors die before the commit, and another driver gets the batch again.
        """
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        self._snapshots |= set(snapshots)
        self.engine.chunks, self._asleep = chunks, asleep
        if under is not None and not self._bins:
            self._bins = under.hash_bins
            self.stage = self._new()
        if crash:
            self._crash(table, under)
        self._run(table, under)
        self.batches += 1
        self._snapshots.clear()
        return self.output.batches[self.batches - 1]

    def _run(self, rows: pa.Table, under: Table | None) -> None:
        if under is not None:
            self.stage.on_step = lambda step: self._route(under) if step == "open" else None
            if self.stage.opened is not None:
                self._route(under)
        self.stage.process(rows, self.batches, None)

    def _route(self, under: Table) -> None:
        opened = self.stage.opened
        assert opened is not None
        loop = opened.loop
        loop.table = replace(under, version=loop.table.version + 1, from_batch=self.batches)
        loop.view = loop.view.under(loop.table)

    def _crash(self, rows: pa.Table, under: Table | None) -> None:
        def die(step: str) -> None:
            if step == "open" and under is not None:
                self._route(under)
            if step == "decide":
                raise Crash

        if self.stage.opened is not None and under is not None:
            self._route(under)
        self.stage.on_step = die
        with suppress(Crash):
            self.stage.process(rows, self.batches, None)
        self.stage = self._new()
        self.forget()

    def snapshot(self, b: int) -> None:
        """Write a bin whole in the next batch."""
        self._snapshots.add(b)

    def forget(self) -> None:
        """Lose everything that the executors have cached, as if all of them had died."""
        self.engine.lose_memory()

    @property
    def operator(self) -> BoundOperator:
        """The operator, bound to its columns."""
        assert self.stage.opened is not None
        return self.stage.opened.operator

    @property
    def committed(self) -> Manifest:
        """What the last batch committed."""
        assert self.stage.opened is not None
        last = self.stage.opened.checkpoint.last
        assert last is not None
        return last

    @property
    def clock(self) -> Clock:
        """Event time before the next batch."""
        return self.committed.clock

    @property
    def aside(self) -> list[pa.Table]:
        """The rows of all batches that could not be used."""
        return [rows for rows in self._aside.batches.values() if rows.num_rows]

    @property
    def opened(self) -> list[tuple[int, int]]:
        """(channel, bin) of every table that the last batch opened."""
        return [(answer.channel, bin.bin) for answer in self.engine.answers for bin in answer.touched]

    @property
    def sections(self) -> Mapping[int, tuple[Section, ...]]:
        """For each bin the sections since its last snapshot, oldest first: kind, number of rows, bytes."""
        return {b: tuple(self._sections(b)) for b in self.committed.state.bases}

    def _sections(self, b: int) -> Iterable[Section]:
        layout = self.operator.layout
        for file in self.committed.state.chain(b):
            for _, kind, section in state_file.read(self.stage.store.child("state"), file.name, layout, {b}):
                written = layout.keys_only if kind == state_file.GONE else layout
                yield kind, len(section), b"".join(part.tobytes() for part in encode(section, written))

    def rebuilt(self, b: int) -> BinTable:
        """The table of a bin, read back from its files."""
        table = BinTable.create(self.operator.layout)
        BinReader(self.operator, self.committed.state, self.stage.store.child("state"), {}).read(b, table)
        return table

    def table(self, b: int) -> BinTable:
        """The table of a bin as its channel sees it: the cached one, or read back from its files."""
        opened = self.stage.opened
        assert opened is not None
        for cache in self.engine.caches:
            cached = cache.look(b, self.committed.state.heads.get(b, ""))
            if cached is not None:
                return cached
        return self.rebuilt(b)


class _Sleep(FlowControl):
    """Adds the bins that the test has put to sleep."""

    def __init__(self, trial: Trial) -> None:
        super().__init__()
        self._trial = trial

    def prepare(
        self,
        table: Table,
        view: LoadView,
        last: Manifest | None,
        later: Table | None = None,
        places: Sequence[str] = (),
    ) -> Flow:
        flow = super().prepare(table, view, last, later, places)
        asleep = frozenset(self._trial._asleep) & frozenset(table.bins)
        return replace(flow, asleep=flow.asleep | asleep)


class _Bound(Operator):
    """An operator that is bound already."""

    def __init__(self, operator: BoundOperator) -> None:
        self.operator = operator

    def bind(self, key: KeySpec, schema: pa.Schema) -> BoundOperator:
        return self.operator
