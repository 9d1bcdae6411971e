"""One batch of the query service, on the driver: snapshot, constants, job, commit.

Rows (`source`, `time`, slots) come in two ways. `process_ranges` takes what the service's loop has planned (`loop`): the
offsets are in the commit. `BatchProcessor.process` takes batches that somebody else numbers, and may deliver again, as
Spark's streaming query did in earlier versions. Batches of both are numbered together.

A batch calls the service twice: `begin_batch` says what is hosted where, and `batch_committed` takes what came out. How
the servers' tasks run is the `Job`: on Spark (`job.SparkJob`), or in this process in a test.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from headgate import logs
from headgate.errors import Superseded
from headgate.service.batch.careful import WorkerDied
from headgate.service.batch.report import JobReport, ServerReport
from headgate.service.batch.task import ServerTask
from headgate.service.batch.task_tables import JoinRowFiles, TemplateFiles
from headgate.service.batch.units import by_server, united
from headgate.service.manifest import JOIN_ROWS, BatchManifest, StatePlace, StoredTable
from headgate.service.service import Service
from headgate.service.snapshot import HostingSnapshot, ServerTemplate, Version
from headgate.service.table_file import CONSTANTS, encode, write_tables
from headgate.service.tenant_use import TenantUse
from headgate.spark.session import origin_of
from headgate.sql.clock import NEVER
from headgate.sql.source_schema import slot_type
from headgate.storage.checkpoint import check_order, check_origin
from headgate.storage.outside import unique

log = logs.logger("headgate.service")
Job = Callable[[Any, HostingSnapshot, ServerTask], JobReport]
"""Delivers a batch's rows to the servers that want them, and runs the task for every server."""
MOST_UNREAD = 1_000
"""Of how many sources that nobody reads a commit tells how far they have come."""
Pieces = Mapping[StatePlace, tuple[StoredTable, ...]]


