"""A driver of a history of the query service: the product's own service, batches and tasks, over the simulated world.

The registry is a real file, which every driver of a history shares: what it has acknowledged survives them.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.service import service as service_module
from headgate.service.batch import processor as processor_module
from headgate.service.batch import server_work as work_module
from headgate.service.batch import task_tables as tables_module
from headgate.service.batch.processor import BatchProcessor
from headgate.service.batch.report import JobReport, ServerReport
from headgate.service.batch.task import ServerTask
from headgate.service.service import Service
from headgate.service.settings import Settings as ServiceSettings
from headgate.service.snapshot import HostingSnapshot
from headgate.service.tenants import OPERATOR
from headgate.sql.prepare import Preparer
from headgate.storage import store
from headgate_lab.chaos.children import new_folder
from headgate_lab.chaos.engines import Executors, FaultyEngine
from headgate_lab.chaos.faults import Fault, Killed
from headgate_lab.chaos.history import Settings
from headgate_lab.chaos.service_checks import NAME
from headgate_lab.chaos.service_queries import COLUMNS, DELAY_S, SOURCES, in_slots
from headgate_lab.chaos.source import SparkRecords
from headgate_lab.chaos.world import World

KEPT = 1000
"""Batches whose results are kept if the settings do not say: all."""
FORGET = 3
"""Python workers that had nothing to do for a while are ended: in every so many batches, all are new."""
MEMORY_MB = 512
PLANNED = "planned"
"""The stream that the service plans itself."""
_preparer: Preparer | None = None
_engines_in_use: set[int] = set()


class ServerTasks(FaultyEngine):
    """The job of a batch: one task for each server, one after the other, which die, hang and run twice as
    those of a stage do. What an executor keeps is the tables of constants that it has read.
    """

    def __init__(self, world: World, executors: Executors, memories: dict[int, dict[Any, Any]]) -> None:
        self.world, self.machines = world, executors
        self.task_faults: list[Fault] = []
        self.meanwhile: Callable[[], None] = lambda: None
        """What users do while the batch runs."""
        self._memories, self._attempts = memories, count()

    def __call__(self, rows: pa.Table, snapshot: HostingSnapshot, task: ServerTask) -> JobReport:
        """Deliver each row to the servers that want its source, and run the task of every server."""
        self.meanwhile()
        if task.batch % FORGET == 0:
            self._memories.clear()
        faults = {fault.at % snapshot.servers: fault for fault in self.task_faults}
        self.task_faults = []
        for name in set(task.row_schema.names) - set(rows.column_names):
            rows = rows.append_column(name, pa.nulls(rows.num_rows, task.row_schema.field(name).type))
        rows = rows.select(task.row_schema.names)
        source, reports = rows.column("source").to_numpy(), []
        for server in sorted(snapshot.alive):
            wanted = np.array([server in snapshot.servers_of_source[s] for s in source.tolist()], bool)
            parts = rows.filter(pa.array(wanted)).to_batches()
            body: Any = self._channel(task, server, parts, faults.get(server))  # type: ignore[arg-type]
            reports.append(ServerReport.from_json(json.loads(json.dumps(body))))
        sent = sum(report.rows for report in reports)
        return JobReport(reports, sent_rows=sent, sent_bytes=100 * sent)

    def cache(self, task: Any, channel: int) -> Any:
        """What the executor of a server remembers."""
        return self._memories.setdefault(self.machines.slots[channel % len(self.machines.slots)], {})

    def _other_worker(self, task: Any, channel: int) -> Any:
        return {}

    def _work(self, task: Any, channel: int, parcels: Any, cache: Any) -> Any:
        """An attempt. While it sleeps another one may use DuckDB, so each has an engine of its own."""
        number = next(n for n in count() if n not in _engines_in_use)
        _engines_in_use.add(number)
        tables_module._constants = cache
        work_module._computed = {}
        try:
            alone = replace(task, memory=f"{MEMORY_MB + number}MB")
            return alone.run_server(parcels, channel, next(self._attempts))
        finally:
            _engines_in_use.discard(number)


class ServiceDriver:
    """One driver: its process and, once it has opened it, its service."""

    def __init__(
        self,
        number: int,
        settings: Settings,
        world: World,
        executors: Executors,
        source: SparkRecords,
        memories: dict[int, dict[Any, Any]],
        registry: RegistryFile,
    ) -> None:
        self._registry = registry
        self.number, self.world, self.source, self._settings = number, world, source, settings
        self.process = world.born(f"driver {number}")
        self.done = True
        self.error: Exception | None = None
        self.engine = ServerTasks(world, executors, memories)
        self.service: Service | None = None
        self.before: Callable[[], None] = lambda: None
        """What users do once the service is open, and before the next batch."""
        self.after: Callable[[], None] = lambda: None
        """What users do after every batch."""
        self._processor: BatchProcessor | None = None
        self._url = f"{world.url}/{NAME}"  # type: ignore[attr-defined]
        (store.tried.add if settings.tried else store.tried.discard)(self._url)

    @property
    def failed(self) -> bool:
        """Whether it has stopped with an error, and can be used on: a superseded service is not."""
        superseded = self._processor is None or self._processor.superseded
        return self.done and not self.process.dead and self.error is not None and not superseded

    def work(self, *, end: str = "") -> None:
        """Open the service, and process all rows there are."""
        self.done, self.error = False, None
        try:
            if self._processor is None:
                self._open()
            before, self.before = self.before, lambda: None
            before()
            self._deliver()
        except Killed:
            self.process.dead = True
        except Exception as error:
            self.error = error
        self.done = True

    def _open(self) -> None:
        global _preparer
        _preparer = _preparer or Preparer()
        settings = ServiceSettings(
            folder(),
            registry=str(self._registry.path),
            servers=self._settings.channels,
            state=self._url,
            kept_batches=self._settings.kept or KEPT,
        )
        self.service = Service(settings, _preparer)
        if not len(self.service.sources):
            declared = [{"name": name, "columns": COLUMNS, "delay_s": DELAY_S} for name in SOURCES]
            self.service.add_sources(OPERATOR, declared)
        self._processor = BatchProcessor(self.service, self.engine)

    def _deliver(self) -> None:
        """Every second batch is one that the service plans itself, as those of Kafka: its offset is in
        the commit, and nowhere else. Spark delivers the others, under numbers of its own.
        """
        assert self._processor is not None
        source = self.source
        while (number := source.done + 1) < len(source.planned):
            rows = in_slots(source.planned[number])
            if number % 2 == 0:
                self._processor.process(rows, number // 2)
            elif self._processor.offsets().get(PLANNED, -1) < number:
                self._processor.process_ranges(rows, {PLANNED: number})
            source.done = max(source.done, number)
            self.after()

    @property
    def token(self) -> str:
        """What identifies it in the log."""
        return "" if self.service is None else self.service.batch_log.run.partition(".")[2]

    def close(self) -> None:
        """Close what it has open outside of the world."""
        if self.service is not None:
            self.service.close()
            self.service = None


# -- what is outside of the world

_folder = ""
_registries = count()


def folder() -> Path:
    """The folder of the registry, the same for every history of this process."""
    global _folder
    if not _folder or not os.path.isdir(_folder):
        _folder = str(new_folder())
    return Path(_folder)


class RegistryFile:
    """The registry of one history. Its name is not used again: SQLite removes files when it closes one."""

    def __init__(self, content: bytes) -> None:
        for old in folder().glob("*.db*"):
            old.unlink(missing_ok=True)
        shutil.rmtree(folder() / "push", ignore_errors=True)  # nothing is pushed in a history
        self.path = folder() / f"{next(_registries)}.db"
        if content:
            self.path.write_bytes(content)

    def content(self) -> bytes:
        """What it holds, after every driver has closed it."""
        return self.path.read_bytes() if self.path.exists() else b""


@contextmanager
def outside() -> Iterator[None]:
    """While a history is played, measured times are zero and errors of tasks are not logged."""
    modules = (service_module, processor_module, work_module)
    zero = SimpleNamespace(perf_counter=lambda: 0.0, process_time=lambda: 0.0, time=lambda: 0.0)
    before, constants = [module.time for module in modules], tables_module._constants
    log = logging.getLogger("headgate.service")
    disabled, log.disabled = log.disabled, True
    for module in modules:
        module.time = zero  # type: ignore[attr-defined]
    try:
        yield
    finally:
        log.disabled, tables_module._constants = disabled, constants
        for module, time in zip(modules, before, strict=True):
            module.time = time  # type: ignore[attr-defined]
