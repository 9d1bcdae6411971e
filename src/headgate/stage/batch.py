"""One batch of a stage, from the rows at hand to the published output: seven steps, in this order.

1. `prepare`   decide what may run: routing, memory, event time; load refreshed build rows
2. `compute`   one job: send every row to its channel, then run one task per channel, which writes files
3. `decide`    let the control loop turn the report into a decision, perhaps a new table
4. `commit`    create one file, which fixes the batch's input, state, routing, loop and output for ever
5. `journal`   record report and decision for people
6. `retire`    remove the files that no bin needs any more
7. `publish`   show the output through the sinks

A crash before `commit` leaves nothing but rubbish. After a crash later on, the next driver writes the
journal's line and publishes the batch again; the next batch removes the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic

import pyarrow as pa

from headgate import logs
from headgate.control import journal
from headgate.control.notice import nearest
from headgate.control.refusal import Reason
from headgate.operators.event_time import Clock
from headgate.routing.reshape import reshaped
from headgate.stage import build_side, sinks, split_keys
from headgate.stage.completion import completed, tell_completed
from headgate.stage.engine import Rows
from headgate.stage.facts import BatchFacts, StepTime
from headgate.stage.flow_control import Flow
from headgate.stage.outcome import backlog_after, batch_report, flow_after, state_after
from headgate.stage.task import Task
from headgate.storage.manifest import Delivery, Manifest, Written, staging_folder
from headgate.storage.output_file import write_parquet
from headgate.storage.parquet_folder import ASIDE, Owner
from headgate.storage.state_index import StateIndex

if TYPE_CHECKING:
    from headgate.stage.opened import Opened
    from headgate.stage.stage import KeyedStage

log = logs.logger("headgate.stage")


class Batch(Generic[Rows]):
    """The steps of one batch, and the values that they pass to each other."""

    def __init__(
        self,
        stage: KeyedStage[Rows],
        opened: Opened,
        rows: Rows,
        delivery: Delivery,
        *,
        complete: bool = False,
    ) -> None:
        """`rows` are the rows that `delivery` describes; `complete` says that no more rows will come."""
        self.stage, self.opened, self.rows = stage, opened, rows
        self.delivery, self.complete = delivery, complete
        self.engine, self.checkpoint, self.operator = stage.engine, opened.checkpoint, opened.operator
        self.last = opened.checkpoint.last
        """What was committed before this batch."""
        self.number = delivery.number if self.last is None else self.last.batch + 1
        self.table = opened.loop.in_force(self.number)
        self.state = StateIndex() if self.last is None else self.last.state
        self.refreshed = None if self.last is None else self.last.refreshed

    def run(self) -> None:
        """Run all steps. The stage is told after each of them, so that a test can stop the process there."""
        times = []
        with logs.about(stage=self.stage.number, batch=self.number):
            for step in (
                self.prepare,
                self.compute,
                self.decide,
                self.commit,
                self.journal,
                self.retire,
                self.publish,
            ):
                began = self.engine.now()
                step()
                times.append(StepTime(step.__name__, began, self.engine.now()))
                self.stage.on_step(step.__name__)
            self._tell(tuple(times))

    def prepare(self) -> None:
        """Decide what may run in this batch, and put it into the task that every channel gets."""
        self.started = self.engine.now()
        self.flow = self._flow()
        self.reshaped = {} if self.last is None else reshaped(self.last.table, self.table)
        for store in self.stage.staged:
            store.make(staging_folder(self.number, self.checkpoint.run))
        self._take_build_rows()
        snapshots, self.credit = self._snapshots()
        self._set_clocks()
        self.task = self._task(
            operator=self.operator,
            rows=self.opened.rows,
            snapshots=snapshots,
            reshaped={} if self.took_build_rows else self.reshaped,
            regrouped=self.reshaped,
            flow=self.flow,
            # All waves of a micro-batch see the event time from before it, as if it were processed
            # in one piece. Work that is due is done with the last wave.
            clock=replace(self.held, watermark=self.held.closed) if self.delivery.rest else self.held,
        )

    def compute(self) -> None:
        """Run the task on every channel, and add up the answers."""
        self.answers = self.engine.run(self.rows, self.task)
        self.stage.task_requests += sum(answer.requests for answer in self.answers)
        merged = split_keys.merged(self.task, self.answers, self.opened.split_tables)
        self.output = (*(a.output for a in self.answers if a.output), *self._split_output(merged))
        self.wall_ms = 1e3 * (self.engine.now() - self.started)
        changes = self.answers if merged is None else [*self.answers, merged.answer]
        self.state = state_after(self.state, self.number, self.table, changes, self.credit)
        self.backlog = backlog_after(self.flow.backlog, self.reshaped, self.answers, self.number)

    def decide(self) -> None:
        """Report to the control loop, which may choose another table for the next batch."""
        loop = self.opened.loop
        report = batch_report(
            self.number, self.table, self.answers, self.state, self.flow, self.backlog, self.wall_ms
        )
        before = loop.snapshot() if self.checkpoint.starts_journal(self.number) else None
        decision = loop.step(report)
        if decision.refusal is not None and decision.refusal.name is Reason.policy_raised:
            log.warning(
                "batch %d: policy %s raised an error and was ignored: %s",
                self.number,
                self.stage.policy.name,
                decision.refusal.detail,
            )
        self.report, self.decision = report, decision
        self.line = journal.encode(report, decision, start=before)

    def commit(self) -> None:
        """Create the one file that makes the batch's state, routing and output valid."""
        seen = [answer.seen for answer in self.answers]
        clock = replace(self.clock.after(self.operator.event_time, seen), closed=self.held.watermark)
        delivery = self._delivered()
        passed, unfinished = completed(self.last, delivery, self.number, self.backlog)
        self.manifest = Manifest(
            batch=self.number,
            run=self.checkpoint.run,
            channels=self.stage.channels,
            delivery=delivery,
            completed=passed,
            unfinished=unfinished,
            table=self.table,
            state=self.state,
            clock=clock,
            held_clock=self.held if self.delivery.rest else None,
            backlog=self.backlog,
            flow=flow_after(self.flow, self.answers, self.wall_ms),
            loop=self.opened.loop.snapshot(),
            refreshed=self.refreshed,
            output=self.output,
            aside=tuple(a.aside for a in self.answers if a.aside),
            journal=self.line,
        )
        self.checkpoint.commit(self.manifest)
        self.stage.committed(self.report, self.decision, clock)

    def journal(self) -> None:
        """Append report and decision to the journal."""
        self.checkpoint.write_journal(self.line, self.number)

    def retire(self) -> None:
        """Remove the files that the commit made obsolete."""
        self.checkpoint.retire(self.last, self.manifest)
        if self.took_build_rows and self.refreshed is not None:
            self.checkpoint.remove_state(self.build_files - self.manifest.state.names)
            build_side.retire(self.stage.store, self.refreshed)

    def publish(self) -> None:
        """Publish the output."""
        publish(self.stage, self.opened, self.manifest)

    # -- parts of the steps

    def _tell(self, steps: tuple[StepTime, ...]) -> None:
        """Tell those who watch the stage. Their errors do not stop the stream."""
        if not self.stage.watchers:
            return
        after = self.manifest.clock
        facts = BatchFacts(
            rows=sum(answer.came for answer in self.answers),
            report=self.report,
            decision=self.decision,
            clock=after,
            unused={
                reason: count - self.clock.counts.get(reason, 0) for reason, count in after.counts.items()
            },
            steps=steps,
            output_bytes=sum(file.size for file in self.output),
            stage=self.stage.number or 0,
        )
        for watcher in list(self.stage.watchers):
            try:
                watcher(facts)
            except Exception:
                log.exception("batch %d: %r raised an error and was ignored", self.number, watcher)

    def _flow(self) -> Flow:
        """The orders for this batch. Only where moves need it the engine is asked where channels will be."""
        loop, last = self.opened.loop, self.last
        later = loop.announced(self.number)
        places: Sequence[str] = ()
        if last is not None and (later is not None or last.table.channels != self.table.channels):
            places = self.engine.places(nearest(last.table, later or self.table, last.flow.executors))
        return self.stage.flow_control.prepare(self.table, loop.view, last, later, places)

    def _snapshots(self) -> tuple[frozenset[int], int]:
        """The bins to write whole, and the credit that is left. A bin that is read ahead is not among them: whoever
        has read it needs what was added since then, and a snapshot would be all of it.
        """
        moving = {b for bins in self.flow.ahead.bins.values() for b in bins}
        bases = {b: base for b, base in self.state.bases.items() if b not in moving}
        chosen, credit = self.stage.compaction(self.number, replace(self.state, bases=bases))
        return frozenset(chosen) - self.flow.asleep, credit

    def _task(self, **of_this_run: Any) -> Task:
        stage = self.stage
        return Task(
            batch=self.number,
            stage=self.checkpoint.stage,
            run=self.checkpoint.run,
            table=self.table,
            state=self.state,
            state_store=stage.store.child("state"),
            backlog_store=stage.store.child("backlog"),
            output_store=stage.staged_output,
            output_schema=self.opened.output,
            shaping=stage.shaping,
            aside_store=stage.staged_aside,
            aside_schema=self.opened.aside,
            **of_this_run,
        )

    def _set_clocks(self) -> None:
        """Set the event time before this batch, and before the source's batch of which this is a wave."""
        last = self.last
        self.clock = Clock.start(self.operator.event_time) if last is None else last.clock
        if self.complete:
            self.clock = self.clock.complete()
        self.held = last.held_clock if last is not None and last.held_clock else self.clock

    def _take_build_rows(self) -> None:
        """Load build rows that no batch has seen yet into the state; they are committed with this batch."""
        self.build_files: frozenset[str] = frozenset()
        self.took_build_rows = False
        if not self.operator.builds:
            return
        stage, key = self.stage, self.stage.key
        for number, mode, rows in build_side.waiting(
            self.engine, stage.store, stage.operator, key, self.refreshed
        ):
            builder = self.operator.builder(mode)
            task = self._task(
                operator=builder,
                rows=self.engine.routed(builder, self.engine.columns(rows, key), rows),
                snapshots=frozenset(),
                reshaped={} if self.took_build_rows else self.reshaped,
                regrouped={},
                flow=Flow.everything(self.table),
                clock=Clock(),
            )
            answers = self.engine.run(rows, task)
            self.state = state_after(self.state, self.number, self.table, answers, self.state.credit)
            self.build_files |= {answer.state_file for answer in answers if answer.state_file}
            self.refreshed, self.took_build_rows = number, True

    def _split_output(self, merged: split_keys.Merged | None) -> Iterator[Written]:
        """One more output file, for the split keys."""
        rows = [] if merged is None else merged.output
        if self.stage.shaping is not None:
            rows = list(self.stage.shaping.apply(rows))
        if any(part.num_rows for part in rows):
            run = self.checkpoint.run
            name = f"{staging_folder(self.number, run)}/part-{self.number:012d}-split-{run}.parquet"
            table = pa.Table.from_batches(rows)
            yield write_parquet(self.stage.staged_output, name, table, self.opened.output)

    def _delivered(self) -> Delivery:
        """The delivery, with the number of rows that arrived for it in this wave and in earlier ones."""
        last, delivery = self.last, self.delivery
        rows = sum(answer.came for answer in self.answers)
        if last is not None and (last.delivery.rest or delivery.extra):
            rows += last.delivery.rows
        if last is not None and delivery.extra:
            delivery = replace(delivery, rows_at_gate=last.delivery.rows_at_gate)
        return replace(delivery, rows=rows, columns=self.opened.columns)


def publish(stage: KeyedStage[Rows], opened: Opened, manifest: Manifest, *, again: bool = False) -> None:
    """Publish the output that a manifest names."""
    engine, batch = stage.engine, manifest.batch
    owner = Owner(opened.checkpoint.stage, stage.store.url)
    output = sinks.Output(batch, stage.staged_output, manifest.output, opened.output, engine, again, owner)
    sinks.publish(stage.sink, output)
    if stage.aside is not None and stage.staged_aside is not None:
        files, of = manifest.aside, replace(owner, what=ASIDE)
        aside = sinks.Output(batch, stage.staged_aside, files, opened.aside, engine, again, of)
        sinks.publish(stage.aside, aside)
    if stage.on_complete is not None:
        tell_completed(stage.on_complete, manifest)
