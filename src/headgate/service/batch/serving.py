"""The query service's batch: every source's rows once to each server that wants them, one task a server, one commit.

`Serving` is the function of `foreachBatch` over the one stream of all sources (`source`, `time`, slots). What is hosted where comes
from `ask`, for the batch; what came out goes to `tell`, after the commit and again if Spark delivers a committed batch again. How tasks
are run is `job`: on Spark (`serving_job`), or in a test without it.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from headgate import errors
from headgate.service.batch.hosted import Hosted, Keyed
from headgate.service.batch.manifest import KEPT, Place, ServingManifest, Stored
from headgate.service.batch.piece_file import CONSTANTS, RESULTS, STATE, placed, table_bytes
from headgate.service.batch.task import KeptRows, ServerTask, Share
from headgate.spark.session import origin_of
from headgate.sql.clock import NEVER
from headgate.sql.engine import Function
from headgate.sql.limits import Limits
from headgate.sql.source_schema import slot_type
from headgate.storage import section_file
from headgate.storage.checkpoint import check_order, check_origin
from headgate.storage.commit_log import CommitLog
from headgate.storage.store import Store

log = logging.getLogger("headgate.service")
Job = Callable[[Any, Hosted, ServerTask], list[dict[str, Any]]]
"""Runs a task for every server on its rows of a batch; returns their reports."""


class Serving:
    """Computes and commits the batches of a service."""

    def __init__(
        self,
        checkpoint: str,
        job: Job,
        ask: Callable[[int], Hosted],
        tell: Callable[[ServingManifest], None],
        *,
        limits: Limits | None = None,
        functions: Mapping[str, Function] | None = None,
        kept: int = 500,
        memory: str = "512MB",
    ) -> None:
        self.store = Store(checkpoint)
        self.store.check()
        self.store.make(STATE, RESULTS, CONSTANTS)
        self._job, self._ask, self._tell = job, ask, tell
        self.limits, self.functions, self.kept, self.memory = (
            limits or Limits(),
            functions or {},
            kept,
            memory,
        )
        self.log = CommitLog(self.store)
        entries = self.log.history(self.log.take(), kept)
        self._links = [entry.link for entry in entries]
        self.history = [ServingManifest.from_json(entry.body) for entry in entries if entry.body is not None]
        self.run = self.log.run
        self._written: dict[Keyed, tuple[int, Stored]] = {}
        self._row_bytes = 0.0
        self._swept = False
        self.superseded = False
        """Whether another service has taken over: then there is no use in trying again."""

    @property
    def last(self) -> ServingManifest | None:
        """What was committed last."""
        return self.history[-1] if self.history else None

    def __call__(self, df: Any, batch: int) -> None:
        """Process one micro-batch."""
        try:
            self._deliver(df, batch)
        except errors.Superseded:
            self.superseded = True
            raise

    def _deliver(self, df: Any, batch: int) -> None:
        last, origin = self.last, origin_of(df)
        if last is not None:
            check_origin(origin, last.origin, self.store.path())
        if last is not None and batch == last.batch:
            self._tell(last)
            return
        check_order(batch, last.batch if last else None, self.store.path())
        try:
            manifest = replace(self._batch(df, batch, last), origin=origin)
        except Exception as error:
            if not self.log.is_mine():
                raise self.log.superseded() from error
            raise
        self.log.commit(manifest.to_json())
        assert self.log.newest is not None
        self._links.append(self.log.newest)
        self.history.append(manifest)
        self._retire(last, manifest)
        self._tell(manifest)

    def _batch(self, df: Any, batch: int, last: ServingManifest | None) -> ServingManifest:
        started = time.perf_counter()
        hosted = self._ask(batch)
        pieces = last.pieces if last else {}
        latest = np.full(len(hosted.delay), NEVER)
        for source, reached in (last.latest if last else {}).items():
            latest[source] = reached
        slots = hosted.slots
        fields = [pa.field("source", pa.int32()), pa.field("time", pa.timestamp("us"))]
        task = ServerTask(
            batch=batch,
            run=self.run,
            store=self.store,
            rows=pa.schema([*fields, *(pa.field(s, slot_type(s)) for s in slots)]),
            shares=self._shares(hosted, batch, pieces),
            kept=_kept_rows(hosted, pieces),
            latest=latest,
            delay=hosted.delay,
            limits=self.limits,
            functions=self.functions,
            memory=self.memory,
        )
        prepared = time.perf_counter()
        answers = self._job(df, hosted, task)
        ran = time.perf_counter()
        for answer in answers:
            if "error" in answer:
                log.error("a server's task failed: %s", answer["trace"])
                raise getattr(errors, answer["error"])(answer["message"])
        facts = self._facts(answers, hosted)
        facts |= {
            "prepare_ms": _ms(prepared - started),
            "job_ms": _ms(ran - prepared),
            "wall_ms": _ms(time.perf_counter() - started),
        }
        facts |= hosted.notes
        faults = {i: why for a in answers for i, why in zip(*a["faults"], strict=True)}
        come = dict(last.latest) if last else {}
        for answer in answers:
            for source, upto in zip(*answer["latest"], strict=True):
                come[source] = max(upto, come.get(source, NEVER))
        return ServingManifest(
            batch=batch,
            run=self.run,
            pieces=_pieces_after(pieces, answers, hosted, batch),
            results=_results(answers, batch),
            latest=come,
            faults=faults,
            cut={i: rows for a in answers for i, rows in zip(*a["cut"], strict=True)},
            facts=facts,
        )

    # -- what tasks are told

    def _shares(
        self, hosted: Hosted, batch: int, pieces: Mapping[Place, tuple[Stored, ...]]
    ) -> dict[int, list[Share]]:
        self._send(hosted, batch)
        by: dict[Keyed, dict[int, tuple[Stored, ...]]] = {}
        for (server, template, pane), many in pieces.items():
            by.setdefault((server, template), {})[pane] = many
        shares: dict[int, list[Share]] = {}
        for (server, template), (_, stored) in self._written.items():
            gained = hosted.gained.get((server, template), {})
            elsewhere = {origin: by.get((origin, template), {}) for origin in gained}
            share = Share(template, stored, by.get((server, template), {}), gained, elsewhere)
            shares.setdefault(server, []).append(share)
        return shares

    def _send(self, hosted: Hosted, batch: int) -> None:
        """Write the constants that changed where tasks can read them."""
        self._written = {key: one for key, one in self._written.items() if key in hosted.constants}
        stale = [
            k for k, (version, _) in hosted.constants.items() if self._written.get(k, (None,))[0] != version
        ]
        if not stale:
            return
        name = f"{batch:012d}-{self.run}"
        encoded = {t: json.dumps(one.to_json()) for t, one in hosted.templates.items()}
        sections = []
        for server, template in stale:
            _, table = hosted.constants[server, template]
            tagged = table.replace_schema_metadata({"template": encoded[template]})
            sections.append(((server, template), [table_bytes(tagged)]))
        store = self.store.child(CONSTANTS)
        section_file.write(store, name, {}, sections)
        for server, template, at, size, checksum in placed(store, name):
            version, table = hosted.constants[server, template]
            self._written[server, template] = (
                version,
                Stored(name, batch, table.num_rows, at, size, checksum),
            )

    def _facts(self, answers: list[dict[str, Any]], hosted: Hosted) -> dict[str, Any]:
        """What was measured: rows in, rows and bytes that the shuffle carried, beside what placement predicts."""
        counts: dict[int, int] = {}
        far_ahead: dict[int, int] = {}
        for answer in answers:  # every server has all rows of its sources
            counts |= dict(zip(*answer["counts"], strict=True))
            far_ahead |= dict(zip(*answer["far_ahead"], strict=True))
        predicted = sum(count * len(hosted.wanted[source]) for source, count in counts.items())
        sent_rows, sent_bytes = (sum(a.get(name, 0) for a in answers) for name in ("sent_rows", "sent_bytes"))
        facts: dict[str, Any] = {
            "rows": sum(counts.values()),
            "sources": len(counts),
            "sent_rows": sent_rows,
            "sent_bytes": sent_bytes,
            "predicted_rows": predicted,
            "predicted_bytes": round(predicted * self._row_bytes) if self._row_bytes else None,
            "far_ahead": sum(far_ahead.values()),
            "results": sum(one[2] for a in answers for one in a["spent"]),
            "cut": sum(n for a in answers for n in a["cut"][1]),
            "cpu_ms": _ms(sum(a["cpu_ms"] for a in answers) / 1e3),
            "busy_ms": {a["server"]: _ms(a["busy_ms"] / 1e3) for a in answers},
            "server_rows": {a["server"]: a["rows"] for a in answers},
        }
        if sent_rows:
            now = sent_bytes / sent_rows
            self._row_bytes = now if not self._row_bytes else 0.7 * self._row_bytes + 0.3 * now
        return facts

    # -- what is left behind

    def _retire(self, before: ServingManifest | None, now: ServingManifest) -> None:
        if before is not None:
            self._remove(STATE, before.state_files - now.state_files)
        constants = {stored.file for _, stored in self._written.values()}
        self._sweep(CONSTANTS, constants)
        while len(self.history) > self.kept:
            self._remove(RESULTS, self.history.pop(0).result_files)
            del self._links[0]
        with suppress(errors.CheckpointError):
            self.log.forget(self._links[0])
        if not self._swept:
            self._sweep(STATE, now.state_files)
            self._sweep(RESULTS, {f for one in self.history for f in one.result_files})
            self._swept = True

    def _sweep(self, folder: str, kept: set[str]) -> None:
        """Remove what is not needed, of this driver and of those before it."""
        self._remove(folder, (n for n in self.store.names(folder) if n not in kept and self.log.is_older(n)))

    def _remove(self, folder: str, names: Iterable[str]) -> None:
        with suppress(errors.CheckpointError):  # rubbish is harmless
            self.store.remove(*(f"{folder}/{name}" for name in names))


def _kept_rows(hosted: Hosted, pieces: Mapping[Place, tuple[Stored, ...]]) -> dict[int, KeptRows]:
    """By server: the rows that it keeps for joins, and those of the servers from which computations come."""
    origins: dict[int, set[int]] = {}
    for (server, _), gained in hosted.gained.items():
        origins.setdefault(server, set()).update(gained)
    return {
        server: KeptRows(
            pieces.get((server, KEPT, 0), ()),
            {origin: pieces.get((origin, KEPT, 0), ()) for origin in origins.get(server, ())},
        )
        for server in hosted.alive
    }


def _pieces_after(
    before: Mapping[Place, tuple[Stored, ...]], answers: list[dict[str, Any]], hosted: Hosted, batch: int
) -> dict[Place, tuple[Stored, ...]]:
    """The pieces that live after a batch. Those of servers that are gone have been taken over in it."""
    gone = {(a["server"], *place) for a in answers for place in a["gone"]}
    pieces = {
        place: many
        for place, many in before.items()
        if place not in gone
        and place[0] in hosted.alive
        and (place[1] == KEPT or (place[0], place[1]) in hosted.constants)
    }
    for answer in answers:
        for template, pane, rows, *where in answer[STATE]["sections"]:
            place = (answer["server"], template, pane)
            pieces[place] = (*pieces.get(place, ()), Stored(answer[STATE]["file"], batch, rows, *where))
    return pieces


def _results(answers: list[dict[str, Any]], batch: int) -> dict[int, tuple[Stored, ...]]:
    found: dict[int, tuple[Stored, ...]] = {}
    for answer in answers:
        for template, rows, *where in answer[RESULTS]["sections"]:
            one = Stored(answer[RESULTS]["file"], batch, rows, *where)
            found[template] = (*found.get(template, ()), one)
    return found


def _ms(seconds: float) -> float:
    return round(1e3 * seconds, 3)
