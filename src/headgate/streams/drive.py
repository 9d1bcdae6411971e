"""The loop of a direct stream, one batch at a time: plan ranges, process them, remember the offsets.

The offsets are committed in the manifest of the first stage, with its state, routing and output, so
nothing has to be paired. A batch that was not committed is planned anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from headgate.errors import CheckpointMismatch, ConfigError, HeadgateError, SourceFailed
from headgate.sources.source import Demand, Ranges, Source
from headgate.stage.engine import Rows
from headgate.stage.stage import KeyedStage
from headgate.storage.checkpoint import DIRECT
from headgate.storage.manifest import Manifest
from headgate.storage.patience import REQUESTS
from headgate.streams.batch_size import BatchSize
from headgate.streams.planned import Input, Planned

T = TypeVar("T")


@dataclass(frozen=True)
class Progress:
    """What one batch did."""

    batch: int
    """Its number, as the sink has it. (A gate makes several of one, and a batch may be added that closes windows.)"""
    rows: int
    """Rows that reached the first stage."""
    planning_ms: float
    batch_ms: float
    """Time for all of it, with planning, the commit and publishing."""
    more: bool
    """Whether the sources had more rows than the batch took."""
    store_requests: int = 0
    """Requests to object stores for the checkpoint and the output, by driver and tasks together."""


class Drive(Generic[Rows]):
    """Drives stages, of which the first takes the rows of the inputs. It has no clock: `now` is given."""

    def __init__(
        self,
        stages: Sequence[KeyedStage[Rows]],
        inputs: Sequence[Input],
        rows_of: Callable[[Planned], Rows],
        *,
        size: BatchSize,
        tasks: int,
        now: Callable[[], float],
    ) -> None:
        """`rows_of` makes rows for the engine from planned ranges. `now` gives seconds for measuring."""
        self.stages, self._rows_of, self._tasks, self._now = list(stages), rows_of, tasks, now
        self.inputs = list(inputs)
        self.size = size
        self.offsets: list[Any] = [None] * len(self.inputs)
        self.batch = 0
        """The number of the next batch."""
        self._before = 0
        """Requests to object stores before the batch."""

    @property
    def first(self) -> KeyedStage[Rows]:
        """The stage that takes the sources' rows."""
        return self.stages[0]

    def open(self) -> None:
        """Check everything that can be checked before a row is read, and take over the checkpoint."""
        for one_input in self.inputs:
            _guarded(one_input.source, "checked", one_input.source.check)
            _guarded(one_input.source, "identified", partial(_identity, one_input.source))
            _guarded(one_input.source, "checked", partial(_check_again, one_input.source))
        nothing = self._rows_of(Planned.of(self.inputs, [[] for _ in self.inputs]))
        last = self.first.resume(nothing, DIRECT)
        self._continue(last)
        for number, one_input in enumerate(self.inputs):
            store = self.first.store.child(source_folder(number))
            _guarded(one_input.source, "opened", partial(one_input.source.open, store))

    def _continue(self, last: Manifest | None) -> None:
        if last is None:
            return
        self.batch = last.delivery.number + 1
        recorded = last.delivery.offsets or []
        where = self.first.store.path()
        if len(recorded) != len(self.inputs):
            raise CheckpointMismatch(
                f"{where} has the offsets of {len(recorded)} sources, and this query has {len(self.inputs)}: a query keeps its "
                "sources; start another one with a checkpoint of its own"
            )
        for number, (one_input, entry) in enumerate(zip(self.inputs, recorded, strict=True)):
            identity = _identity(one_input.source)
            for name in sorted(identity.keys() | entry["source"].keys()):
                was, now = entry["source"].get(name), identity.get(name)
                if was != now:
                    raise CheckpointMismatch(
                        f"source {number} of {where} had {name}={was!r} and now has {name}={now!r}: its offsets would mean other "
                        "rows. Restore the source, or start another query with a checkpoint of its own"
                    )
            self.offsets[number] = entry["offset"]

    def step(self, at: float) -> Progress | None:
        """One batch of the rows that the sources have now, or, if they have none, what is due without
        rows. None if there was nothing to do. `at` is the time in seconds since 1970.
        """
        started, self._before = self._now(), self._requests()
        plans = self._plan(at)
        planned = self._now()
        if not any(plan.ranges for plan in plans):
            self._advance(plans)
            return self._settle(started)
        for one_input, plan, before in zip(self.inputs, plans, self.offsets, strict=True):
            if plan.ranges and plan.offset == before:
                raise SourceFailed(
                    f"{one_input.source!r} planned ranges and left the offset at {before!r}: the same rows would come for ever. "
                    "The offset of a plan is the place after its ranges"
                )
        rows = Planned.of(self.inputs, [plan.ranges for plan in plans])
        number, offsets = self.batch, self._recorded(plans)
        self.first.process(self._rows_of(rows), number, DIRECT, offsets)
        self.batch += 1
        self._advance(plans)
        more = any(plan.more for plan in plans)
        return self._progress(started, planned, more, planned_rows=rows.rows)

    def _plan(self, at: float) -> list[Ranges]:
        demand = Demand(rows=self.size.rows, tasks=self._tasks, now=at)
        plans = []
        for one_input, offset in zip(self.inputs, self.offsets, strict=True):
            plan = _guarded(one_input.source, "planned", partial(one_input.source.plan, offset, demand))
            if not isinstance(plan, Ranges):
                raise SourceFailed(
                    f"{one_input.source!r} planned {plan!r}, which is not hg.sources.Ranges(ranges, offset)"
                )
            wrong = [part for part in plan.ranges if part.rows < 0 or part.parts < 0]
            if wrong:
                raise SourceFailed(
                    f"{one_input.source!r} planned {wrong[0]!r}: the numbers of rows and parts cannot be below 0; rows=0 is for a "
                    "range whose size is not known"
                )
            offset = _json(plan.offset, f"the offset of {one_input.source!r}", SourceFailed)
            plans.append(replace(plan, offset=offset))
        return plans

    def _recorded(self, plans: Sequence[Ranges]) -> list[dict[str, Any]]:
        return [
            {"source": _identity(one_input.source), "offset": plan.offset}
            for one_input, plan in zip(self.inputs, plans, strict=True)
        ]

    def _advance(self, plans: Sequence[Ranges]) -> None:
        self.offsets = [plan.offset for plan in plans]

    def _settle(self, started: float) -> Progress | None:
        """A batch without rows, if rows wait or work is due."""
        unsettled = [stage for stage in self.stages if _unsettled(stage)]
        for stage in unsettled:
            stage.drain()
        return self._progress(started, started, False) if unsettled else None

    def _progress(
        self, started: float, planned: float, more: bool, planned_rows: int | None = None
    ) -> Progress:
        opened = self.first.opened
        assert opened is not None, "a batch was processed"
        last = opened.checkpoint.last
        assert last is not None, "a batch was committed"
        rows = 0 if planned_rows is None else last.delivery.rows
        took = self._now() - started
        self.size = self.size.after(max(rows, planned_rows or 0), took)
        sent = self._requests() - self._before
        return Progress(last.batch, rows, 1e3 * (planned - started), 1e3 * took, more, sent)

    def _requests(self) -> int:
        """Requests to object stores so far."""
        return REQUESTS.sent + sum(stage.task_requests for stage in self.stages)

    def finish(self) -> None:
        """Declare the input complete: close and emit everything that is open, stage by stage."""
        for stage in self.stages:
            stage.finish()


