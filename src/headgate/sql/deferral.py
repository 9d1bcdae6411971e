"""Work that waits: the rows that some computations of a template have not seen yet, and its place in the order of batches.

What a tenant has no time for in a batch is not lost and not cut. The rows that its computations read in that batch are
kept with the watermarks of that moment, and computed before all later rows when there is time. So results do not
depend on who waited when, and for how long. Only templates over one source wait: joins share the rows that a server
keeps, which are forgotten by the clock of all.

A `TemplateRun` is a template in one batch on a server: each of its computations stands at a batch of its own, all
before it is computed, and nothing of it twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.sql.blame import Attempt, Guarded, guarded, ids_of, owners_of
from headgate.sql.clock import NEVER, Clock, marked
from headgate.sql.purses import Purses, distinct
from headgate.sql.shared import Label, Piece, TemplateResult, Work, by_computation
from headgate.sql.template import Template

Ids = NDArray[np.int64]
WAITING = -(1 << 62)
"""The pieces of rows that wait have labels from here on: this and the number of their batch. No pane is that early."""
MOST_BATCHES = 16
"""When work waits for so many batches, that of the next is merged with the last if it can be."""
MOST_MERGED = 100_000
"""How many rows are merged into one."""
MOST_BEHIND = 256
"""A computation that cannot be merged, and waits for more batches than this, is stopped."""
BEHIND = (
    "it is more than {most} batches behind, because its tenant has used more time than it may: remove or simplify the "
    "queries that are slow, and resume this one"
)


def waits(label: Label) -> bool:
    """Whether a label is that of rows that wait."""
    return label < WAITING // 2


_SOURCE = re.compile(r"s\d+")


@dataclass(frozen=True)
class Deferred:
    """The rows of one batch that wait for some computations, with the watermarks of their sources then."""

    batch: int
    rows: pa.Table
    sources: Ids
    old: Ids
    new: Ids
    parts: tuple[Ids, ...]
    """The computations, by those that are tried together."""

    @classmethod
    def of(cls, work: Work, parts: Sequence[Ids]) -> Deferred:
        """What of a work has to wait."""
        ids = np.concatenate(parts)
        waiting = work.constants.filter(pa.array(np.isin(ids_of(work.constants), ids)))
        sources = _read_by(waiting)
        return cls(
            work.batch, _rows_for(work, sources), sources, work.clock.old[sources], work.clock.new[sources], tuple(parts)
        )  # fmt: skip

    @classmethod
    def of_table(cls, table: pa.Table) -> Deferred:
        """Read what `to_table` gave."""
        meta = table.schema.metadata
        numbers = {name: np.frombuffer(meta[name.encode()], np.int64) for name in ("sources", "old", "new")}
        ids, cuts = np.frombuffer(meta[b"ids"], np.int64), np.frombuffer(meta[b"cuts"], np.int64)
        parts = tuple(np.split(ids, cuts))
        return cls(int(meta[b"batch"]), table.replace_schema_metadata(None), **numbers, parts=parts)

    def to_table(self) -> pa.Table:
        """A piece of state: the rows, and all else beside them."""
        cuts = np.cumsum([len(part) for part in self.parts])[:-1].astype(np.int64)
        return self.rows.replace_schema_metadata(
            {
                "batch": str(self.batch),
                "sources": self.sources.astype(np.int64).tobytes(),
                "old": self.old.astype(np.int64).tobytes(),
                "new": self.new.astype(np.int64).tobytes(),
                "ids": self.ids.tobytes(),
                "cuts": cuts.tobytes(),
            }
        )

    @cached_property
    def ids(self) -> Ids:
        """All computations that wait."""
        return np.concatenate([np.zeros(0, np.int64), *self.parts])

    def clock(self, sources: int) -> Clock:
        """The clock of that batch, for so many sources."""
        old, new = np.full(sources, NEVER), np.full(sources, NEVER)
        old[self.sources], new[self.sources] = self.old, self.new
        return Clock(old, new)

    def among(self, constants: pa.Table) -> Deferred | None:
        """The part for computations of this table, each part with one tenant; None if there is none. Ids are used
        again, so one that was born later is another.
        """
        here = constants.filter(pa.array(constants.column("born").to_numpy() <= self.batch))
        ids, owners = ids_of(here), owners_of(here)
        order = np.argsort(ids)
        parts = list[Ids]()
        for part in self.parts:
            found = part[np.isin(part, ids)]
            whose = owners[order[np.searchsorted(ids, found, sorter=order)]] if len(found) else found
            parts += [found[whose == owner] for owner in np.unique(whose)]
        if not parts:
            return None
        read = _read_by(here.filter(pa.array(np.isin(ids, np.concatenate(parts)))))
        kept = np.isin(self.sources, read)
        rows = self.rows.filter(pa.array(np.isin(self.rows.column("source").to_numpy(), read)))
        return Deferred(self.batch, rows, self.sources[kept], self.old[kept], self.new[kept], tuple(parts))

    def without(self, ids: Ids) -> Deferred | None:
        """The same without some computations; None if none is left."""
        if self.parts and not np.isin(self.ids, ids).any():
            return self
        parts = tuple(left for part in self.parts if len(left := part[~np.isin(part, ids)]))
        return replace(self, parts=parts) if parts else None

    def followed_by(self, later: Deferred) -> Deferred | None:
        """The work of two batches as one, if the same computations wait for both, and it is not too large."""
        same = np.array_equal(np.sort(self.ids), np.sort(later.ids))
        joined = same and np.array_equal(self.sources, later.sources) and np.array_equal(self.new, later.old)
        if not joined or self.rows.num_rows + later.rows.num_rows > MOST_MERGED:
            return None
        rows = pa.concat_tables([self.rows, later.rows.select(self.rows.column_names)])
        return replace(self, rows=rows, new=later.new)


def _rows_for(work: Work, sources: Ids) -> pa.Table:
    """The rows of some sources, in the columns that the template reads."""
    columns = ["source", "time", *(slot for slot in work.template.slots[0] if slot not in ("source", "time"))]
    rows = work.rows.select(columns)
    return rows.filter(pa.array(np.isin(rows.column("source").to_numpy(), sources))).combine_chunks()


class TemplateRun:
    """A template on a server in one batch: its state goes through several works, of this batch and of earlier ones."""

    def __init__(
        self,
        work: Work,
        backlog: Sequence[Deferred] = (),
        *,
        of_lost: Sequence[Deferred] = (),
        arrived: Mapping[Label, pa.Table] | None = None,
    ) -> None:
        """`work` is that of this batch, `backlog` what waits from earlier ones. `of_lost` is what waits on servers that
        were lost, and `arrived` the state that they had of these computations.
        """
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
        self.gone = {WAITING + one.batch for one in backlog if one.batch not in self._stored}
        self.results: list[tuple[int, pa.Table]] = []
        """(batch whose rows they are of, results)."""
        self.faults: dict[int, str] = {}
        self._waiting = list[Ids]()
        """What of this batch has to wait."""
        self._seen = np.zeros(0, np.int64)
        """The computations that have had their turn with the rows of this batch."""
        self._reached: NDArray[np.int64] | None = None

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
                self._waiting += self._in_parts(blocked)
            if (rest := self._without(mine, behind)).num_rows:
                self._guarded(replace(self.work, constants=rest), attempt, purses)
            return
        for at, deferred in enumerate(self._backlog):
            if deferred.batch == batch:
                self._backlog[at] = self._caught_up(deferred, owner, attempt, purses)

    def _caught_up(self, deferred: Deferred, owner: int, attempt: Attempt, purses: Purses) -> Deferred:
        """What still waits of a batch after a tenant's turn."""
        blocked = self._ids_behind(before=deferred.batch)
        clock = deferred.clock(len(self.work.clock.old))
        parts = list[Ids]()
        for part in deferred.parts:
            constants = self._of(part)
            if not constants.num_rows or owners_of(constants)[0] != owner:
                parts.append(part)
                continue
            if (still := part[np.isin(part, blocked)]).size:
                parts.append(still)
            work = replace(
                self.work,
                constants=self._without(constants, blocked),
                rows=deferred.rows,
                present=None,
                clock=clock,
                apart=True,
            )
            if work.constants.num_rows:
                parts += self._guarded(work, attempt, purses, of=deferred.batch)
        return replace(deferred, parts=tuple(parts))

    def _guarded(
        self, work: Work, attempt: Attempt, purses: Purses, *, of: int | None = None, trial: bool = False
    ) -> Sequence[Ids]:
        """Carry out a work for a part of the computations; returns what of it has to wait."""
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
        return done.waiting

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
        if of is None:
            self._waiting += done.waiting

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
        sizes = [len(part) for d in self._backlog for part in d.parts if np.isin(part, ids).any()]
        size = min(sizes, default=len(ids))
        return [ids[at : at + size] for at in range(0, len(ids), size)]

    def _of(self, ids: Ids) -> pa.Table:
        hosted = self.work.constants
        return hosted.filter(pa.array(np.isin(ids_of(hosted), ids)))

    @staticmethod
    def _without(constants: pa.Table, ids: Ids) -> pa.Table:
        return constants.filter(pa.array(~np.isin(ids_of(constants), ids))) if len(ids) else constants

    def finish(self) -> None:
        """Say what becomes of the rows that wait: `written` and `gone` are complete then."""
        if self._waiting:
            self._backlog.append(Deferred.of(self.work, self._waiting))
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
                self.written[WAITING + batch] = [one.to_table() for one in after]

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
                rows[owner] = rows.get(owner, 0) + deferred.rows.num_rows
        return rows


def _among(backlog: Sequence[Deferred], constants: pa.Table) -> list[Deferred]:
    return [found for one in backlog if (found := one.among(constants)) is not None]


def _by_batch(backlog: Iterable[Deferred]) -> dict[int, list[Deferred]]:
    found = dict[int, list[Deferred]]()
    for one in backlog:
        found.setdefault(one.batch, []).append(one)
    return found


def in_turns(
    runs: Sequence[TemplateRun], purses: Purses, turn: Callable[[TemplateRun, int, int], None]
) -> None:
    """Give the slow tenants their turns, whoever used least of late first, and of each what waits longest first.
    `turn` has a run compute a batch for a tenant.
    """
    for owner in purses.turns():
        having = [run for run in runs if run.waits and (owner in run.owners or owner in run.behind)]
        for batch in sorted({batch for run in having for batch in run.batches}):
            for run in having:
                turn(run, batch, owner)


def _read_by(constants: pa.Table) -> Ids:
    """The sources that some computations read."""
    numbers = [
        constants.column(name).to_numpy() for name in constants.column_names if _SOURCE.fullmatch(name)
    ]
    return np.unique(np.concatenate(numbers)).astype(np.int64)
