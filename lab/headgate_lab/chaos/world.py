"""The world of a history: files, processes that take turns, and faults that strike at operations.

All operations on the store go through `World.operate`. One process runs at a time; it is replaced only
inside an operation, when it falls asleep or when another one wakes up there. So a history is a pure
function of its seed, and needs no threads.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

import greenlet

from headgate.storage.outside import Outside
from headgate_lab.chaos.faults import Endless, Fault, Killed

T = TypeVar("T")
EPOCH = 1_700_000_000.0
MOST_OPERATIONS = 20_000
"""Of a history: far more than it needs."""


class Process:
    """A driver or a task: whoever calls the store. A dead one changes nothing more."""

    def __init__(self, name: str, driver: Process | None = None) -> None:
        self.name = name
        self.driver = driver or self
        self.dead = False
        self.coroutine: Any = None
        """The coroutine that runs it, if it can sleep."""
        self.countdown = -1
        """After so many operations `then` happens to it; -1 for nothing."""
        self.then: Callable[[], None] = lambda: None


class World(Outside):
    """Files, time and chance. A subclass has the files: `objects.Objects`, `disks.SimulatedDisk`."""

    every = 1
    """Obsolete files are removed after each batch, unless a history says otherwise."""

    def __init__(self, seed: int, *, first_name: int = 0) -> None:
        self.chance = Random(seed)
        self.names = first_name
        """How many unique names have been drawn."""
        self.operations = self.changes = 0
        self.now = EPOCH
        self.processes: list[Process] = []
        """Those that lose everything when power is lost."""
        self.process = Process("the outside")
        self.faults: list[Fault] = []
        """Those of this step that have not struck."""
        self.struck: Counter[str] = Counter()
        self.full_until = -1
        self.broken = ""
        """What a process raised that it must not raise."""
        self.stale = 0
        """The next listing shows what was there before so many changes."""
        self.still = False
        """Whether nobody wakes up and nothing late arrives for the time being."""
        self._begun = (0, 0)
        self._pending: list[tuple[int, str, str, Callable[[], Any]]] = []
        self._sleeping: list[tuple[int, Fault | None, Process]] = []
        """When each sleeper wakes up: at the latest after so many operations, or at the place of a fault."""
        self.told: list[tuple[int, str, str, str, str]] | None = None
        """(change, process, what, path, remark) of each operation, if somebody listens."""

    # -- what storage takes from outside

    def unique(self) -> str:
        """32 digits; the first eight alone are unique."""
        self.names += 1
        return f"{self.names:08x}" * 4

    def here(self) -> tuple[str, int, str]:
        """The process that runs now."""
        return "host", self.names, f"second {self.now:.0f}"

    # -- operations

    def born(self, name: str, driver: Process | None = None) -> Process:
        """A process begins: a driver, or a task of one."""
        process = Process(name, driver)
        self.processes.append(process)
        return process

    def begin(self, faults: list[Fault]) -> None:
        """A step begins, with these faults."""
        self.faults = list(faults)
        self._begun = self.operations, self.changes

    def operate(
        self,
        what: str,
        path: str,
        do: Callable[[], T],
        *,
        change: bool = True,
        torn: Callable[[], None] | None = None,
    ) -> T:
        """One operation of the process that runs now; `torn` does a part of it."""
        process = self.process
        if process.dead:
            raise Killed
        if process.countdown >= 0:
            process.countdown -= 1
            if process.countdown < 0:
                process.then()
        self.operations += 1
        if self.operations > MOST_OPERATIONS:
            raise Endless
        if change:
            self.changes += 1
        if (self._pending or self._sleeping) and not self.still:
            self._meanwhile(what, path)
            if process.dead:
                raise Killed
        if self.faults:
            fault = self._due(what, path, change)
            if fault is not None:
                if fault.kind == "kill" and fault.pick % 2 and torn is not None:
                    torn()
                return self._strike(fault, what, path, do)
        if self.changes <= self.full_until and what in ("write", "create", "copy", "append"):
            self.tell(what, path, "no room")
            raise OSError(errno.ENOSPC, "no room", path)
        return do() if self.told is None else self._told(what, path, do)

    def _told(self, what: str, path: str, do: Callable[[], T]) -> T:
        """An operation that is told, also if it fails."""
        try:
            answer = do()
        except OSError as error:
            self.tell(what, path, f"fails: {error.strerror or type(error).__name__}")
            raise
        self.tell(what, path)
        return answer

    def doom(self, process: Process, after: int) -> None:
        """A process will die before an operation, after so many others."""

        def die() -> None:
            process.dead = True
            raise Killed

        process.countdown, process.then = after, die

    def hang(self, process: Process, after: int, later: int) -> None:
        """A process will fall asleep before an operation, and wake up so many operations later."""
        process.countdown, process.then = after, lambda: self._sleep(process, later)

    def nap(self, process: Process, times: int, chance: Random) -> None:
        """A process falls asleep now, for a few operations of others, and again soon, so many times."""
        if times:
            process.countdown = chance.choice((0, 0, 1, 1, 2, 3, 5, 30))
            process.then = lambda: self.nap(process, times - 1, chance)
        self._sleep(process, chance.choice((1, 1, 2, 2, 3, 4, 6, 9)))

    def tell(self, what: str, path: str, remark: str = "") -> None:
        """Note an operation, if somebody listens."""
        if self.told is not None:
            self.told.append((self.changes, self.process.name, what, path, remark))

    def _due(self, what: str, path: str, change: bool) -> Fault | None:
        operations, changes = self.operations - self._begun[0], self.changes - self._begun[1]
        for number, fault in enumerate(self.faults):
            if fault.place:
                if not (fault.any or change) or not fault.is_at(what, path):
                    continue
                if fault.at:
                    self.faults[number] = replace(fault, at=fault.at - 1)
                    continue
                self.faults.remove(fault)
                return fault
            if operations > fault.at if fault.any else change and changes > fault.at:
                self.faults.remove(fault)
                return fault
        return None

    def _strike(self, fault: Fault, what: str, path: str, do: Callable[[], T]) -> T:
        self.struck[fault.kind] += 1
        self.tell(what, path, fault.kind)
        process, kind = self.process, fault.kind
        if kind == "sleep":
            self._sleep(process.driver, fault.later, fault)
            return do()
        if kind == "stale listing":
            self.stale = fault.later
            return do()
        if kind == "naps":
            self.nap(process.driver, fault.later, Random(fault.pick))
            return do()
        if kind in ("kill after", "lost answer", "twice", "sent again"):
            try:
                answer = do()
            finally:
                if kind == "kill after":
                    process.driver.dead = process.dead = True
            if kind == "twice":
                self.send_later(fault.later, what, path, do)
                return answer
            if kind == "sent again":
                return do()
        if kind in ("late", "late kill"):
            self.send_later(fault.later, what, path, do)
        if kind == "full":
            self.full_until = self.changes + fault.later
            raise OSError(errno.ENOSPC, "no room", path)
        if kind in ("error", "lost answer", "late"):
            raise OSError(errno.ETIMEDOUT, "no answer", path)
        if kind == "power loss":
            self.lose_power(fault.pick)
        process.driver.dead = process.dead = True
        raise Killed

    def lose_power(self, pick: int) -> None:
        """Lose what is not durable, and every process."""
        for process in self.processes:
            process.dead = True

    # -- requests and processes that are late

    def send_later(self, later: int, what: str, path: str, do: Callable[[], Any]) -> None:
        """Let a request arrive after so many more operations."""
        self._pending.append((self.operations + later, what, path, do))

    def _meanwhile(self, what: str, path: str) -> None:
        now = self.operations
        due = [request for request in self._pending if request[0] <= now]
        if due:
            self._pending = [request for request in self._pending if request[0] > now]
            for request in due:
                self._arrive(*request[1:])
        awake = [
            sleeper
            for at, fault, sleeper in self._sleeping
            if at <= now or (fault is not None and fault.wakes_at(what, path))
        ]
        for sleeper in awake:
            self.wake(sleeper)

    def _arrive(self, what: str, path: str, do: Callable[[], Any]) -> None:
        process, self.process = self.process, Process("the network")
        self.tell(what, path, "arrives late")
        try:
            do()
        except OSError:
            self.tell(what, path, "is refused")
        finally:
            self.process = process

    def run(self, process: Process, work: Callable[[], None], *, sleeps: bool) -> None:
        """Let a process work until it ends, dies or falls asleep. `work` must handle its errors."""
        before, self.process = self.process, process
        try:
            if not sleeps:
                work()
                return
            process.coroutine = greenlet.greenlet(work)
            process.coroutine.gr_context = copy_context()
            process.coroutine.switch()
        finally:
            self.process = before

    def _sleep(self, process: Process, later: int, fault: Fault | None = None) -> None:
        if process.coroutine is None or process.coroutine is not greenlet.getcurrent():
            return
        running = self.process
        self._sleeping.append((self.operations + later, fault, process))
        process.coroutine.parent.switch()
        self.process = running
        if running.dead or process.dead:
            raise Killed

    def wake(self, sleeper: Process) -> None:
        """Let a sleeping process go on, now."""
        asleep = len(self._sleeping)
        self._sleeping = [entry for entry in self._sleeping if entry[2] is not sleeper]
        if len(self._sleeping) == asleep:
            return  # another one that woke up has woken it
        running = self.process
        sleeper.coroutine.parent = greenlet.getcurrent()
        sleeper.coroutine.switch()
        self.process = running

    def settle(self) -> None:
        """Let all late requests arrive and all sleepers wake up."""
        while self._pending or self._sleeping:
            requests, self._pending = self._pending, []
            for _, what, path, do in requests:
                self._arrive(what, path, do)
            for *_, sleeper in list(self._sleeping):
                self.wake(sleeper)

    def end(self) -> None:
        """Kill whoever still sleeps, so that their locks are released."""
        for *_, sleeper in self._sleeping:
            sleeper.dead = True
        self.settle()

    # -- files, for checks: no process and no fault

    def contents(self) -> dict[str, bytes]:
        """Every file and its bytes."""
        raise NotImplementedError

    def overwrite(self, path: str, data: bytes) -> None:
        """Change a stored file, behind everybody's back."""
        raise NotImplementedError


class Place:
    """The world that this process simulates now; file systems are made by fsspec and find it here."""

    world: World


def here() -> Any:
    """The present world."""
    return Place.world