class BatchProcessor:
    """Computes and commits the batches of a service."""

    def __init__(self, service: Service, job: Job, *, tasks: int | None = None) -> None:
        """`tasks` is how many tasks run at a time: if there are more servers, some share a task (`units`)."""
        self._service, self._job, self._tasks = service, job, tasks
        self._log = service.batch_log
        self._constants: dict[ServerTemplate, tuple[Version, StoredTable]] = {}
        """The tables of constants that tasks can read, with their versions."""
        self._bytes_per_row = 0.0
        """Of the shuffle, as a moving average."""
        self._turns = threading.Lock()
        """One batch at a time, whoever brings its rows."""
        self._told = -1
        """The last batch whose commit the service was told of."""
        self.superseded = False
        """Whether another service has taken over the folder: then it is useless to try again."""

    def hold(self, seconds: float) -> bool:
        """Wait for the batch under way, and let no other begin; whether it ended in time."""
        return self._turns.acquire(timeout=seconds)

    def process(self, df: Any, batch: int) -> None:
        """Process a batch that whoever delivers it has numbered; one that was committed already is
        not computed again.
        """
        with self._turn() as last:
            origin, folder = origin_of(df), self._log.store.path()
            delivered = last.delivered if last else -1
            if last is not None and delivered >= 0:
                check_origin(origin, last.origin, folder)
            if last is not None and batch == delivered:
                return
            check_order(batch, delivered if delivered >= 0 else None, folder)
            offsets = last.offsets if last else {}
            self._commit(df, last, origin=origin, delivered=batch, offsets=offsets)

    def process_ranges(self, rows: Any, offsets: Mapping[str, Any]) -> None:
        """Process rows of the streams. `offsets` say, by stream, where it stands after them; they are
        committed with the batch. A stream whose offset is None is forgotten.
        """
        with self._turn() as last:
            origin, delivered = (last.origin, last.delivered) if last else (None, -1)
            both = {**(last.offsets if last else {}), **offsets}
            after = {name: offset for name, offset in both.items() if offset is not None}
            self._commit(rows, last, origin=origin, delivered=delivered, offsets=after)

    def catch_up(self, nothing: Any) -> bool:
        """Run a batch without new rows (`nothing` are none) if rows of earlier batches wait; whether there was one."""
        with self._turn() as last:
            if last is None or not any(use.waiting_rows for use in last.usage.values()):
                return False
            origin, delivered, offsets = last.origin, last.delivered, last.offsets
            self._commit(nothing, last, origin=origin, delivered=delivered, offsets=offsets)
            return True

    @property
    def delivered(self) -> int:
        """Spark's own number of the last batch of its query that was committed; -1 before the first."""
        last = self._log.last
        return last.delivered if last else -1

    def offsets(self) -> Mapping[str, Any]:
        """Where the streams stand that this service plans itself, as committed."""
        with self._turn() as last:
            return last.offsets if last else {}

    @contextmanager
    def _turn(self) -> Iterator[BatchManifest | None]:
        """The turn to commit a batch, with the last one that was committed."""
        with self._turns:
            try:
                self._log.settle()
                last = self._log.last
                if last is not None and last.batch != self._told:  # the driver may have died after its commit
                    self._tell(last)
                yield last
            except Superseded:
                self.superseded = True
                raise

    def _tell(self, manifest: BatchManifest) -> None:
        self._service.batch_committed(manifest)
        self._told = manifest.batch

    def _commit(self, rows: Any, last: BatchManifest | None, **delivery: Any) -> None:
        batch = last.batch + 1 if last else 0
        try:
            manifest = replace(self._compute(rows, batch, last), **delivery)
            self._log.commit(manifest)
        except Superseded:
            raise
        except Exception as error:
            if not self._log.commits.is_mine():
                raise self._log.commits.superseded() from error
            raise
        self._log.sweep(CONSTANTS, keep={stored.file for _, stored in self._constants.values()})
        self._tell(manifest)

    def _compute(self, df: Any, batch: int, last: BatchManifest | None) -> BatchManifest:
        began = time.perf_counter()
        hosted = self._service.begin_batch(batch)
        snapshot = united(hosted, self._tasks)
        task = self._task(snapshot, batch, last)
        prepared = time.perf_counter()
        report = self._ran(df, snapshot, task)
        ran = time.perf_counter()
        facts = self._facts(report, snapshot, hosted) | {
            "prepare_ms": _ms(prepared - began),
            "job_ms": _ms(ran - prepared),
            "wall_ms": _ms(time.perf_counter() - began),
        }
        latest = dict(last.latest) if last else {}
        for server in report.servers:
            for source, reached in server.latest.items():
                latest[source] = max(reached, latest.get(source, NEVER))
        return BatchManifest(
            batch=batch,
            run=self._log.run,
            pieces=_pieces_after(last.pieces if last else {}, report.servers, snapshot),
            results=_results(report.servers),
            latest=_needed(latest, snapshot),
            moves=snapshot.moves,
            faults={number: why for server in report.servers for number, why in server.faults.items()},
            facts={**facts, **snapshot.facts},
            usage=_usage(report.servers),
            fairness={server.server: server.fairness for server in report.servers},
        )

    def _ran(self, df: Any, snapshot: HostingSnapshot, task: ServerTask) -> JobReport:
        """The job's report. If a worker died, the batch is tried again: once as it is, since somebody may have killed the
        worker, and then in careful form, which finds out whose computation it is.

        A worker that died later than the limit of time was ended by its own alarm, and would be again.
        """
        began = time.perf_counter()
        try:
            return self._job(df, snapshot, task)
        except WorkerDied as error:
            first = error
        if time.perf_counter() - began < task.limits.seconds:
            log.warning("batch %d is tried again: %s", task.batch, first)
            with suppress(WorkerDied):
                return self._job(df, snapshot, task)
        log.warning("batch %d is tried again, each attempt in a process of its own: %s", task.batch, first)
        return self._job(df, snapshot, replace(task, careful=True))

    # -- before the job

    def _task(self, snapshot: HostingSnapshot, batch: int, last: BatchManifest | None) -> ServerTask:
        settings = self._service.settings
        pieces = last.pieces if last else {}
        latest = np.full(len(snapshot.delay_us), NEVER)
        for source, reached in (last.latest if last else {}).items():
            latest[source] = reached
        self._write_constants(snapshot, batch)
        fields = [pa.field("source", pa.int32()), pa.field("time", pa.timestamp("us"))]
        return ServerTask(
            batch=batch,
            run=self._log.run,
            store=self._log.store,
            row_schema=pa.schema([*fields, *(pa.field(slot, slot_type(slot)) for slot in snapshot.slots)]),
            templates=self._template_files(snapshot, pieces),
            join_rows=_join_row_files(snapshot, pieces),
            latest=latest,
            delay_us=snapshot.delay_us,
            limits=settings.limits,
            functions=settings.functions,
            memory=settings.memory,
            budgets=snapshot.budgets,
            lengthen=self._service.pace.lengthen(),
            light=self._service.pace.light(),
            fairness=last.fairness if last else {},
        )

    def _write_constants(self, snapshot: HostingSnapshot, batch: int) -> None:
        """Write the tables of constants that changed to where tasks can read them."""
        self._constants = {
            key: written for key, written in self._constants.items() if key in snapshot.constants
        }
        changed = [
            key
            for key, (version, _) in snapshot.constants.items()
            if key not in self._constants or self._constants[key][0] != version
        ]
        if not changed:
            return
        templates = {number: json.dumps(t.to_json()) for number, t in snapshot.templates.items()}
        encoded = []
        for server, template in changed:
            _, table = snapshot.constants[server, template]
            with_template = table.replace_schema_metadata({"template": templates[template]})
            encoded.append(encode(with_template, server, template))
        name = f"{batch:012d}-{self._log.run}-{unique()[:8]}"  # a batch may be tried again
        written = write_tables(self._log.store, CONSTANTS, name, batch, encoded)
        for key, stored in zip(changed, written, strict=True):
            self._constants[key] = (snapshot.constants[key][0], stored)

    def _template_files(self, snapshot: HostingSnapshot, pieces: Pieces) -> dict[int, list[TemplateFiles]]:
        """By server: the files of every template that it hosts."""
        lost = _lost(snapshot, pieces)
        state: dict[ServerTemplate, dict[int, tuple[StoredTable, ...]]] = {}
        for (home, template, pane), stored in pieces.items():
            state.setdefault((home, template), {})[pane] = stored
        files: dict[int, list[TemplateFiles]] = {}
        for (server, template), (_, constants) in self._constants.items():
            here = state.get((snapshot.home(server), template), {})
            of_lost = [state[origin, template] for origin in lost if (origin, template) in state]
            homes = sorted({snapshot.home(origin) for origin in snapshot.moving.get((server, template), ())})
            of_origins = [state[home, template] for home in homes if (home, template) in state]
            files.setdefault(server, []).append(TemplateFiles(template, constants, here, of_lost, of_origins))
        return files

    # -- after the job

    def _facts(self, report: JobReport, snapshot: HostingSnapshot, hosted: HostingSnapshot) -> dict[str, Any]:
        """What was measured: rows in, and what the shuffle carried beside what placement predicts."""
        servers = report.servers
        rows_of_source: dict[int, int] = {}
        far_ahead_rows: dict[int, int] = {}
        for server in servers:  # each has all rows of its sources, so a source counts once
            rows_of_source |= server.rows_of_source
            far_ahead_rows |= server.far_ahead_rows
        predicted = sum(
            rows * len(snapshot.servers_of_source[source]) for source, rows in rows_of_source.items()
        )
        busy = {server.server: server.busy_ms for server in servers}
        if snapshot is hosted:
            server_rows = {server.server: server.rows for server in servers}
        else:
            server_rows, busy = by_server(hosted, rows_of_source, list(busy.values()))
        facts: dict[str, Any] = {
            "rows": sum(rows_of_source.values()),
            "sources": len(rows_of_source),
            "sent_rows": report.sent_rows,
            "sent_bytes": report.sent_bytes,
            "predicted_rows": predicted,
            "predicted_bytes": round(predicted * self._bytes_per_row) if self._bytes_per_row else None,
            "far_ahead": sum(far_ahead_rows.values()),
            "results": sum(table.rows for server in servers for _, table in server.results),
            "cpu_ms": round(sum(server.cpu_ms for server in servers), 3),
            "slow_ms": round(max((server.slow_ms for server in servers), default=0.0), 3),
            "busy_ms": {server: round(ms, 3) for server, ms in busy.items()},
            "server_rows": server_rows,
        }
        if report.sent_rows:
            now = report.sent_bytes / report.sent_rows
            self._bytes_per_row = 0.7 * self._bytes_per_row + 0.3 * now if self._bytes_per_row else now
        return facts


