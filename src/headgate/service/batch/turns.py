"""The templates of a server in one batch: in which order they are computed, and what that took for each tenant.

First come the tenants that fit into the batch, template by template, the cheap ones first; then the joins, which cannot
wait; then the slow tenants in turns (`headgate.sql.purses`). What does not fit waits (`headgate.sql.deferral`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate import logs
from headgate.service.batch.attempt import BROKEN, unexpected
from headgate.service.tenant_use import Fairness, TenantUse
from headgate.sql.blame import Attempt, Tried, ids_of, owners_of
from headgate.sql.deferral import TemplateRun, in_turns
from headgate.sql.purses import SHARED, Purses, distinct
from headgate.sql.shared import Work

log = logs.logger("headgate.service")
TRIAL_EVERY = 100
"""After how many batches tenants that share a template that takes long are computed apart again."""
TAKES_LONG = 0.5
"""A template takes long if it takes this part of what all tenants have together."""


class Parked(NamedTuple):
    """A template that a batch has no rows for, and of which only work of one tenant waits. It is not looked at before
    its tenant has a turn, and time.
    """

    owner: int
    label: int
    """Of what waits longest."""
    template: int
    rows: int
    begin: Callable[[], None]
    """Adds its run to those that are hosted."""


class Turns:
    """Computes the templates of a server. `took` is told of each that has results."""

    def __init__(
        self,
        hosted: Mapping[int, TemplateRun],
        attempt: Attempt,
        purses: Purses,
        *,
        trials: Mapping[int, int],
        batch: int,
        took: Callable[[int, TemplateRun], None],
        parked: Sequence[Parked] = (),
    ) -> None:
        """`parked` may add to `hosted`."""
        self._parked = sorted(parked, key=lambda one: (one.label, one.template))
        self._hosted, self._attempt, self._purses, self._batch, self._took = (
            hosted,
            attempt,
            purses,
            batch,
            took,
        )
        self._trials = {number: at for number, at in trials.items() if number in hosted}
        self._peaks: dict[int, int] = {}
        self._took_s: dict[int, float] = {}
        """By tenant: how long the batch was about what is only its own, by the clock on the wall."""
        self.broken: dict[int, str] = {}
        """By template that broke in an unknown way: why. Nothing of it counts."""

    def compute(self) -> None:
        """Compute all templates."""
        runs, purses = self._hosted, self._purses
        active = {owner for run in runs.values() for owner in run.owners.tolist()}
        behind = {owner for run in runs.values() for owner in run.behind.tolist()}
        purses.meet(active, behind | {one.owner for one in self._parked})
        # Joins come last of those that share, then the costly ones: if a tenant's time ends, they are what is left.
        for number, run in sorted(runs.items(), key=lambda item: (not item[1].waits, item[1].template.cost)):
            began = time.perf_counter()
            trial = self._trials.get(number, self._batch + 1) <= self._batch
            with self._unbroken(number), self._paid(*run.owners.tolist()):
                run.compute(self._tried, purses, trial=trial)
                self._took(number, run)
            self._time(number, run, time.perf_counter() - began, trial=trial)
        for owner in purses.turns():
            self._turns_of(owner)
        for number, run in runs.items():
            with self._unbroken(number):
                run.finish()

    def _turns_of(self, owner: int) -> None:
        """A slow tenant's turns: what waits longest comes first."""
        purses = self._purses
        for one in [parked for parked in self._parked if parked.owner == owner]:
            if not purses.left(owner, waits=True):
                break
            with self._paid(owner):
                one.begin()
            self._parked.remove(one)
            self._each_turn(owner, one.template)
        self._each_turn(owner, *self._hosted)

    def _each_turn(self, owner: int, *templates: int) -> None:
        number_of = {id(self._hosted[number]): number for number in templates if number in self._hosted}

        def turn(run: TemplateRun, batch: int, owner: int) -> None:
            number = number_of[id(run)]
            if number not in self.broken:
                with self._unbroken(number), self._paid(owner):
                    run.turn(batch, owner, self._tried, self._purses)
                    self._took(number, run)

        in_turns([self._hosted[number] for number in number_of.values()], owner, turn)

    @contextmanager
    def _paid(self, *owners: int) -> Iterator[None]:
        """Have a tenant pay for all that the block takes, if it is for nobody else: statements are paid for where they
        run, and what is around them here.
        """
        if len(owners) != 1:
            yield
            return
        (owner,), purses = owners, self._purses
        wall, cpu, paid = time.perf_counter(), time.process_time(), purses.spent.get(owner, 0.0)
        yield
        more = time.process_time() - cpu - (purses.spent.get(owner, 0.0) - paid)
        purses.pay(owner, max(0.0, more))
        self._took_s[owner] = self._took_s.get(owner, 0.0) + time.perf_counter() - wall

    def _tried(self, work: Work, seconds: float) -> Tried:
        tried = self._attempt(work, seconds)
        if tried.peak_bytes:
            for owner in distinct(owners_of(work.constants))[:2].tolist():
                self._peaks[owner] = max(tried.peak_bytes, self._peaks.get(owner, 0))
        return tried

    def _time(self, number: int, run: TemplateRun, seconds: float, *, trial: bool) -> None:
        """Remember to find out for whom a template takes long that several tenants share."""
        if trial:
            self._trials[number] = self._batch + TRIAL_EVERY
        elif len(run.owners) > 1 and seconds > TAKES_LONG * self._purses.together:
            self._trials.setdefault(number, self._batch + 1)

    @contextmanager
    def _unbroken(self, number: int) -> Iterator[None]:
        try:
            yield
        except BROKEN as error:
            log.exception("template %d failed", number)
            self.broken[number] = unexpected(error)

    # -- after all

    @property
    def faults(self) -> dict[int, str]:
        """The computations that failed, and why."""
        faults = dict[int, str]()
        for number, run in self._hosted.items():
            if number in self.broken:
                faults |= dict.fromkeys(ids_of(run.work.constants).tolist(), self.broken[number])
            else:
                faults |= run.faults
        return faults

    @property
    def slow_seconds(self) -> float:
        """How long the batch was about the tenants that are slow. They pay for the processor, and a batch without them
        would be shorter by what they took of the clock.
        """
        return sum(
            max(self._purses.spent.get(owner, 0.0), self._took_s.get(owner, 0.0))
            for owner in self._purses.slow
        )

    def fairness(self) -> Fairness:
        """What the next batch has to know."""
        return Fairness(self._purses.after(), self._trials)

    def usage(self, rows: pa.Table, results: Mapping[int, tuple[int, int]]) -> dict[int, TenantUse]:
        """What the batch took for each tenant, given its results (rows, bytes)."""
        read = self._rows_read(rows)
        waiting = dict[int, int]()
        for number, run in self._hosted.items():
            if number not in self.broken:
                for owner, count in run.waiting.items():
                    waiting[owner] = waiting.get(owner, 0) + count
        for one in self._parked:
            waiting[one.owner] = waiting.get(one.owner, 0) + one.rows
        owners = {*self._purses.cpu, *read, *results, *waiting} - {SHARED}
        return {
            owner: TenantUse(
                round(1e3 * self._purses.cpu.get(owner, 0.0), 3),
                read.get(owner, 0),
                *results.get(owner, (0, 0)),
                waiting.get(owner, 0),
                self._peaks.get(owner, 0),
            )
            for owner in sorted(owners)
        }

    def _rows_read(self, rows: pa.Table) -> dict[int, int]:
        """By tenant: the rows of the sources that it reads, each once."""
        counts = np.bincount(rows.column("source").to_numpy(), minlength=1)
        sources_of = dict[int, list[NDArray[np.int64]]]()
        for run in self._hosted.values():
            touched = run.work.touched
            owners = owners_of(touched)
            columns = [touched.column(f"s{i}").to_numpy() for i in range(run.template.sources)]
            for owner in run.owners.tolist() if len(run.owners) == 1 else ():
                sources_of.setdefault(owner, []).extend(columns)
            if len(run.owners) > 1:
                at = np.searchsorted(run.owners, owners)
                for column in columns:
                    pairs = np.unique(at * np.int64(1 << 24) + column)
                    who, source = pairs >> 24, pairs & ((1 << 24) - 1)
                    edges = np.flatnonzero(np.diff(who)) + 1
                    for part, first in zip(
                        np.split(source, edges), who[np.r_[0, edges]].tolist(), strict=True
                    ):
                        sources_of.setdefault(int(run.owners[first]), []).append(part)
        read = dict[int, int]()
        for owner, parts in sources_of.items():
            seen = np.zeros(max(len(counts), 1), bool)
            for part in parts:
                seen[part[part < len(counts)]] = True
            read[owner] = int(counts[seen].sum())
        return read
