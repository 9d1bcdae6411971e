"""Engines whose tasks die, hang and run twice. The attempt, its cache and its files are the product's own."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import pyarrow as pa

from headgate.errors import HeadgateError
from headgate.operators.base import BoundOperator
from headgate.stage.answer import Answer
from headgate.stage.parcel import Parcel
from headgate.stage.task import Attempt, Task
from headgate.storage.bin_cache import BinCache
from headgate.streams.held_rows import HeldRows
from headgate.streams.map_task import MapTask, sent_schema, unpacked
from headgate.streams.planned import Planned
from headgate.testing.engine import InProcess
from headgate.testing.watches import ModelledTime
from headgate_lab.chaos.faults import IN_TASKS, Fault, Killed
from headgate_lab.chaos.memory import SharedMemory
from headgate_lab.chaos.world import Process, World

PACE_US = 100.0
"""The modelled time of a row, so that a channel with a buffer can be late."""


class Executors:
    """The machines that run tasks. Each has a folder for its cache; a new one has a new folder."""

    def __init__(self, slots: int, caches: Mapping[str, bytes]) -> None:
        self.memory = SharedMemory(caches)
        self.slots = list(range(slots))
        self.lost: list[int] = []

    def lose(self, slot: int) -> None:
        """The executor dies, and another one takes its place."""
        self.lost.append(self.slots[slot])
        self.slots[slot] = 1 + max([*self.slots, *self.lost])

    def lose_all(self) -> None:
        """All of them die."""
        for slot in range(len(self.slots)):
            self.lose(slot)

    def bring_back(self, slot: int, which: int = 0) -> bool:
        """An executor that was lost takes over, with what its cache held then."""
        if not self.lost:
            return False
        self.slots[slot] = self.lost.pop(which % len(self.lost))
        return True


class FaultyEngine(InProcess):
    """The engine of a stage. Rows are Arrow tables."""

    def __init__(self, world: World, executors: Executors) -> None:
        # No folder of its own: the executors outlive a driver.
        self.world, self.machines = world, executors
        self.watch = ModelledTime(PACE_US)
        self.executors, self.distinct = len(executors.slots), 2**63
        self.chunks = ()
        self.answers = []
        self.task_faults: list[Fault] = []
        self._now = 0.0
        self._workers: dict[tuple[int, str], BinCache] = {}

    def cache(self, task: Task, channel: int) -> BinCache:
        """The cache of the executor that the channel is on, as its Python worker for this driver sees it."""
        at = self.machines.slots[channel % len(self.machines.slots)], task.stage
        cache = self._workers.get(at)
        if cache is None:
            cache = self._workers[at] = self._other_worker(task, channel)
        return cache

    def place(self, channel: int) -> str:
        """The executor that the channel is on."""
        return f"executor-{self.machines.slots[channel % len(self.machines.slots)]}"

    def _other_worker(self, task: Task, channel: int) -> BinCache:
        number = self.machines.slots[channel % len(self.machines.slots)]
        return BinCache(task.stage, task.operator.layout, base=str(number), files=self.machines.memory.file)

    def run(self, rows: Any, task: Task) -> list[Answer]:
        """Run the task on one channel after the other, with the faults of this step."""
        parcels = self._parcels(rows, task)
        faults = {fault.at % task.table.channels: fault for fault in self.task_faults}
        self.task_faults = []
        self.answers = []
        for channel in range(task.table.channels):
            answer = self._channel(task, channel, parcels[channel], faults.get(channel))
            self.answers.append(Answer.from_json(answer.to_json()))
        self._now += max(answer.busy_ms + answer.ahead_ms for answer in self.answers) / 1e3
        return self.answers

    def _channel(self, task: Task, channel: int, parcels: list[Parcel], fault: Fault | None) -> Answer:
        world, driver = self.world, self.world.process
        if fault is None:
            return self._attempt(
                task, channel, parcels, world.born(f"task {channel} of {driver.name}", driver)
            )
        world.struck[fault.kind] += 1
        first = world.born(f"task {channel}, first attempt, of {driver.name}", driver)
        second = world.born(f"task {channel}, second attempt, of {driver.name}", driver)
        if fault.pick % 4 == 1:
            self.machines.lose(
                channel % len(self.machines.slots)
            )  # the first attempt has to read everything back
        if fault.kind == "zombie task":
            self._hang(task, channel, parcels, first, fault)
        elif fault.kind == "task twice":
            answer = self._attempt(task, channel, parcels, first)
            if fault.pick % 2:
                self._attempt(task, channel, self._again(channel, parcels), second)
                return answer
        else:
            self._die(task, channel, parcels, first, fault)
        parcels = self._again(channel, parcels)
        if fault.kind == "executor dies" or (fault.kind in IN_TASKS and fault.pick % 3 == 0):
            self.machines.lose(channel % len(self.machines.slots))
        return self._attempt(task, channel, parcels, second)

    def _again(self, channel: int, parcels: list[Parcel]) -> list[Parcel]:
        """What a second attempt receives: the rows of a stage keep their order."""
        return parcels

    def _attempt(self, task: Task, channel: int, parcels: list[Parcel], process: Process) -> Answer:
        driver, self.world.process = self.world.process, process
        try:
            return self._work(task, channel, parcels, self.cache(task, channel))
        finally:
            self.world.process = driver
            if process.dead:
                driver.dead = True

    def _work(self, task: Task, channel: int, parcels: list[Parcel], cache: BinCache) -> Answer:
        name = self.world.unique()[:8]
        attempt = Attempt(task, channel, name, cache, self.watch, self.place(channel))
        return attempt.work(iter(parcels))

    def _die(self, task: Task, channel: int, parcels: list[Parcel], process: Process, fault: Fault) -> None:
        """An attempt that dies before one of its operations. Its driver lives on."""
        process.driver = process
        driver, self.world.process = self.world.process, process
        self.world.doom(process, fault.later % 5)
        try:
            self._work(task, channel, parcels, self._other_worker(task, channel))
        except Killed:
            pass
        finally:
            self.world.process = driver

    def _hang(self, task: Task, channel: int, parcels: list[Parcel], process: Process, fault: Fault) -> None:
        """An attempt that falls asleep before one of its operations."""
        process.driver = process
        self.world.hang(process, fault.pick % 4, fault.later)
        cache = self._other_worker(task, channel)

        def work() -> None:
            try:
                self._work(task, channel, parcels, cache)
            except Killed:
                return
            except (HeadgateError, OSError) as error:  # its driver has gone on without it
                self.world.tell("fail", type(error).__name__, str(error))
            except Exception as error:
                self.world.broken = f"{process.name} raised {error!r}"

        self.world.run(process, work, sleeps=True)


class DirectFaultyEngine(FaultyEngine):
    """The engine of a direct stream. Rows are planned ranges, which map tasks read, combine and pack."""

    def columns(self, rows: Planned, key: tuple[str, ...]) -> pa.Schema:
        """The columns of the stream."""
        return rows.schema

    def describe(self, rows: Planned) -> str:
        """The schema as text."""
        return base64.b64encode(rows.schema.serialize().to_pybytes()).decode()

    def nothing(self, columns: str) -> Planned:
        """No ranges."""
        return Planned(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(columns))))

    def count(self, rows: Planned) -> None:  # type: ignore[override]
        """Ranges cannot differ."""

    def prepared(self, operator: BoundOperator) -> BoundOperator:
        """The operator that takes combined rows, if it can be combined."""
        return operator.combined() or operator

    def routed(self, operator: BoundOperator, columns: pa.Schema, rows: Any) -> pa.Schema:
        """The columns that a task receives."""
        return sent_schema(operator, columns)

    def _parcels(self, rows: Planned, task: Task) -> list[list[Parcel]]:
        holds = HeldRows.of(task)
        map_task = MapTask(rows.inputs, rows.schema, task.operator, task.rows, task.table, task.clock, holds)
        blobs: list[list[bytes]] = [[] for _ in range(task.table.channels)]
        for channel, blob in map_task.run(enumerate(rows.ranges), self.world.unique()[:8]):
            blobs[channel].append(blob)
        order = Random(task.batch)
        for mine in blobs:
            order.shuffle(mine)  # a shuffle keeps no order
        self._sent = blobs
        return [list(unpacked(mine)) for mine in blobs]

    def _again(self, channel: int, parcels: list[Parcel]) -> list[Parcel]:
        """The same, sent in another order."""
        sent = self._sent[channel]
        return list(unpacked(Random(self.world.names).sample(sent, len(sent))))


def planned_rows(planned: Planned) -> Planned:
    """Rows for the engine: the ranges themselves."""
    return planned


def shown(answers: list[Answer]) -> Iterator[str]:
    """What each task did, in words."""
    for answer in answers:
        yield f"channel {answer.channel}: {answer.rows} rows, {answer.rebuilt_bins} bins rebuilt"