def _join_row_files(snapshot: HostingSnapshot, pieces: Pieces) -> dict[int, JoinRowFiles]:
    """By server: the rows that it keeps for joins, and those that lost servers kept."""
    places = [(server, JOIN_ROWS, 0) for server in _lost(snapshot, pieces)]
    of_lost = [pieces[place] for place in places if place in pieces]
    origins: dict[int, set[int]] = {}
    for (server, _), some in snapshot.moving.items():
        origins.setdefault(server, set()).update(map(snapshot.home, some))

    def of_origins(server: int) -> list[tuple[StoredTable, ...]]:
        homes = sorted(origins.get(server, set()) - {snapshot.home(server)})
        return [pieces[home, JOIN_ROWS, 0] for home in homes if (home, JOIN_ROWS, 0) in pieces]

    return {
        server: JoinRowFiles(
            pieces.get((snapshot.home(server), JOIN_ROWS, 0), ()), [*of_lost, *of_origins(server)]
        )
        for server in range(snapshot.servers)
        if snapshot.home(server) in snapshot.alive
    }


def _lost(snapshot: HostingSnapshot, pieces: Pieces) -> list[int]:
    """The servers that were lost since the last commit: others take over the state that it names."""
    return sorted({server for server, _, _ in pieces} - snapshot.alive)


