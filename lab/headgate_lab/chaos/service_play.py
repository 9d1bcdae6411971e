"""Plays a history of the query service. Users register queries, remove, pause and resume them, and read results;
servers are lost and added; and the service is killed, put to sleep and started again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from headgate.errors import HeadgateError, Superseded
from headgate.hosting import Move
from headgate.service.queries import ACTIVE
from headgate.service.queries import Query as Registered
from headgate.service.service import Service
from headgate.service.tenants import OPERATOR
from headgate_lab.chaos.history import History, Step
from headgate_lab.chaos.past import Snapshot
from headgate_lab.chaos.play import Failure, Outcome, Player
from headgate_lab.chaos.service_checks import ServiceRaw
from headgate_lab.chaos.service_driver import KEPT, RegistryFile, ServiceDriver, outside
from headgate_lab.chaos.service_queries import Asked, Query, Rows, shown
from headgate_lab.chaos.source import SparkRecords
from headgate_lab.chaos.world import Process

PAGES = 1000
"""A reader who turns more pages than this never comes to the end."""
ALL_KEYS = 100
"""A query that takes so many keys is there from the beginning to the end, so that its sources are always read."""


@dataclass
class Users:
    """What users know of their queries, and where each reader is."""

    queries: dict[int, Query] = field(default_factory=dict)
    paused: dict[int, Asked] = field(default_factory=dict)
    cursors: dict[int, str] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)
    """By query: up to which batch its results were read."""
    committed: dict[int, int] = field(default_factory=dict)
    """By query: the batch that was committed last when it was registered."""

    def copy(self) -> Users:
        """The same, to be changed."""
        return Users(
            dict(self.queries), dict(self.paused), dict(self.cursors), dict(self.read), dict(self.committed)
        )


class ServicePlayer(Player):
    """Plays one history of a service."""

    driver: Any
    drivers: Any
    raw: ServiceRaw
    source: SparkRecords

    def __init__(self, history: History, before: Snapshot | None = None, *, tell: bool = False) -> None:
        self.users = Users()
        self._memories: dict[int, dict[Any, Any]] = {}
        """What executors remember."""
        self._registry = RegistryFile(b"" if before is None else before.source[3])
        self._wrong = ""
        """What a reader saw that is wrong."""
        super().__init__(history, before, tell=tell)
        kept = self.settings.kept or KEPT
        self.raw = ServiceRaw(
            self.world.url.partition("://")[2],  # type: ignore[attr-defined]
            kept,
            None if before is None else before.raw,
        )

    def past(self) -> Snapshot:
        """Play the past, and return the world after it."""
        with outside():
            try:
                return super().past()
            finally:
                self._close()

    def play(self) -> Outcome:
        """Play the steps and the end."""
        with outside():
            try:
                return super().play()
            finally:
                self._close()

    def _close(self) -> None:
        for driver in self.drivers:
            driver.close()

    # -- drivers

    def _new(self) -> Any:
        self._number += 1
        driver = ServiceDriver(
            self._number,
            self.settings,
            self.world,
            self.machines,
            self.source,
            self._memories,
            self._registry,
        )
        driver.before = lambda: self._at_first(driver)
        driver.after = lambda: self._note(driver)
        self.driver = driver
        self.drivers.append(driver)
        return driver

    def _driver(self, restart: str) -> Any:
        if self.driver is not None and isinstance(self.driver.error, Superseded):
            restart = "new"
        return super()._driver(restart)

    def _at_first(self, driver: Any) -> None:
        """The first service is given the queries that are always there."""
        if not self.users.queries:
            for below in (ALL_KEYS, 3):
                self._register(driver.service, Asked(self.settings.operator, below))

    def _is_newest(self, driver: Any) -> bool:
        """Whether a driver is the owner of the log: users talk to that one only."""
        return (
            not self._rotten and bool(driver.token) and self.raw.owner(self.world.contents()) == driver.token
        )

    # -- what users do

    def _wish(self, driver: Any, step: Step) -> None:
        assert step.route is not None
        kind, first, second = step.route

        def act() -> None:
            try:
                self._act(driver.service, kind, first)
            except Superseded:  # a service that was overtaken changes nothing
                self._say(f"{driver.process.name} refuses it: it was overtaken")

        if second % 3:
            before = driver.before

            def both() -> None:
                before()
                act()

            driver.before = both
        else:
            once = [act]
            driver.engine.meanwhile = lambda: once.pop()() if once else None

    def _act(self, service: Service, kind: str, pick: int) -> None:
        users = self.users
        others = [number for number, query in users.queries.items() if query.asked.below < ALL_KEYS]
        number = others[pick % len(others)] if others else -1
        if kind == "register":
            operator = "rows" if pick % 4 == 3 else self.settings.operator
            self._register(service, Asked(operator, 3 + pick % 3))
        elif kind == "remove" and others:
            self._say(f"query {number} is removed")
            service.remove(OPERATOR, number)
            del users.queries[number]
        elif kind == "pause" and others:
            self._say(f"query {number} is paused")
            service.pause(OPERATOR, number)
            users.paused[number] = users.queries.pop(number).asked
        elif kind == "resume" and users.paused:
            number, asked = users.paused.popitem()
            self._say(f"query {number} is resumed")
            self._begins(service, service.resume(OPERATOR, number), asked)
        elif kind == "lose" and len(service.computations.alive) > 1:
            alive = sorted(service.computations.alive)
            self._say(f"server {alive[pick % len(alive)]} is lost")
            service.lose_server(alive[pick % len(alive)])
        elif kind == "add" and len(service.computations.alive) < 4:
            self._say(f"server {service.add_server()} is added")
        elif kind == "move":
            self._move(service, pick)

    def _move(self, service: Service, pick: int) -> None:
        """Have repair move a computation to another server in the next batch that begins."""
        computations = service.computations
        host, numbers = computations.host, sorted(computations.by_id)
        if not numbers or len(computations.alive) == 1:
            return
        number = numbers[pick % len(numbers)]

        def repair(moves: int, examine: int | None = None) -> list[Move]:
            del host.repair
            others = (
                sorted(computations.alive - {host.server_of(str(number))})
                if number in computations.by_id
                else []
            )
            if not others:
                return []
            server = others[pick // len(numbers) % len(others)]
            self._say(f"computation {number} moves to server {server}")
            return [host.move(str(number), server)]

        host.repair = repair  # type: ignore[method-assign]
        computations.moves.repairs_from = 0  # repair may be waiting

    def _register(self, service: Service, asked: Asked) -> None:
        (answer,) = service.register(OPERATOR, [(asked.text, "")])
        if not isinstance(answer, Registered):
            raise Failure(f"{asked.text!r} was refused: {answer}")
        self._say(f"query {answer.id} is registered: {asked.text}")
        self._begins(service, answer, asked)

    def _begins(self, service: Service, answer: Registered, asked: Asked) -> None:
        """A query begins. An equal one shares what it computes, so rows from before are known."""
        committed = self._committed()
        if not self._rotten and not committed < answer.since <= committed + 2:
            raise Failure(f"query {answer.id} begins with batch {answer.since}, and {committed} is committed")
        equal = [query.born for query in self.users.queries.values() if query.asked == asked]
        born = min([answer.since, *equal])
        self.users.queries[answer.id] = Query(answer.id, asked, answer.since, born)
        self.users.cursors.pop(answer.id, None)
        self.users.read[answer.id] = answer.since - 1
        self.users.committed[answer.id] = committed

    def _committed(self) -> int:
        manifests = [] if self._rotten else self.raw.manifests(self.world.contents())
        return int(manifests[0]["batch"]) if manifests else -1

    # -- what readers see

    def _note(self, driver: Any) -> None:
        """Read after a batch. What is wrong is said after the step, because here a driver is at work."""
        try:
            self._read(driver)
        except Failure as failure:
            self._wrong = self._wrong or str(failure)

    def _read(self, driver: Any) -> None:
        """Read all results that are there, by the product's own reader, and compare them."""
        world = self.world
        if not self._is_newest(driver):
            return
        faults, still, full, process = world.faults, world.still, world.full_until, world.process
        world.faults, world.still, world.full_until, world.process = [], True, -1, Process("a reader")
        try:
            for number in list(self.users.queries):
                self._read_query(driver.service, number)
        except HeadgateError as error:
            raise Failure(f"results cannot be read: {type(error).__name__}: {error}") from None
        finally:
            world.faults, world.still, world.full_until, world.process = faults, still, full, process

    def _read_query(self, service: Service, number: int) -> None:
        users, query = self.users, self.users.queries[number]
        registered = service.get_query(OPERATOR, number)
        if registered.state != ACTIVE:
            raise Failure(f"query {number} has stopped ({registered.why}): {query.asked.text}")
        if (
            registered.since != query.since
        ):  # the batch that was under way was computed again, after the registration
            if not self._rotten and not users.committed[number] < registered.since < query.since:
                raise Failure(
                    f"query {number} began with batch {query.since}, and begins with {registered.since} now"
                )
            for other in [one for one in users.queries.values() if one.asked == query.asked]:
                users.queries[other.number] = replace(other, born=min(other.born, registered.since))
            query = users.queries[number] = replace(users.queries[number], since=registered.since)
            users.read[number] = registered.since - 1
        upto = service.last_batch
        found: dict[int, list[tuple[int, ...]]] = {}
        limit = 2 + self.history.seed % 9
        for _ in range(PAGES):
            rows, following = service.read(OPERATOR, number, users.cursors.get(number), limit)
            users.cursors[number] = following
            for row in rows:
                found.setdefault(row["batch"], []).append(shown(row))
            if len(rows) < limit:
                break
        else:
            raise Failure(f"reading the results of query {number} does not end: {PAGES} pages were full")
        planned = Rows(self.source.planned)
        for batch in range(users.read[number] + 1, upto + 1):
            wanted, got = planned.expected(query, batch), sorted(found.pop(batch, []))
            if got != wanted:
                raise Failure(
                    f"query {number} ({query.asked.text}, since batch {query.since}) has in batch {batch} the results "
                    f"{got}, not {wanted}"
                )
        if found:
            raise Failure(f"query {number} has results of the batches {sorted(found)} again")
        users.read[number] = max(users.read[number], upto)

    # -- checks

    def _check(self, *, final: bool = False) -> None:
        if self._wrong:
            raise Failure(self._wrong)
        for problem in self.raw.problems(self.world.contents()):
            raise Failure(problem)
        driver = self.driver
        if driver is not None and driver.done and not driver.process.dead:
            self._read(driver)
        if final:
            missing = [
                n
                for n, upto in self.users.read.items()
                if n in self.users.queries and upto < self.raw.committed
            ]
            if missing or self.raw.committed != len(self.source.planned) - 1:
                raise Failure(f"batch {self.raw.committed} of {len(self.source.planned)} was read last")
            lost = self.raw.servers(self.world.contents()) - driver.service.computations.alive
            if lost:
                raise Failure(f"the newest commit still names state of server {min(lost)}, which is lost")

    def _end(self) -> None:
        """Faults have stopped: everything that is late happens, then a new driver finishes all batches."""
        chance = Random(f"end {self.history.seed}")
        self._say("all faults have stopped")
        old = self.driver
        if old is not None and old.failed and chance.random() < 0.6:
            self._say("the same service is used on")
            if chance.random() < 0.5:
                self._wish(old, Step(route=("register", chance.randrange(8), 1)))
            self._work_in_peace(old)
            self._check()
        early = chance.random() < 0.35
        if early:
            self.world.settle()
            self._check()
        if chance.random() < 0.5:
            self.machines.lose_all()
        self._add((sorted({k for k, _, _ in self.rows}) or [0]) * 3)  # closes windows
        driver = self._new()
        # Whoever sleeps may wake up while the last driver is at work, and overtake it once more.
        self.world.still = early or chance.random() < 0.2
        self._work_in_peace(driver)
        if driver.error is not None and not self.world.still:
            driver, self.world.still = self._new(), True
            self._work_in_peace(driver)
        if driver.error is not None:
            raise Failure(f"the last driver did not finish: {driver.error!r}")
        self.world.still = False
        self.world.settle()
        self._after(driver)
        self._check(final=True)
        if early:
            rubbish = list(self.raw.rubbish(self.world.contents(), self._number))
            if rubbish:
                raise Failure(f"nobody removed {rubbish[0]} (of {len(rubbish)} such files)")

    # -- the past

    def _snapshot(self) -> Snapshot:
        self._close()
        snapshot = super()._snapshot()
        return replace(snapshot, source=(*snapshot.source, self.users.copy(), self._registry.content()))

    def _restore(self, before: Snapshot) -> None:
        super()._restore(before)
        self.users = before.source[2].copy()
