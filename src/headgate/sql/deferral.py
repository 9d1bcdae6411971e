"""Work that waits: the rows that some computations of a template have not seen yet, and its place in the order of batches.

What a tenant has no time for in a batch is not lost and not cut. The rows that its computations read in that batch are
kept with the watermarks of that moment, and computed before all later rows when there is time. So results do not
depend on who waited when, and for how long. Only templates over one source wait: joins share the rows that a server
keeps, which are forgotten by the clock of all.

A tenant that others wait for gets rows a few at a time, and first very few if a template is new to it: a statement cannot
be interrupted in the middle of some rows. The watermark moves on with the last of them, so it gives what it gives with
all at once.

A `TemplateRun` is a template in one batch on a server: each of its computations stands at a batch of its own, all
before it is computed, and nothing of it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.sql.blame import Attempt, Guarded, guarded, ids_of, owners_of
from headgate.sql.clock import Clock, marked
from headgate.sql.deferred import WAITING, Chunk, Deferred, Ids, Part, read_by, rows_of, source_columns
from headgate.sql.purses import Purses, distinct
from headgate.sql.shared import Label, Piece, TemplateResult, Work, by_computation
from headgate.sql.template import Template

MOST_BATCHES = 4
"""When work waits for so many batches, that of the next is merged with the last if it can be."""
MOST_BEHIND = 256
"""A computation that cannot be merged, and waits for more batches than this, is stopped."""
FEWER = 4
"""A computation that had too little time for its rows is tried with so many times fewer."""
FIRST_ROWS, MORE = 32, 4
"""With how many rows computations are tried first of which nothing is known, and how many times more they get at most the
next time."""
OF_A_PART = 0.5
"""Which part of its part of a batch the next rows of a tenant shall take: they may take longer than those before."""
BEHIND = (
    "it is more than {most} batches behind, because its tenant has used more time than it may: remove or simplify the "
    "queries that are slow, and resume this one"
)


class TemplateRun:
    """A template on a server in one batch: its state goes through several works, of this batch and of earlier ones."""

    def __init__(
        self,
        work: Work,
        backlog: Sequence[Deferred] = (),
        *,
        of_lost: Sequence[Deferred] = (),
        arrived: Mapping[Label, pa.Table] | None = None,
        shared: dict[Any, Chunk] | None = None,
        new: bool = False,
    ) -> None:
        """`work` is that of this batch, `backlog` what waits from earlier ones. `of_lost` is what waits on servers that
        were lost, and `arrived` the state that they had of these computations. The templates of a server that wait for
        the same rows have them together in `shared`. A template is `new` if it is not known what so many rows take.
        """
        self._new = new
        self._shared: dict[Any, Chunk] = {} if shared is None else shared
        self.work = work
        self.template: Template = work.template
        self._state = {label: list(pieces) for label, pieces in work.state.items()}
        self.written: dict[Label, list[pa.Table]] = {}
        for label, table in (arrived or {}).items():
            self._state.setdefault(label, []).append(Piece(work.batch, table))
            self.written[label] = [table]
        stored = _among(backlog, work.constants)
        self._backlog = sorted([*stored, *_among(of_lost, work.constants)], key=lambda one: one.batch)
        self._stored = _by_batch(stored)
        self.waits = work.template.joins == 1
        self.put_aside: dict[Label, list[Deferred]] = {}
        """What waits anew, or is written anew."""
        self.gone = {WAITING + one.batch for one in backlog if one.batch not in self._stored}
        self.results: list[tuple[int, pa.Table]] = []
        """(batch whose rows they are of, results)."""
        self.faults: dict[int, str] = {}
        self._waiting = list[Part]()
        """What of this batch has to wait."""
        self._too_long = set[int]()
        """The computations of these that had too little time for all their rows."""
        self._seen = np.zeros(0, np.int64)
        """The computations that have had their turn with the rows of this batch."""
        self._reached: NDArray[np.int64] | None = None
        self.most_rows = 0
        """With how many rows it was computed at most, and in time."""

    @cached_property
    def owners(self) -> Ids:
        """The tenants of the computations that this batch has rows for, each once."""
        return distinct(owners_of(self.work.touched))

    @cached_property
    def behind(self) -> Ids:
        """The tenants whose computations wait from earlier batches, each once."""
        if not self._backlog:
            return np.zeros(0, np.int64)
        return np.unique(owners_of(self._of(np.concatenate([deferred.ids for deferred in self._backlog]))))

    @property
    def batches(self) -> list[int]:
        """The batches that have work: those from which something waits, and this one."""
        return [*(deferred.batch for deferred in self._backlog), self.work.batch]

    def compute(self, attempt: Attempt, purses: Purses, *, trial: bool = False) -> None:
        """Compute this batch for the tenants that are not slow, together; what is slow has its turn later."""
        slow = [] if not self.waits else [owner for owner in self.owners.tolist() if owner in purses.slow]
        if self._is_tried_first(purses) and not slow and not self._backlog:
            self._seen = ids_of(self.work.touched)
            self._a_few_at_a_time(self.work.touched, int(self.owners[0]), attempt, purses)
            return
        if not slow and not self._backlog:
            self._seen = ids_of(self.work.touched)
            done = guarded(
                replace(self.work, state=self._state), attempt, purses, waits=self.waits, trial=trial
            )
            self._apply(done, self.work)
            return
        owners = owners_of(self.work.touched)
        now = self.work.touched.filter(pa.array(~np.isin(owners, np.array(slow, np.int64))))
        now = self._without(now, self._ids_behind())
        self._seen = ids_of(now)
        if now.num_rows:
            self._guarded(replace(self.work, constants=now), attempt, purses, trial=trial)

    def _is_tried_first(self, purses: Purses) -> bool:
        """Whether a template gets few rows first: it is new, and others wait for its tenant."""
        alone = self._new and self.waits and len(self.owners) == 1
        return alone and purses.waited_for(int(self.owners[0]))

    def turn(self, batch: int, owner: int, attempt: Attempt, purses: Purses) -> None:
        """Compute for a slow tenant what waits from an earlier batch, or what came in this one."""
        if not self.waits:
            return
        if batch == self.work.batch:
            touched = self.work.touched
            mine = self._without(touched.filter(pa.array(owners_of(touched) == owner)), self._seen)
            self._seen = np.concatenate([self._seen, ids_of(mine)])
            behind = self._ids_behind()
            blocked = ids_of(mine)[np.isin(ids_of(mine), behind)]
            if len(blocked):
                self._waiting += map(Part, self._in_parts(blocked))
            if (rest := self._without(mine, behind)).num_rows:
                self._a_few_at_a_time(rest, owner, attempt, purses)
            return
        for at, deferred in enumerate(self._backlog):
            if deferred.batch == batch and purses.left(owner, waits=True):
                self._backlog[at] = self._caught_up(deferred, owner, attempt, purses)

    def _a_few_at_a_time(self, constants: pa.Table, owner: int, attempt: Attempt, purses: Purses) -> None:
        """Compute for a tenant what came in this batch, as far as there is time."""
        if not purses.waited_for(owner) or not _same_sources(constants):
            self._guarded(replace(self.work, constants=constants), attempt, purses)
        elif not purses.left(owner, waits=True):
            self._waiting.append(Part(ids_of(constants)))
        else:
            deferred = Deferred.of(self.work, [Part(ids_of(constants))], self._shared)
            self._waiting += self._caught_up(deferred, owner, attempt, purses).parts

    def _caught_up(self, deferred: Deferred, owner: int, attempt: Attempt, purses: Purses) -> Deferred:
        """What still waits of a batch after a tenant's turn."""
        blocked = self._ids_behind(before=deferred.batch)
        parts = list[Part]()
        for part in deferred.parts:
            constants = self._of(part.ids)
            mine = constants.num_rows > 0 and owners_of(constants)[0] == owner
            if not mine or not purses.left(owner, waits=True):
                parts.append(part)
                continue
            if (still := part.ids[np.isin(part.ids, blocked)]).size:
                parts.append(part._replace(ids=still))
            constants = self._without(constants, blocked)
            if constants.num_rows == 1 or (constants.num_rows and _same_sources(constants)):
                parts += self._advanced(part, constants, deferred, attempt, purses)
            elif constants.num_rows:
                waiting, _ = self._guarded(
                    self._of_batch(deferred, constants), attempt, purses, of=deferred.batch
                )
                parts += [Part(ids) for ids in waiting]
        return replace(deferred, parts=tuple(parts))

    def _of_batch(self, deferred: Deferred, constants: pa.Table) -> Work:
        """The work of some computations with the rows of an earlier batch."""
        rows = rows_of(deferred.rows, read_by(constants))
        clock = deferred.clock(len(self.work.clock.old))
        return replace(self.work, constants=constants, rows=rows, present=None, clock=clock, apart=True)

    def _advanced(
        self, part: Part, constants: pa.Table, deferred: Deferred, attempt: Attempt, purses: Purses
    ) -> list[Part]:
        """Compute computations that read the same sources with the next of their rows, as many as there is time for; what
        is left.
        """
        whole = self._of_batch(deferred, constants)
        rows, before = whole.rows, Clock(whole.clock.old, whole.clock.old)
        owner = int(owners_of(constants)[0])
        first = FIRST_ROWS if purses.waited_for(owner) else rows.num_rows
        done, step = part.done, min(part.step or first, rows.num_rows - part.done)
        left = list[Part]()
        while True:
            last = done + step >= rows.num_rows
            clock, single = whole.clock if last else before, step <= 1 and constants.num_rows == 1
            work = replace(
                whole, constants=constants, rows=rows.slice(done, step), clock=clock, single=single
            )
            paid = purses.spent.get(owner, 0.0)
            waiting, too_long = self._guarded(work, attempt, purses, of=deferred.batch)
            left += [
                Part(ids, done, max(1, step // FEWER) if too_long & set(ids.tolist()) else step)
                for ids in waiting
            ]
            over = [*self.faults, *(number for ids in waiting for number in ids.tolist())]
            constants = self._without(constants, np.array(over, np.int64))
            if last or not constants.num_rows:
                return left
            done += step
            fit = OF_A_PART * step * purses.share(owner) / max(1e-6, purses.spent.get(owner, 0.0) - paid)
            step = min(max(1, int(min(MORE * step, fit))), rows.num_rows - done)
            if not purses.left(owner, waits=True):
                return [*left, Part(ids_of(constants), done, step)]

    def _guarded(
        self, work: Work, attempt: Attempt, purses: Purses, *, of: int | None = None, trial: bool = False
    ) -> tuple[Sequence[Ids], frozenset[int]]:
        """Carry out a work for a part of the computations; returns what of it has to wait, and what of that had too
        little time for all its rows.
        """
        reached = self._reached_by_all()
        after = reached.copy()
        hosted = self.work.constants
        here = np.isin(ids_of(hosted), ids_of(work.touched))
        after[here] = marked(work.template, hosted.filter(pa.array(here)), work.clock.new)
        everyone = hosted.append_column("old", pa.array(reached)).append_column("new", pa.array(after))
        work = replace(work, everyone=everyone, state=self._state)
        done = guarded(work, attempt, purses, waits=self.waits, trial=trial)
        self._apply(done, work, of)
        back = np.concatenate([np.zeros(0, np.int64), *done.waiting])
        still = np.isin(ids_of(hosted), back)
        after[still] = reached[still]
        self._reached = after
        return done.waiting, done.too_long

    def _apply(self, done: Guarded, work: Work, of: int | None = None) -> None:
        result: TemplateResult = done.result
        # What waits may need pieces that are obsolete otherwise: they are removed another time.
        for label in () if done.waiting else result.gone:
            self._state.pop(label, None)
            self.written.pop(label, None)
            self.gone.add(label)
        for label, table in result.written.items():
            if table.num_rows:
                self._state.setdefault(label, []).append(Piece(work.batch, table))
                self.written.setdefault(label, []).append(table)
        if result.results is not None and result.results.num_rows:
            self.results.append((work.batch if of is None else of, by_computation(result.results)))
        self.faults |= done.faults
        if not done.waiting:
            self.most_rows = max(self.most_rows, work.rows.num_rows)
        if of is None:
            self._waiting += map(Part, done.waiting)
            self._too_long |= done.too_long

    def _reached_by_all(self) -> NDArray[np.int64]:
        """By computation: the watermark up to which it is computed."""
        if self._reached is None:
            hosted = self.work.constants
            self._reached = np.array(marked(self.work.template, hosted, self.work.clock.old))
            ids = ids_of(hosted)
            for deferred in reversed(self._backlog):
                at = np.flatnonzero(np.isin(ids, deferred.ids))
                before = deferred.clock(len(self.work.clock.old)).old
                self._reached[at] = marked(self.work.template, hosted.take(pa.array(at)), before)
        return self._reached

    def _ids_behind(self, before: int | None = None) -> Ids:
        """The computations that wait from earlier batches."""
        waiting = [d.ids for d in self._backlog if d.parts and (before is None or d.batch < before)]
        return np.concatenate(waiting) if waiting else np.zeros(0, np.int64)

    def _in_parts(self, ids: Ids) -> list[Ids]:
        """Computations that wait once more, in parts as large as those of the last batch that they wait for."""
        sizes = [len(part.ids) for d in self._backlog for part in d.parts if np.isin(part.ids, ids).any()]
        size = min(sizes, default=len(ids))
        return [ids[at : at + size] for at in range(0, len(ids), size)]

    def _of(self, ids: Ids) -> pa.Table:
        hosted = self.work.constants
        return hosted.filter(pa.array(np.isin(ids_of(hosted), ids)))

    @staticmethod
    def _without(constants: pa.Table, ids: Ids) -> pa.Table:
        return constants.filter(pa.array(~np.isin(ids_of(constants), ids))) if len(ids) else constants

    def finish(self) -> None:
        """Say what becomes of the rows that wait: `written`, `put_aside` and `gone` are complete then."""
        if self._waiting:
            deferred = Deferred.of(self.work, self._waiting, self._shared)
            fewer = max(1, deferred.count // FEWER)
            parts = [
                part._replace(step=fewer)
                if len(part.ids) == 1 and int(part.ids[0]) in self._too_long
                else part
                for part in deferred.parts
            ]
            self._backlog.append(replace(deferred, parts=tuple(parts)))
            self._merge_last()
        if len(self._backlog) > MOST_BEHIND:
            late = self._backlog[0].ids.tolist()
            self.faults |= dict.fromkeys(late, BEHIND.format(most=MOST_BEHIND))
        failed = np.array(list(self.faults), np.int64)
        self._backlog = [left for one in self._backlog if (left := one.without(failed)) is not None]
        now = _by_batch(self._backlog)
        for batch in self._stored.keys() | now.keys():
            before, after = self._stored.get(batch, []), now.get(batch, [])
            if [id(one) for one in before] == [id(one) for one in after]:
                continue
            if before:
                self.gone.add(WAITING + batch)
            if after:
                self.put_aside[WAITING + batch] = after

    def _merge_last(self) -> None:
        if len(self._backlog) > MOST_BATCHES:
            *_, before, last = self._backlog
            merged = before.followed_by(last) if before.parts else None
            if merged is not None:
                self._backlog[-2:] = [merged]

    @property
    def waiting(self) -> Mapping[int, int]:
        """By tenant: how many rows wait for it."""
        rows = dict[int, int]()
        for deferred in self._backlog:
            for owner in np.unique(owners_of(self._of(deferred.ids))).tolist():
                rows[owner] = rows.get(owner, 0) + deferred.count
        return rows


def _among(backlog: Sequence[Deferred], constants: pa.Table) -> list[Deferred]:
    return [found for one in backlog if (found := one.among(constants)) is not None]


def _same_sources(constants: pa.Table) -> bool:
    """Whether all of these computations read the same sources: then they have the same rows, however they are divided."""
    return all(len(distinct(column)) <= 1 for column in source_columns(constants))


def _by_batch(backlog: Iterable[Deferred]) -> dict[int, list[Deferred]]:
    found = dict[int, list[Deferred]]()
    for one in backlog:
        found.setdefault(one.batch, []).append(one)
    return found


def in_turns(runs: Sequence[TemplateRun], owner: int, turn: Callable[[TemplateRun, int, int], None]) -> None:
    """Give a slow tenant its turns: what waits longest comes first. `turn` has a run compute a batch for a tenant."""
    having = [run for run in runs if run.waits and (owner in run.owners or owner in run.behind)]
    for batch in sorted({batch for run in having for batch in run.batches}):
        for run in having:
            turn(run, batch, owner)
