"""Plays a history: the steps with their faults, then the end, at which everything must come out right."""

from __future__ import annotations

import os
import traceback
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from headgate.errors import BatchOrder, HeadgateError, Superseded
from headgate_lab.chaos import oracle
from headgate_lab.chaos.checks import Raw
from headgate_lab.chaos.disks import SimulatedDisk
from headgate_lab.chaos.drivers import FIRST, SECOND, Driver, Published
from headgate_lab.chaos.engines import Executors
from headgate_lab.chaos.expected import explained
from headgate_lab.chaos.faults import AWAY, BEFORE, IN_TASKS, Endless, Fault
from headgate_lab.chaos.history import History, Settings, Step
from headgate_lab.chaos.objects import Objects, flipped
from headgate_lab.chaos.past import Snapshot, inside
from headgate_lab.chaos.source import Folder, Log, Row, SparkRecords
from headgate_lab.chaos.world import EPOCH, Place, World


@dataclass
class Outcome:
    """What came of a history."""

    history: History
    problems: list[str] = field(default_factory=list)
    struck: Counter[str] = field(default_factory=Counter)
    told: list[tuple[int, str, str, str, str]] = field(default_factory=list)
    """What happened, if it was to be told."""

    @property
    def failed(self) -> bool:
        """Whether a law was broken."""
        return bool(self.problems)


class Failure(Exception):
    """A law is broken."""


