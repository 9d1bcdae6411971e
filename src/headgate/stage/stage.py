"""A stage: a keyed operator on a stream, under headgate's routing. This module knows no engine.

A source delivers rows in batches (`process`). Each batch is computed once: if it is committed
already, it is only published again. With a gate a batch is cut into waves, and each wave is
committed by itself. `Batch` has the steps of one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic

from headgate import logs
from headgate.control.guard import Guard
from headgate.control.loop import Decision, Loop
from headgate.control.modes import Mode
from headgate.control.policy import Policy
from headgate.control.report import BatchReport
from headgate.errors import BatchOrder, CheckpointError, CheckpointMismatch, Superseded
from headgate.flow.gate import AUTO_SIZED
from headgate.operators.arrival import aside_schema
from headgate.operators.base import Operator
from headgate.operators.event_time import Clock
from headgate.policies import get as get_policy
from headgate.stage import build_side, sinks
from headgate.stage.batch import Batch, publish
from headgate.stage.completion import Completed, checked_hook
from headgate.stage.controls import StageControls
from headgate.stage.engine import Engine, Rows
from headgate.stage.facts import BatchFacts
from headgate.stage.flow_control import FlowControl
from headgate.stage.opened import Opened, restored_loop
from headgate.stage.settings import (
    Expansion,
    Limits,
    Routing,
    checked,
    checked_key,
    checked_operator,
    gates_of,
    whole_number,
)
from headgate.stage.shaping import Shaping
from headgate.state.compaction import bins_to_snapshot
from headgate.state.keys import KeySpec
from headgate.storage.checkpoint import Checkpoint, check_order, check_origin, last_manifest
from headgate.storage.manifest import Delivery, Manifest, staging_folder
from headgate.storage.parquet_folder import ASIDE, Owner
from headgate.storage.state_index import StateIndex
from headgate.storage.store import Store

log = logs.logger("headgate.stage")


def compaction(batch: int, state: StateIndex) -> tuple[list[int], int]:
    """The bins to write whole in a batch, and the credit that is left."""
    return bins_to_snapshot(batch, state.bases, state.sizes, state.credit, limit=2 * state.earned)


class KeyedStage(StageControls, Generic[Rows]):
    """A stateful operator whose keys are placed by policy, on any engine."""

    def __init__(
        self,
        engine: Engine[Rows],
        *,
        key: str | Sequence[str],
        operator: Operator,
        checkpoint: str,
        sink: sinks.Sink | Callable[[Any, int], None] | None = None,
        aside: sinks.Sink | Callable[[Any, int], None] | None = None,
        routing: Routing | str | Policy | None = None,
        limits: Limits | None = None,
        expansion: Expansion | Sequence[Expansion] | None = None,
        first_batch: int | None = None,
        continues: str | None = None,
        durable: bool = True,
        shaping: Shaping | None = None,
        on_complete: Callable[[Completed], None] | None = None,
    ) -> None:
        self.engine, self.key, self.operator = engine, checked_key(key), checked_operator(operator)
        self.routing = Routing() if routing is None else Routing.of(routing)
        self.channels, self.bins = self.routing.channels, self.routing.number_of_bins
        self._policy, self.guard = get_policy(self.routing.policy), self.routing.guard or Guard()
        self.mode = Mode.parse(self.routing.mode)
        self.flow_control = FlowControl(checked(limits, Limits, "limits"))
        if first_batch is not None:
            whole_number(first_batch, "first_batch", least=0)
        self._first, self._continues, self.shaping = first_batch, continues, shaping
        self.on_complete = checked_hook(on_complete)
        self.store = Store(checkpoint, durable=durable)
        self.sink = sinks.as_sink(sink) if sink is not None else sinks.Nowhere()
        self.staged_output = self.sink.output_store(self.store)
        self.aside = None if aside is None else sinks.as_sink(aside)
        self.staged_aside = None if self.aside is None else self.aside.output_store(self.store.child("aside"))
        self._step, gates = gates_of(expansion)
        self._waves = engine.waves(gates, self.store.child("waves")) if gates else None
        self.on_step: Callable[[str], None] = lambda step: None
        """Called with the name of each step after it is done (`batch.Batch`),
        and with `open` before the first.
        """
        self.number: int | None = None
        """Its number in a query of several stages."""
        self.watchers: list[Callable[[BatchFacts], None]] = []
        """Called after each batch with what it did."""
        self.compaction = compaction
        self.opened: Opened | None = None
        """What the first batch has fixed; None before it, and after an error."""
        self._next_policy: Policy | None = None
        """One that was assigned, until the next batch begins."""
        self._asked: int | None = None
        self._last: tuple[BatchReport, Decision] | None = None
        self._clock: Clock | None = None
        self.task_requests = 0
        """Requests that tasks have sent to object stores so far."""

    def __repr__(self) -> str:
        return f"Stage(key={list(self.key)}, operator={self.operator!r})"

    @property
    def staged(self) -> list[Store]:
        """Where tasks put output files before the commit."""
        return [store for store in (self.staged_output, self.staged_aside) if store is not None]

    # -- rows in

    def process(self, rows: Rows, batch: int, origin: str | None, offsets: Any = None) -> None:
        """Process one batch from `origin`: a streaming query, or the previous stage of a pipeline.
        `offsets` are committed with it: where the sources of a direct stream stand after it.
        """
        self.sink.check()
        opened = self._open(rows, batch, origin)
        last = opened.checkpoint.last
        again = last is not None and last.delivery.is_of(origin, batch)
        if last is not None and last.complete and not again:
            raise BatchOrder(
                f"the input of {self.store.path()} was said to be complete (finish), but batch {batch} is delivered: all its "
                "rows would be late. If the stream goes on, give the stage a new checkpoint, and call drain() instead of finish()"
            )
        with self._guarded(opened):
            if last is not None and again:
                self._check_rows(rows, last.delivery)
            self._deliver(rows, batch, origin, opened, offsets)

    def resume(self, nothing: Rows, origin: str | None) -> Manifest | None:
        """Open the stage before its first batch: check everything, claim the checkpoint, publish the last
        committed batch again and finish what is left of it. Return what is committed then.

        `nothing` is an empty set of rows. Nobody delivers a batch again, so a driver that follows
        another does this once.
        """
        self.sink.check()
        opened = self._open(nothing, None, origin)
        if opened.checkpoint.last is not None:
            with self._guarded(opened):
                self._deliver(nothing, opened.checkpoint.last.delivery.number, origin, opened)
        return opened.checkpoint.last

    def _deliver(
        self, rows: Rows, batch: int, origin: str | None, opened: Opened, offsets: Any = None
    ) -> None:
        """Finish an earlier batch if necessary, then process this one."""
        last, fresh = opened.checkpoint.last, opened.fresh
        opened.fresh = False
        again = last is not None and last.delivery.is_of(origin, batch)
        # Nobody delivers a batch again that the stage added itself, so a new driver
        # cannot know that it was published.
        if last is not None and (again or last.delivery.origin != origin or (fresh and last.delivery.extra)):
            log.info("batch %d was committed before; publishing it again", last.batch)
            publish(self, opened, last, again=True)
            self.on_step("publish")
            if last.delivery.rest:
                self._process_waves(rows, last.delivery, opened, resumes=True)
        if not again:
            delivery = Delivery(number=batch, origin=origin, offsets=offsets)
            if self._waves is None:
                Batch(self, opened, self._expanded(rows), delivery).run()
            else:
                self._process_waves(rows, delivery, opened, resumes=False)

    def _process_waves(self, rows: Rows, delivery: Delivery, opened: Opened, *, resumes: bool) -> None:
        """Process a batch in waves; with `resumes`, the rest of a batch whose first waves are committed."""
        waves = self._waves or self.engine.waves(
            [Expansion(step=self._step, gate=AUTO_SIZED)], self.store.child("waves")
        )
        checkpoint, before = opened.checkpoint, opened.checkpoint.last
        folder = delivery.rest_in if resumes else staging_folder(delivery.number, checkpoint.run)
        rest = delivery.rest if resumes else None
        source, ordered = self._stepped(rows), opened.operator.ordered
        for wave in waves.of(source, folder, rest, ordered=ordered, run=checkpoint.run):
            part = Delivery(
                number=delivery.number,
                origin=delivery.origin,
                rest=wave.rest,
                rest_in=folder,
                rows_at_gate=wave.rows_at_gate,
                offsets=delivery.offsets,
            )
            Batch(self, opened, wave.rows, part).run()
        waves.forget(folder, checkpoint.log.is_older)
        if checkpoint.last is before:  # the batch has no row
            Batch(self, opened, self._expanded(rows), delivery).run()

    def _stepped(self, rows: Rows) -> Rows:
        """The rows after the step that stands before all gates."""
        return rows if self._step is None else self._step(rows)

    def _expanded(self, rows: Rows) -> Rows:
        """The rows that the operator gets, all at once."""
        return self._stepped(rows) if self._waves is None else self._waves.whole(self._stepped(rows))

    def _check_rows(self, rows: Rows, delivery: Delivery) -> None:
        """Refuse a redelivered batch with another number of rows: its new rows would be lost."""
        gated = delivery.rows_at_gate is not None
        wanted = delivery.rows_at_gate if gated else delivery.rows
        count = self.engine.count(self._stepped(rows) if gated else self._expanded(rows))
        if count is not None and count != wanted:
            raise BatchOrder(
                f"Spark delivers batch {delivery.number} again with {count} rows, but {wanted} were committed for it in "
                f"{self.store.path()}: Spark's checkpoint is older than the stage's, or the source has changed. Use the Spark checkpoint "
                "that belongs to it, or start both anew. (A query that samples rows at random is not repeatable; give it a seed)"
            )

    def drain(self) -> None:
        """Emit what the watermark allows, and process all waiting rows. Call it when a query has
        ended, for example with `availableNow`.

        A stage closes windows at the end of the batch *after* the one whose rows moved the watermark, and
        rows may wait in the backlog. At the end of the input both wait for a batch that does not come.
        Native Spark adds a batch without rows in this case, and so does this method.
        """
        self._end(complete=False)

    def finish(self) -> None:
        """Declare the input complete: close and emit everything that is open (windows, sessions, rows that
        wait for a match), and fire each timer once. The checkpoint accepts no batch after that.
        """
        self._end(complete=True)

    def _end(self, *, complete: bool) -> None:
        last = self.opened.checkpoint.last if self.opened else last_manifest(self.store)
        if last is None:
            return  # there was no batch
        nothing, delivery = self.engine.nothing(last.delivery.columns), last.delivery
        opened = self._open(nothing, None, delivery.origin)
        with self._guarded(opened):
            if opened.fresh and opened.checkpoint.last is not None:
                self._deliver(nothing, opened.checkpoint.last.delivery.number, delivery.origin, opened)
            self._settle(nothing, opened)
            last = opened.checkpoint.last
            if complete and last is not None and not last.complete:
                self._extra(nothing, opened, last, complete=True)
                self._settle(nothing, opened)

    def _settle(self, nothing: Rows, opened: Opened) -> None:
        """Run batches without rows until no row waits and nothing is due."""
        idle, before = 0, (-1, -1)
        while (last := opened.checkpoint.last) is not None and any(now := last.unsettled()):
            idle, before = (idle + 1 if now == before else 0), now
            if idle > 2 * len(opened.loop.table.bins):
                raise CheckpointError(
                    f"{now[0]} rows wait and {now[1]} bins are due in {self.store.path()}, but none of them was processed in {idle} "
                    "batches: give the stage more memory"
                )
            self._extra(nothing, opened, last)

    def _extra(self, nothing: Rows, opened: Opened, last: Manifest, *, complete: bool = False) -> None:
        """Run a batch without rows that the stage adds itself."""
        was = last.delivery
        delivery = Delivery(number=was.number, origin=was.origin, offsets=was.offsets, extra=True)
        Batch(self, opened, self._expanded(nothing), delivery, complete=complete).run()

    # -- opening

    def _open(self, rows: Rows, batch: int | None, origin: str | None) -> Opened:
        """Check rows, operator and sinks against the checkpoint, then claim it for this driver. `batch` is
        the one that is delivered; None if none is.
        """
        columns = self.engine.columns(self._expanded(rows), self.key)
        if self.opened is not None:
            self.opened.check(columns)
            self._check(self.opened.checkpoint.last, batch, origin)
            if self._next_policy is not None:
                self._change_policy(self.opened, self._next_policy)
            return self.opened
        spec = KeySpec(self.key, tuple(columns.field(n).type for n in self.key))
        self.flow_control.set_deadlines(lambda keys: self.engine.hashes(keys, spec), spec)
        config, build = self.operator, self.operator.build_side()
        if build is not None:
            config = config.with_build_columns(self.engine.columns(build, config.build_keys(self.key)))
        bound = config.bind(spec, columns)
        operator = self.engine.prepared(bound)
        self._policy = self._policy.fitted(operator.resources, whole=operator.whole)
        self._next_policy = None
        routed = self.engine.routed(operator, columns, rows)
        output = self.engine.emitted(operator.output if self.shaping is None else self.shaping.schema)
        aside = self.engine.emitted(aside_schema(bound, columns))
        self.sink.check_columns(output)
        if self.aside is not None:
            self.aside.check_columns(aside)
        identity = {
            "key": [[n, str(t)] for n, t in zip(spec.names, spec.types, strict=True)],
            "bins": self.bins,
            **operator.fingerprint(),
        }
        adopt = frozenset(["bins"]) if self.routing.bins is None else frozenset[str]()
        checkpoint = Checkpoint(self.store, identity, adopt=adopt, staged=self.staged)
        # Check before anything is changed, and before a running driver loses its claim.
        self._check(checkpoint.last, batch, origin)
        checkpoint.identify()
        self._own_sinks(checkpoint)
        checkpoint.take()
        self._check(checkpoint.last, batch, origin)
        assert checkpoint.identity is not None
        self.bins = int(checkpoint.identity["bins"])
        loop = restored_loop(self, checkpoint.last, self._asked)
        described = self.engine.describe(rows)
        self.opened = Opened(
            operator, routed, bound.inputs, columns, described, output, aside, checkpoint, loop
        )
        self.on_step("open")
        return self.opened

    def _own_sinks(self, checkpoint: Checkpoint) -> None:
        """Claim the places of the output. They are compared with what is committed, and while another
        driver is still at work, both go on: a difference counts only if nothing was committed meanwhile.
        """
        last = checkpoint.last
        while True:
            committed = last.batch if last else None
            try:
                self.sink.own(Owner(checkpoint.stage, self.store.url), committed)
                if self.aside is not None:
                    self.aside.own(Owner(checkpoint.stage, self.store.url, ASIDE), committed)
                return
            except CheckpointMismatch:
                last = last_manifest(self.store)
                if last is None or last.batch == committed:
                    raise

    def _change_policy(self, opened: Opened, policy: Policy) -> None:
        """Let another policy decide, from this batch on."""
        operator = opened.operator
        self._policy = policy.fitted(operator.resources, whole=operator.whole)
        opened.loop = Loop.restore(opened.loop.snapshot(), self._policy, self.guard, self.mode)
        self._next_policy = None

    def _check(self, last: Manifest | None, batch: int | None, origin: str | None) -> None:
        """Refuse a batch that does not follow what is committed. Without one, only the origin counts: the
        driver of before may still commit while this one opens the stage.
        """
        where = self.store.path()
        if last is None and self._continues is not None:
            raise CheckpointMismatch(
                f"{where} is empty, but continues={self._continues!r} says that it holds the state of that query: name the folder "
                "with that state, or omit `continues` to start without it"
            )
        if last is not None:
            check_origin(origin, last.delivery.origin, where, continues=self._continues)
        if batch is None:
            return
        if last is None or last.delivery.origin != origin:
            check_order(batch, None, where, first=self._first)
        elif batch != last.delivery.number:
            check_order(batch, last.delivery.number, where, part=bool(last.delivery.rest))

    @contextmanager
    def _guarded(self, opened: Opened) -> Iterator[None]:
        """After an error, forget what is in memory: it may be ahead of what is committed. The next
        call starts from the checkpoint.
        """
        try:
            yield
        except BaseException as error:
            self.opened, self._asked = None, opened.loop.snapshot()["asked"]
            final = isinstance(error, Superseded) or not isinstance(error, Exception)
            if not final and not opened.checkpoint.log.is_mine():
                raise opened.checkpoint.log.superseded() from error
            raise

    def refresh(self, rows: Rows, mode: str = "replace") -> None:
        """Change the build side of a join from the next batch on; the rows are durable when this returns.

        `replace`: these rows replace all rows of their keys. `append`: these rows are added.
        `delete`: all rows of their keys are removed.
        """
        last = last_manifest(self.store)
        taken = 0 if last is None or last.refreshed is None else last.refreshed
        build_side.save(self.engine, self.store, self.operator, rows, mode, self.key, taken)