def source_folder(number: int) -> str:
    """Where a source keeps its records, within the checkpoint of the first stage."""
    return f"source-{number}"


def _identity(source: Source) -> dict[str, Any]:
    """What a source says of itself, as a checkpoint gives it back."""
    identity = _json(source.identity(), f"the identity of {source!r}", ConfigError)
    if not isinstance(identity, dict):
        raise ConfigError(
            f"the identity of {source!r} is {identity!r}: return a dict, such as {{'source': 'orders', 'table': 'sales'}}"
        )
    return identity


def _json(value: Any, what: str, kind: type[HeadgateError]) -> Any:
    """A value as it comes back from a checkpoint."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise kind(
            f"{what} is {value!r}, which JSON cannot hold ({error}): return numbers, texts, lists, dicts or None, such as "
            "moment.isoformat() for a time"
        ) from error


def _unsettled(stage: KeyedStage[Any]) -> bool:
    last = stage.opened.checkpoint.last if stage.opened is not None else None
    return last is not None and any(last.unsettled())


def _check_again(source: Source) -> None:
    again: Any = source.rows_read_again
    if not isinstance(again, int) or isinstance(again, bool) or again < 0:
        raise ConfigError(
            f"{source!r} has rows_read_again={again!r}: make it a property, or an attribute of the class, with a whole number of "
            "rows that may be read again; 0 if each range is to be read once"
        )


def _guarded(source: Source, doing: str, call: Callable[[], T]) -> T:
    """What a source's method returns; an error of its own is raised as `SourceFailed`."""
    try:
        return call()
    except HeadgateError:
        raise
    except Exception as error:
        raise SourceFailed(
            f"{source!r} could not be {doing}: {type(error).__name__}: {error}. Nothing was committed: repair the source and "
            "start the query again"
        ) from error
