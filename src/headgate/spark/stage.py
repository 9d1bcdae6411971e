"""The stage: a keyed operator on a stream, under headgate's routing. `df.writeStream.foreachBatch(stage)`.

One batch, in order (each step is named, so that tests can stop the process at each):

1. `opened`     first batch only: the checkpoint is read and checked against the stage
2. `computed`   one Spark job: exchange, then one task per channel, which writes state and output files
3. `decided`    the control loop turns the report into a decision, perhaps a new table
4. `committed`  one file is created: state, routing, loop and output of the batch are bound for ever
5. `journaled`  report and decision are in the journal
6. `retired`    files that no bin needs any more are gone
7. `published`  the sink shows the output

A batch id that is committed already is published again and computed no more.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headgate.control import journal
from headgate.control.explain import explained
from headgate.control.loop import Decision, Loop
from headgate.control.modes import Mode
from headgate.control.report import BatchReport
from headgate.control.view import LoadView
from headgate.errors import BatchOrder, CheckpointError, CheckpointMismatch, ConfigError, Superseded
from headgate.flow.gate import AUTO_SIZED as BY_ITSELF
from headgate.flow.gate import Gate
from headgate.operators.arrival import aside_schema
from headgate.operators.base import Operator
from headgate.operators.event_time import Clock
from headgate.operators.hash_join import BoundHashJoin, HashJoin
from headgate.policies import Guard, Policy, Rebuild
from headgate.policies import get as get_policy
from headgate.routing.reshape import reshaped
from headgate.routing.table import Table
from headgate.spark import build_side, sinks
from headgate.spark.exchange import Exchange, routed_schema
from headgate.spark.gates.expanding import expanding
from headgate.spark.gates.waves import Waves
from headgate.spark.job import ChannelJob
from headgate.spark.session import check_classic, origin_of
from headgate.spark.types import arrow_schema, emitted_schema
from headgate.spark.warm_up import warm_up
from headgate.stage import split_keys
from headgate.stage.bound import Bound, Part
from headgate.stage.flow_control import Flow, FlowControl
from headgate.stage.measured import batch_report
from headgate.stage.outcome import absorbed, backlog_after
from headgate.stage.status import Status
from headgate.stage.task import ChannelTask, RealTime, Watch
from headgate.state.compaction import bins_to_snapshot
from headgate.state.keys import KeySpec
from headgate.storage.checkpoint import (
    Checkpoint,
    check_order,
    check_origin,
    journal_lines,
    last_manifest,
)
from headgate.storage.manifest import Manifest, Written, staging_folder
from headgate.storage.output_file import write_parquet
from headgate.storage.parquet_folder import Owner
from headgate.storage.store import Store

log = logging.getLogger("headgate.stage")
FEWEST_BINS, BINS_PER_CHANNEL = 128, 32
"""Default number of bins: fine enough to balance within a few percent, few enough that small batches stay cheap."""


class Stage:
    """A stateful operator whose keys are placed by policy. Pass it to `foreachBatch`.

    `key` is a column or several; `checkpoint` is a folder on any fsspec file system, for this stage alone.
    `channels` is the degree of parallelism at the start (`rescale` changes it online), `bins` the number of
    movable pieces of state, fixed for the checkpoint's life. `mode` is "act", "advise" (plans are journaled,
    not carried out) or "observe". `smoothing` is the weight of the last batch in the load that the policy sees
    (1: the last batch alone).

    `memory` ("512MB") bounds the state that each channel keeps in memory; beyond it bins go to disk and take turns, `t_gap` ms
    apart (None: as long as a read takes) but 8 batches at most, and their rows wait in the backlog. `buffer` ("64MB") lets the rows of a
    channel that is late wait there, so that one burst does not hold up the others. `move_bytes` bounds the state that comes to a
    channel in one batch; bins beyond it arrive later, and their rows wait. What waits is committed, and comes first in the next batch.

    `expand` is a step between the source and the stage that makes many rows of one; `gate` (`hg.Gate(in_flight=2, batch="auto")`) cuts a
    micro-batch into waves before it, each of which is committed on its own and numbered like a batch of its own, so that only
    `in_flight` waves' worth of it exists at a time.

    `sink` is where the output goes; a stage that others follow in a `Pipeline` has none.

    `aside` is a sink for rows that could not be used (late ones, those without an event time): the columns that the operator reads,
    and the reason. Without it they are only counted.

    A checkpoint belongs to one streaming query, and begins with its batch 0. `first_batch` says that it begins with a later one, without
    the rows before it. `continues` names the query whose state another query is to go on from (an error message gives the name).

    `pace_us` models a service time per row (of all channels, or by channel), slept and not burnt, for demonstrations.
    `durable=False` leaves flushing to the operating system.
    """

    def __init__(
        self,
        *,
        key: str | Sequence[str],
        operator: Operator,
        checkpoint: str,
        sink: sinks.Sink | Callable[[DataFrame, int], None] | None = None,
        policy: str | Policy = "static",
        channels: int = 8,
        bins: int | None = None,
        mode: str | Mode = Mode.act,
        guard: Guard | None = None,
        smoothing: float = 0.5,
        memory: str | int | None = None,
        t_gap: float | None = None,
        buffer: str | int | None = None,
        move_bytes: str | int | None = None,
        gate: Gate | None = None,
        expand: Callable[[DataFrame], DataFrame] | None = None,
        aside: sinks.Sink | Callable[[DataFrame, int], None] | None = None,
        first_batch: int | None = None,
        continues: str | None = None,
        pace_us: float | Mapping[int, float] = 0.0,
        durable: bool = True,
    ) -> None:
        self.key = (key,) if isinstance(key, str) else tuple(key)
        if not self.key or len(set(self.key)) < len(self.key):
            raise ConfigError(f"key={key!r}: name one column, or several different ones")
        if not isinstance(operator, Operator):
            remedy = "use hg.Aggregate(...), hg.Windows(...), hg.Join(...) or another of hg's"
            if callable(operator):
                remedy = "make it one with @hg.kernel(state=..., output=...)"
            raise ConfigError(f"operator={operator!r} is not an operator; {remedy}")
        self._adopt = frozenset(["bins"]) if bins is None else frozenset[str]()
        bins = bins if bins is not None else max(FEWEST_BINS, BINS_PER_CHANNEL * channels)
        if not 1 <= channels <= bins:
            raise ConfigError(
                f"channels={channels} and bins={bins}: there must be at least one channel and a bin for each"
            )
        if min(pace_us.values(), default=0) < 0 if isinstance(pace_us, Mapping) else pace_us < 0:
            raise ConfigError(f"pace_us={pace_us} is a time per row and cannot be negative")
        self.operator, self.channels, self.bins, self.pace_us = operator, channels, bins, pace_us
        self._flow = FlowControl(memory=memory, t_gap_ms=t_gap, buffer=buffer, move_bytes=move_bytes)
        self.policy, self.guard, self.mode = get_policy(policy), guard or Guard(), Mode.parse(mode)
        self._view = LoadView(alpha=smoothing)
        self.sink = sinks.as_sink(sink) if sink is not None else sinks.Nowhere()
        self.store = Store(checkpoint, durable=durable)
        self._staged = self.sink.staging(self.store)
        self.aside = None if aside is None else sinks.as_sink(aside)
        self._staged_aside = None if self.aside is None else self.aside.staging(self.store.child("aside"))
        if gate is not None and not isinstance(gate, Gate):
            raise ConfigError(f"gate={gate!r} is not a gate; use hg.Gate(in_flight=2, batch=...)")
        if first_batch is not None and first_batch < 0:
            raise ConfigError(f"first_batch={first_batch} is the number of a batch, 0 or more")
        self._first, self._continues = first_batch, continues
        self._expand = expanding(expand)
        self._waves = Waves(gate, self.store.child("waves"), self._expand) if gate is not None else None
        self._lock = threading.Lock()
        self._job = ChannelJob()
        self._bound: Bound | None = None
        self._asked: int | None = None
        self._last: tuple[BatchReport, Decision] | None = None
        self._clock: Clock | None = None
        self.watch: Watch = RealTime()
        warm_up()

    def __repr__(self) -> str:
        return f"Stage(key={list(self.key)}, operator={self.operator!r})"

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Process one micro-batch."""
        check_classic(df.sparkSession)
        self.process(df, batch_id, origin_of(df))

    def process(self, df: DataFrame, batch_id: int, origin: str | None) -> None:
        """Process one micro-batch from `origin`: a streaming query, or the stage before in a pipeline."""
        self.sink.check()
        with self._lock:
            bound = self._open(df, batch_id, origin)
            last = bound.checkpoint.last
            if last is not None and last.complete and (last.origin, last.of) != (origin, batch_id):
                raise BatchOrder(
                    f"the input of {self.store.path()} was said to be complete (finish), and Spark delivers batch {batch_id}: its rows "
                    "would all be late. Give a stage that goes on a new checkpoint, and call drain() instead of finish()"
                )
            with self._guarded(bound):
                if last is not None and (last.origin, last.of) == (origin, batch_id):
                    self._check_rows(df, last)
                self._deliver(df, batch_id, origin, bound)

    def _deliver(self, df: DataFrame, batch_id: int, origin: str | None, bound: Bound) -> None:
        """The batch, after what is not finished of an earlier one."""
        last, fresh = bound.checkpoint.last, bound.fresh
        bound.fresh = False
        again = last is not None and last.origin == origin and batch_id == last.of
        # A batch that the stage added itself is not delivered again: a new driver cannot know that it was published.
        if last is not None and (again or last.origin != origin or (fresh and last.extra)):
            log.info("batch %d was committed before; publishing it again", last.batch)
            self._publish(df, last, bound, again=True)
            if last.rest:
                self._all_of(df, last.of, last.origin, bound, last)
        if not again:
            self._all_of(df, batch_id, origin, bound, bound.checkpoint.last)

    def _check_rows(self, df: DataFrame, last: Manifest) -> None:
        """Refuse a batch that comes again with another number of rows: its new rows would be dropped as committed before."""
        wanted = last.rows_in if last.rest_rows is None else last.rest_rows
        rows = (self._expanded(df) if last.rest_rows is None else df).count()
        if rows != wanted:
            raise BatchOrder(
                f"Spark delivers batch {last.of} again with {rows} rows, but {wanted} were committed for it in "
                f"{self.store.path()}: Spark's checkpoint is older than the stage's, or the source has changed. Use the Spark checkpoint "
                "that belongs to it, or start both anew. (A query that draws rows at random cannot be repeated; give it a seed)"
            )

    def drain(self) -> None:
        """Emit what the watermark allows, and process all rows that wait. Call it when a query has ended, as after `availableNow`.

        A stage closes windows at the end of the batch *after* the one whose rows moved the watermark, and rows may wait in the backlog: at
        the end of the input both wait for a batch that does not come. Native Spark adds a batch without rows then; so does this.
        """
        self._end(complete=False)

    def finish(self) -> None:
        """Say that the input is complete: close and emit all that is open (windows, sessions, rows that wait for a match; each timer
        is met once). The checkpoint takes no batch after that.
        """
        self._end(complete=True)

    def _end(self, *, complete: bool) -> None:
        last = self._bound.checkpoint.last if self._bound else last_manifest(self.store)
        if last is None:
            return  # there was no batch
        spark = SparkSession.active()
        nothing = spark.createDataFrame([], StructType.fromJson(json.loads(last.columns)))
        with self._lock:
            bound = self._open(nothing, last.of, last.origin)
            with self._guarded(bound):
                if bound.fresh:
                    self._deliver(nothing, last.of, last.origin, bound)
                self._settle(nothing, bound)
                last = bound.checkpoint.last
                if complete and last is not None and not last.complete:
                    self._batch(
                        self._expanded(nothing),
                        Part(last.of, last.origin, extra=True, complete=True),
                        bound,
                        last,
                    )
                    self._settle(nothing, bound)

    def _settle(self, nothing: DataFrame, bound: Bound) -> None:
        """Batches without rows, until nothing waits and nothing is due."""
        idle, before = 0, (-1, -1)
        while (last := bound.checkpoint.last) is not None and any(now := last.unsettled()):
            idle, before = (idle + 1 if now == before else 0), now
            if idle > 2 * len(bound.loop.table.bins):
                raise CheckpointError(
                    f"{now[0]} rows wait and {now[1]} bins are due in {self.store.path()}, and nothing of it was processed in {idle} "
                    "batches: give the stage more memory"
                )
            self._batch(self._expanded(nothing), Part(last.of, last.origin, extra=True), bound, last)

    @contextmanager
    def _guarded(self, bound: Bound) -> Iterator[None]:
        """What is in memory may be ahead of what is committed when something fails: the next call starts from the checkpoint."""
        try:
            yield
        except BaseException as error:
            self._bound, self._asked = None, bound.loop.snapshot()["asked"]
            mine = isinstance(error, Superseded) or not isinstance(error, Exception)
            if not mine and not bound.checkpoint.log.is_mine():
                raise bound.checkpoint.log.superseded() from error
            raise

    def _check(self, last: Manifest | None, batch: int, origin: str | None) -> None:
        """Refuse a batch that does not belong to what is committed."""
        where = self.store.path()
        if last is None and self._continues is not None:
            raise CheckpointMismatch(
                f"{where} is empty, and continues={self._continues!r} says that it holds the state of that query: name the folder of "
                "that state, or leave `continues` out to start without it"
            )
        if last is not None:
            check_origin(origin, last.origin, where, continues=self._continues)
        if last is None or last.origin != origin:
            check_order(batch, None, where, first=self._first)
        elif batch != last.of:
            check_order(batch, last.of, where, part=bool(last.rest))

    def _all_of(
        self, df: DataFrame, source: int, origin: str | None, bound: Bound, last: Manifest | None
    ) -> None:
        """The whole of a micro-batch, or what is left of it; in waves, if there is a gate."""
        rest = last.rest if last is not None and last.rest else None
        if self._waves is None and rest is None:
            self._batch(self._expanded(df), Part(source, origin), bound, last)
            return
        waves = self._waves or Waves(BY_ITSELF, self.store.child("waves"), self._expand)
        aside = last.rest_in if last is not None and rest else staging_folder(source, bound.checkpoint.run)
        for wave in waves.of(df, aside, rest, ordered=bound.operator.ordered):
            self._batch(
                wave.rows,
                Part(source, origin, wave.rest, aside, wave.source_rows),
                bound,
                bound.checkpoint.last,
            )
        waves.forget(aside, bound.checkpoint.log.is_older)
        if bound.checkpoint.last is last:  # not one row
            self._batch(self._expanded(df), Part(source, origin), bound, last)

    def _expanded(self, df: DataFrame) -> DataFrame:
        return df if self._expand is None else self._expand(df)

    def takes(self, seconds: float) -> int | None:
        """How many rows of the source go through the gate in so many seconds, as measured; None as long as too little is known.

        A limit for the source's own setting (Kafka's `maxOffsetsPerTrigger`, say), which Spark reads when a query starts.
        """
        speed = self._waves.rows_per_second if self._waves is not None else None
        return None if speed is None else max(1, int(speed * seconds))

    def feed(self, following: Stage) -> None:
        """Give each batch's committed output to the stage that follows in a pipeline; on redelivery the very same rows."""
        if not isinstance(self.sink, sinks.Nowhere):
            raise ConfigError(
                f"{self.operator!r} has the sink {self.sink!r}; in a pipeline only the last stage has one"
            )

        def next_stage(rows: DataFrame, batch: int) -> None:
            assert self._bound is not None, "a stage that publishes is open"
            following.process(rows, batch, f"stage:{self._bound.checkpoint.stage}")

        self.sink = sinks.Function(next_stage)

    def rescale(self, channels: int) -> None:
        """Change the number of channels, online: the next batch to finish decides it, the one after runs on
        it.
        """
        if self._bound is not None:
            self._bound.loop.request_channels(channels)
        elif not 1 <= channels <= self.bins:
            raise ConfigError(f"{channels} channels for {self.bins} bins: ask for 1 to {self.bins}")
        else:
            self._asked = channels

    def grant(self, amount: str | int, channel: int | None = None) -> None:
        """Give channels more memory for state ("256MB"), from the next batch on: one of them, or each. Not kept over a restart."""
        self._flow.change(amount, self._channels(channel), sign=1)

    def reclaim(self, amount: str | int, channel: int | None = None) -> None:
        """Take memory back, from the next batch on; bins beyond what is left go to disk."""
        self._flow.change(amount, self._channels(channel), sign=-1)

    def _channels(self, channel: int | None) -> list[int]:
        count = self._bound.loop.table.channels if self._bound else self.channels
        if channel is not None and not 0 <= channel < count:
            raise ConfigError(f"there is no channel {channel}: they are 0 to {count - 1}")
        return list(range(count)) if channel is None else [channel]

    def refresh(self, rows: DataFrame, mode: str = "replace") -> None:
        """Change the build side of a join, from the next batch on; the rows are safe when this returns.

        `replace`: these are now the rows of the keys that occur; `append`: they come on top; `delete`: their keys have none.
        """
        if not isinstance(self.operator, HashJoin):
            raise ConfigError(f"{self.operator!r} has no build side to refresh")
        with self._lock:
            last = last_manifest(self.store)
            taken = 0 if last is None or last.refreshed is None else last.refreshed
            build_side.save(self.store, self.operator, rows, mode, self.key, taken)

    def explain(self) -> str:
        """Why the last plan was made, or refused."""
        if self._last is None:
            return "no batch has been processed yet"
        return explained(*self._last)

    def status(self) -> Status:
        """Channels, loads and last decisions: prints well, and renders in a notebook."""
        table = self._bound.loop.table if self._bound else None
        report, decision = self._last or (None, None)
        return Status(
            repr(self.operator),
            self.key,
            self.policy.name,
            self.mode.value,
            table,
            report,
            decision,
            self._clock,
        )

    def journal(self) -> list[journal.Entry]:
        """Reports and decisions so far, oldest first."""
        return [journal.decode(line) for line in journal_lines(self.store)] if self._bound else []

    # -- one batch
    # ----------------------------------------------------------------------------------------------------

    def _reached(self, step: str) -> None:
        """A step of the batch is done. Does nothing; a place for tests to stop the process."""

    def _open(self, df: DataFrame, batch: int, origin: str | None) -> Bound:
        source = arrow_schema(self._expanded(df).schema, key=self.key)
        if self._bound is not None:
            self._bound.check(source)
            self._check(self._bound.checkpoint.last, batch, origin)
            return self._bound
        spec = KeySpec(self.key, tuple(source.field(n).type for n in self.key))
        config = self.operator
        if isinstance(config, HashJoin):
            config = config.typed(arrow_schema(config.build.schema, key=config.keys(self.key)))
        operator = config.bind(spec, source)
        if isinstance(self.policy, Rebuild):
            self.policy = self.policy.fitted(operator.resources, whole=operator.whole)
        identity = {
            "key": [[n, str(t)] for n, t in zip(spec.names, spec.types, strict=True)],
            "bins": self.bins,
            **operator.fingerprint(),
        }
        rows = routed_schema(operator, source)
        self.sink.check_columns(emitted_schema(operator.output))
        if self.aside is not None:
            self.aside.check_columns(emitted_schema(aside_schema(operator, rows)))
        staged = [one for one in (self._staged, self._staged_aside) if one is not None]
        checkpoint = Checkpoint(self.store, identity, adopt=self._adopt, staged=staged)
        self._check(
            checkpoint.last, batch, origin
        )  # before anything is changed, or taken from a driver that is at work
        checkpoint.identify()
        committed = checkpoint.last.batch if checkpoint.last else None
        self.sink.own(Owner(checkpoint.stage, self.store.url), committed)
        if self.aside is not None:
            self.aside.own(Owner(checkpoint.stage, self.store.url, "rows aside"), committed)
        checkpoint.take()
        self._check(checkpoint.last, batch, origin)
        assert checkpoint.identity is not None
        self.bins = int(checkpoint.identity["bins"])
        last = checkpoint.last
        if last is None:
            first = self.policy.initial(self.bins, self.channels)
            loop = Loop(self.policy, self.guard, self.mode, first, view=self._view)
        else:
            loop = Loop.restore(last.loop, self.policy, self.guard, self.mode)
            loop.view = replace(loop.view, alpha=self._view.alpha)
            if last.channels != self.channels and loop.table.channels != self.channels:
                loop.request_channels(self.channels)
        if self._asked is not None:
            loop.request_channels(self._asked)
        self._bound = Bound(operator, rows, checkpoint, loop, df.schema.json())
        self._reached("opened")
        return self._bound

    def _batch(self, df: DataFrame, part: Part, bound: Bound, last: Manifest | None) -> None:
        started = time.perf_counter()
        batch = part.source if last is None else last.batch + 1
        loop, operator = bound.loop, bound.operator
        table = loop.table
        flow = self._flow.prepare(table, loop.view, last)
        committed, last = last, self._with_build_rows(df, batch, bound, last)
        snapshots: list[int] = []
        credit = 0
        if last is not None:
            snapshots, credit = bins_to_snapshot(
                batch, last.bases, last.state_bytes, last.credit, limit=2 * last.earned
            )
        changed = reshaped(Table.from_json(last.table), table) if last else {}
        pace = self.pace_us
        clock = Clock.from_json(last.clock) if last and last.clock else Clock.start(operator.event_time)
        if part.complete:
            clock = clock.complete()
        # All waves of a micro-batch see the event time that was before it, as they would in one piece, and what is due is closed
        # with the last of them.
        held = Clock.from_json(last.held_clock) if last and last.held_clock else clock
        task = ChannelTask(
            batch=batch,
            stage=bound.checkpoint.stage,
            run=bound.checkpoint.run,
            table=table,
            operator=operator,
            rows=bound.rows,
            committed=last,
            snapshots=frozenset(snapshots) - flow.asleep,
            reshaped=changed,
            state=self.store.child("state"),
            output=self._staged,
            flow=flow,
            backlog=self.store.child("backlog"),
            pace_us=pace if isinstance(pace, Mapping) else dict.fromkeys(range(table.channels), pace),
            clock=replace(held, watermark=held.closed) if part.rest else held,
            aside=self._staged_aside,
            watch=self.watch,
        )
        for staged in (self._staged, self._staged_aside):
            if staged is not None:
                staged.make(staging_folder(batch, bound.checkpoint.run))
        answers = self._job.run(df, bound.exchange, table, task)
        output = self._output(batch, answers, bound)
        self._reached("computed")
        backlog = backlog_after(flow, changed, answers)
        wall_ms = 1e3 * (time.perf_counter() - started)
        report = batch_report(batch, table, answers, last, wall_ms, flow, backlog)
        before = loop.snapshot()
        decision = loop.step(report)
        if decision.refusal is not None and decision.refusal.name.value == "policy_raised":
            log.warning(
                "batch %d: policy %s failed and was left out: %s",
                batch,
                self.policy.name,
                decision.refusal.detail,
            )
        self._reached("decided")
        manifest = self._manifest(
            batch, table, answers, last, credit, report, decision, before, bound, output
        )
        clock = replace(clock.after(operator.event_time, [a["seen"] for a in answers]), closed=held.watermark)
        manifest = replace(
            manifest,
            origin=part.origin,
            source=part.source,
            rest=part.rest,
            rest_in=part.rest_in,
            rest_rows=last.rest_rows if last and part.extra else part.rest_rows,
            rows_in=sum(a["came"] for a in answers)
            + (last.rows_in if last and (last.rest or part.extra) else 0),
            extra=part.extra,
            columns=bound.columns,
            held_clock=held.to_json() if part.rest else None,
            clock=clock.to_json(),
            aside=tuple(Written(*a["aside"]) for a in answers if a["aside"]),
            backlog=backlog,
            flow=flow.to_json(answers, wall_ms),
            refreshed=last.refreshed if last else None,
        )
        bound.checkpoint.commit(manifest)
        self._last, self._clock = (report, decision), clock
        self._reached("committed")
        bound.checkpoint.write_journal(manifest.journal, batch)
        self._reached("journaled")
        bound.checkpoint.retire(committed, manifest)
        if last is not committed and last is not None:
            bound.checkpoint.discard(last, manifest)
            build_side.retire(self.store, last.refreshed or 0)
        self._reached("retired")
        self._publish(df, manifest, bound)

    def _output(self, batch: int, answers: list[dict[str, Any]], bound: Bound) -> tuple[Written, ...]:
        """The output files of a batch: one of each channel, and one of the split keys."""
        written = tuple(Written(*a["output"]) for a in answers if a["output"])
        merged = split_keys.merged_output(answers, bound.operator)
        if merged is None:
            return written
        run = bound.checkpoint.run
        name = f"{staging_folder(batch, run)}/part-{batch:012d}-split-{run}.parquet"
        return (*written, write_parquet(self._staged, name, pa.Table.from_batches([merged])))

    def _with_build_rows(
        self, df: DataFrame, batch: int, bound: Bound, last: Manifest | None
    ) -> Manifest | None:
        """What is committed, and beside it the build rows that this batch is the first to see; they are committed with it."""
        join, operator, table = self.operator, bound.operator, bound.loop.table
        if not isinstance(join, HashJoin) or not isinstance(operator, BoundHashJoin):
            return last
        taken = last.refreshed if last else None
        for number, mode, rows in build_side.waiting(self.store, df.sparkSession, join, self.key, taken):
            builder = operator.builder(mode)
            task = ChannelTask(
                batch=batch,
                stage=bound.checkpoint.stage,
                run=bound.checkpoint.run,
                table=table,
                operator=builder,
                rows=routed_schema(builder, arrow_schema(rows.schema, key=self.key)),
                committed=last,
                snapshots=frozenset(),
                reshaped=reshaped(Table.from_json(last.table), table) if last else {},
                state=self.store.child("state"),
                output=self._staged,
                flow=Flow.everything(table),
                backlog=self.store.child("backlog"),
                pace_us={},
            )
            answers = self._job.run(rows, Exchange(builder), table, task)
            last = replace(
                last or Manifest(batch=batch, run=bound.checkpoint.run, channels=self.channels),
                **absorbed(last, batch, table, answers, last.credit if last else 0),
                table=table.to_json(),
                refreshed=number,
            )
        return last

    def _manifest(
        self,
        batch: int,
        table: Table,
        answers: list[dict[str, Any]],
        last: Manifest | None,
        credit: int,
        report: BatchReport,
        decision: Decision,
        before: dict[str, Any],
        bound: Bound,
        output: tuple[Written, ...],
    ) -> Manifest:
        start = before if bound.checkpoint.starts_journal(batch) else None
        return Manifest(
            batch=batch,
            run=bound.checkpoint.run,
            channels=self.channels,
            **absorbed(last, batch, table, answers, credit),
            table=table.to_json(),
            loop=bound.loop.snapshot(),
            output=output,
            journal=journal.encode(report, decision, start=start),
        )

    def _publish(self, df: DataFrame, manifest: Manifest, bound: Bound, *, again: bool = False) -> None:
        spark, batch = df.sparkSession, manifest.batch
        schema = emitted_schema(bound.operator.output)
        sinks.publish(self.sink, self._staged, manifest.output, batch, schema, spark, again=again)
        if self.aside is not None and self._staged_aside is not None:
            schema = emitted_schema(aside_schema(bound.operator, bound.rows))
            sinks.publish(self.aside, self._staged_aside, manifest.aside, batch, schema, spark, again=again)
        self._reached("published")