class Player:
    """Plays one history, from the beginning or from the snapshot of its past."""

    def __init__(self, history: History, before: Snapshot | None = None, *, tell: bool = False) -> None:
        self.history = history
        self.settings = history.settings if before is None else before.settings
        kind = Objects if self.settings.profile == "objects" else SimulatedDisk
        self.world: World = kind(
            history.seed,
            {} if before is None else before.files,
            first_name=0 if before is None else before.names,
        )
        Place.world = self.world
        self.world.every = self.settings.every
        self.machines = Executors(self.settings.executors, {} if before is None else before.caches)
        self.published = Published()
        join = self.settings.operator == "join"
        self.source: Log | SparkRecords = SparkRecords()
        if self.settings.way == "direct":
            self.source = Log(two_sides=join)
        if self.settings.source == "files":
            assert isinstance(self.world, Objects)
            self.source = Folder(self.world)
        self.rows: list[Row] = []
        self.split = False
        self.driver: Driver | None = None
        self.drivers: list[Driver] = []
        self._number = 0
        root = self.world.url.partition("://")[2]
        known = None if before is None else before.raw
        self.raw = Raw(root, FIRST, self.settings.sink, known)
        """The files of the stage that shows the output."""
        self.others: list[Raw] = []
        if self.settings.operator == "two stages":
            self.others = [Raw(root, FIRST, "function")]
            self.raw = Raw(root, SECOND, self.settings.sink, known)
        self.seen: dict[int, list[dict[str, Any]]] = {}
        """The batches that readers have seen."""
        self._rotten, self._sound = "", b""
        if before is not None:
            self._restore(before)
        if tell:
            self.world.told = []

    # -- from the beginning to the end

    def past(self) -> Snapshot:
        """Play the past, and return the world after it."""
        with inside(self.world):
            for step in self.history.past:
                self._step(step)
                self._check()
        return self._snapshot()

    def play(self) -> Outcome:
        """Play the steps and the end."""
        outcome = Outcome(self.history, struck=self.world.struck)
        with inside(self.world):
            try:
                for step in self.history.steps:
                    self._step(step)
                    self._check()
                self._end()
            except Failure as failure:
                outcome.problems.append(str(failure))
            except Endless:
                outcome.problems.append("a driver goes on for ever")
            finally:
                self.world.faults = []
                self.world.end()
        outcome.told = self.world.told or []
        return outcome

    def _step(self, step: Step) -> None:
        self._say(f"{len(step.rows)} rows arrive, of the keys {', '.join(map(str, step.rows))}")
        self._add(step.rows)
        if step.channels:
            self.settings = replace(self.settings, channels=step.channels)
        driver = self._driver(step.restart)
        self._before(driver, step.faults)
        if step.route is not None:
            self._wish(driver, step)
        driver.engine.task_faults = [fault for fault in step.faults if fault.kind in IN_TASKS]
        struck = [fault for fault in step.faults if fault.kind not in BEFORE | IN_TASKS]
        self.world.begin(struck)
        sleeps = any(fault.kind in AWAY for fault in struck)
        end = "drain" if step.drain else ""
        self.world.run(driver.process, lambda: driver.work(end=end), sleeps=sleeps)
        self.world.faults = []
        self.world.full_until = -1
        self._after(driver)

    def _end(self) -> None:
        """Faults have stopped: everything that is late happens, then a new driver finishes the query."""
        chance = Random(f"end {self.history.seed}")
        if isinstance(self.source, Log):
            self.source.vanished = False
        self._say("all faults have stopped")
        old = self.driver
        if old is not None and old.failed and chance.random() < 0.6:
            self._say("the same stage is used on")
            self._work_in_peace(old)
            self._check()
        early = chance.random() < 0.35
        if early:
            self.world.settle()
            self._check()
        executors = chance.random()
        if executors < 0.4:
            self.machines.lose_all()
        elif executors < 0.7:
            self.machines.bring_back(0, -1)
        behind = isinstance(self.source, SparkRecords) and self.source.done + 1 < len(self.source.planned)
        added = not behind or chance.random() < 0.5
        if added:  # a row of each key shows all of the state
            self._add(sorted({k for k, _, _ in self.rows}) or [0])
        before = [(raw, raw.committed) for raw in (self.raw, *self.others)]
        finishing = "finish" if self.settings.operator == "windows" else "drain"
        driver = self._new()
        # Whoever sleeps may wake up while the last driver is at work, and overtake it once more.
        self.world.still = early or chance.random() < 0.2
        self._work_in_peace(driver, finishing)
        if driver.error is not None and not self.world.still:
            driver, self.world.still = self._new(), True
            self._work_in_peace(driver, finishing)
        if driver.error is not None:
            raise Failure(f"the last driver did not finish: {driver.error!r}")
        self.world.still = False
        self.world.settle()
        self._after(driver)
        self._check(final=True)
        files, drivers = self.world.contents(), self._number
        if not self.world.struck["power loss"] and not self.world.struck["bit rot"]:
            for raw in (self.raw, *self.others):
                for problem in raw.journal(files, in_commits=self.settings.every > 1):
                    raise Failure(problem)
        if early and self.settings.every == 1:
            swept = [raw for raw, committed in before if raw.committed > committed]
            rubbish = [name for raw in swept for name in raw.rubbish(files, drivers, waves=added)]
            if rubbish:
                raise Failure(f"nobody removed {rubbish[0]} (of {len(rubbish)} such files)")

    def _work_in_peace(self, driver: Driver, end: str = "") -> None:
        """A driver works without faults; only another driver can stop it."""
        self.world.run(driver.process, lambda: driver.work(end=end), sleeps=False)
        self._after(driver)
        if driver.process.dead or not driver.done:
            raise Failure(f"{driver.process.name} did not finish")
        if driver.error is not None and not isinstance(driver.error, (Superseded, BatchOrder)):
            raise Failure(f"{driver.process.name} raised without any fault: {driver.error!r}")

    # -- drivers

    def _new(self) -> Driver:
        self._forget_a_batch()
        self._number += 1
        self.driver = Driver(
            self._number, self.settings, self.world, self.machines, self.source, self.published
        )
        self.drivers.append(self.driver)
        return self.driver

    def _forget_a_batch(self) -> None:
        """Spark may not have noted the last batch when its process died. Then it delivers the batch to the
        next one, even if the stage was drained in between.
        """
        source, chance = self.source, Random(f"note {self._number} {self.history.seed}")
        if not isinstance(source, SparkRecords) or self.others or chance.random() < 0.7:
            return
        ended = all(driver.done or driver.process.dead for driver in self.drivers)
        if ended and source.done == source.delivered >= 0:
            source.done -= 1
            self._say(f"Spark has not noted batch {source.done + 1}, and delivers it again")

    def _driver(self, restart: str) -> Driver:
        driver = self.driver
        dead = driver is not None and driver.process.dead
        if restart == "new" or (restart == "again" and dead):
            self.machines.lose(0)  # one of the old executors is not there for the new driver
        if driver is None or restart == "new" or not driver.done or driver.process.dead:
            return self._new()
        if driver.error is not None and restart != "again":
            return self._new()
        return driver

    def _wish(self, driver: Driver, step: Step) -> None:
        assert step.route is not None
        kind, first, _ = step.route
        if kind == "channels":
            driver.stage.rescale(1 + first % min(3, self.settings.bins))
        else:
            self.split |= kind == "split"
            driver.policy.wish = step.route

    def _after(self, driver: Driver) -> None:
        """Look at what became of every driver so far."""
        if self.world.broken:
            raise Failure(self.world.broken)
        for other in self.drivers:
            error = other.error
            if error is None or getattr(error, "was_looked_at", False):
                continue
            self._say(f"{other.process.name} stops: {type(error).__name__}: {str(error)[:160]}")
            if not isinstance(error, HeadgateError):
                place = traceback.extract_tb(error.__traceback__)[-1]
                raise Failure(
                    f"{other.process.name} raised {type(error).__name__}: {error} ({os.path.basename(place.filename)}:{place.lineno})"
                )
            if not self._expected(other, error):
                raise Failure(
                    f"{other.process.name} raised {type(error).__name__}, which no fault explains: {error}"
                )
            error.was_looked_at = True  # type: ignore[attr-defined]
        if self._rotten:
            self._restore_rotten()

    def _expected(self, driver: Driver, error: HeadgateError) -> bool:
        overtaken = driver.number < self._number
        return explained(error, self.world.struck, overtaken=overtaken, way=self.settings.way)

    # -- rows and faults before a step

    def _add(self, keys: Any) -> None:
        rows: list[Row] = []
        times = list(range(len(self.rows), len(self.rows) + len(keys)))
        Random(len(self.rows)).shuffle(times)  # within a batch, rows come in any order of their times
        for key, time in zip(keys, times, strict=True):
            n = sum(row[0] == key for row in self.rows)
            rows.append((key, 1 << n, time * 1_000_000))
            self.rows.append(rows[-1])
        self.source.add(rows)

    def _before(self, driver: Driver, faults: tuple[Fault, ...]) -> None:
        if isinstance(self.source, Log):
            self.source.vanished = False
        for fault in faults:
            struck = fault.kind in BEFORE
            if fault.kind == "cold cache":
                self.machines.lose_all()
            elif fault.kind == "stale cache":
                struck = self.machines.bring_back(fault.pick % len(self.machines.slots), fault.pick // 4)
            elif fault.kind == "bit rot":
                struck = self._rot(fault)
            elif fault.kind == "range vanishes" and isinstance(self.source, Log):
                self.source.vanished = True
            elif fault.kind == "clock jumps":
                self.world.now = EPOCH + (fault.pick - (1 << 15)) * 3600.0
            if struck:
                self.world.struck[fault.kind] += 1
                self._say(f"{fault.kind}: {self._rotten}" if fault.kind == "bit rot" else fault.kind)

    def _rot(self, fault: Fault) -> bool:
        """Flip a bit of a file that somebody may need; nobody has it in memory."""
        places = [f"{self.raw.out}/_", *(f"{raw.checkpoint}/" for raw in (self.raw, *self.others))]
        names = [
            n for n, data in sorted(self.world.contents().items()) if data and n.startswith(tuple(places))
        ]
        names = [n for n in names if fault.is_at("", n)] or names
        if not names or self._rotten:
            return False
        pick = fault.pick
        self._rotten = names[pick % len(names)]
        if fault.place == "state":
            self.machines.lose_all()
        self._sound = self.world.contents()[self._rotten]
        self._damaged = flipped(self._sound, Random(pick))
        self.world.overwrite(self._rotten, self._damaged)
        return True

    def _restore_rotten(self) -> None:
        """Restore the file from a backup, wherever it is now."""
        for path, data in list(self.world.contents().items()):
            if data is self._damaged:
                self.world.overwrite(path, self._sound)
        self._rotten = ""

    # -- checks

    def _check(self, *, final: bool = False) -> None:
        files = self.world.contents()
        for raw in (self.raw, *self.others):
            for problem in raw.problems(files):
                raise Failure(problem)
        for problem in self.published.problems:
            raise Failure(problem)
        if self.settings.sink == "parquet":
            try:
                shown = self.raw.shown(files)
            except (AssertionError, ValueError, KeyError) as error:
                raise Failure(f"readers cannot read the output: {error}") from None
        else:
            shown = dict(self.published.batches)
        for batch, rows in self.seen.items():
            if shown.get(batch) != rows:
                raise Failure(f"batch {batch} was shown with other rows before")
        self.seen = shown
        if sorted(shown) != list(range(len(shown))) or (shown and max(shown) > self.raw.committed):
            raise Failure(f"the batches {sorted(shown)} are shown, and {self.raw.committed} is committed")
        if final and len(shown) != self.raw.committed + 1:
            raise Failure(f"batch {len(shown)} is committed and was never shown")
        operator = self.settings.operator
        for problem in oracle.wrong(operator, self.rows, shown, split=self.split, final=final):
            raise Failure(problem)

    def _say(self, text: str) -> None:
        self.world.tell("", "", text)

    # -- the past

    def _snapshot(self) -> Snapshot:
        source = self.source
        inner = (
            {number: tuple(rows) for number, rows in source.partitions.items()}
            if isinstance(source, Log)
            else (tuple(source.planned), source.done)
        )
        return Snapshot(
            dict(self.world.contents()), self.world.names, self.world.now, tuple(self.rows), inner,
            dict(self.published.batches), self.settings, self._number, self.split,
            tuple(self.machines.slots), tuple(self.machines.lost), self.machines.memory.contents(), self.raw,
        )  # fmt: skip

    def _restore(self, before: Snapshot) -> None:
        self.world.now, self.rows = before.now, list(before.rows)
        if isinstance(self.source, Log):
            self.source.partitions = {number: list(rows) for number, rows in before.source.items()}
        else:
            self.source.planned, self.source.done = list(before.source[0]), before.source[1]
            self.source.delivered = self.source.done
        self.published.batches = dict(before.published)
        self._number, self.split = before.drivers, before.split
        self.machines.slots, self.machines.lost = list(before.slots), list(before.lost)


_past: tuple[tuple[Settings, tuple[Step, ...]], Snapshot] | None = None


def play(history: History, *, tell: bool = False) -> Outcome:
    """Play a history. Its past is played first, unless the last history had the same."""
    global _past
    key = history.settings, history.past
    if tell or _past is None or _past[0] != key:
        player = _player(history)(replace(history, seed=0))
        try:
            _past = key, player.past()
        except (Failure, Endless) as failure:
            return Outcome(
                history, [f"in the past, without any fault: {str(failure) or 'it goes on for ever'}"]
            )
    return _player(history)(history, _past[1], tell=tell).play()


def _player(history: History) -> type[Player]:
    if history.settings.way != "service":
        return Player
    from headgate_lab.chaos.service_play import ServicePlayer  # it takes a second to import

    return ServicePlayer


__all__ = ["Outcome", "Player", "play"]