def _pieces_after(
    before: Pieces, servers: Sequence[ServerReport], snapshot: HostingSnapshot
) -> dict[StatePlace, tuple[StoredTable, ...]]:
    """The pieces that live after a batch. Those of lost servers do not: other servers took them over in it."""
    gone = {(snapshot.home(server.server), *place) for server in servers for place in server.gone}
    hosted = {(snapshot.home(server), template) for server, template in snapshot.constants}
    pieces = {
        place: stored
        for place, stored in before.items()
        if place not in gone and place[0] in snapshot.alive and (place[1] == JOIN_ROWS or place[:2] in hosted)
    }
    for server in servers:
        for template, pane, piece in server.state:
            place = (snapshot.home(server.server), template, pane)
            pieces[place] = (*pieces.get(place, ()), piece)
    return pieces


def _needed(latest: Mapping[int, int], snapshot: HostingSnapshot) -> Mapping[int, int]:
    """How far the sources have come that somebody reads, and some of the others, which may soon be read again. One that
    is forgotten is as one that nobody has read yet.
    """
    unread = [source for source in latest if not snapshot.servers_of_source[source]]
    if len(unread) <= MOST_UNREAD:
        return latest
    forgotten = set(sorted(unread, key=lambda source: latest[source])[: len(unread) - MOST_UNREAD])
    return {source: reached for source, reached in latest.items() if source not in forgotten}


def _usage(servers: Sequence[ServerReport]) -> dict[int, TenantUse]:
    """What the batch took for each tenant, on all servers together."""
    usage: dict[int, TenantUse] = {}
    for server in servers:
        for tenant, use in server.usage.items():
            usage[tenant] = use.plus(usage.get(tenant, TenantUse()))
    return usage


def _results(servers: Sequence[ServerReport]) -> dict[int, tuple[StoredTable, ...]]:
    """The tables of results, by template."""
    results: dict[int, tuple[StoredTable, ...]] = {}
    for server in servers:
        for template, table in server.results:
            results[template] = (*results.get(template, ()), table)
    return results


def _ms(seconds: float) -> float:
    return round(1e3 * seconds, 3)
