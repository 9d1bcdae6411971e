"""The audit log: who did what, when and from where, and how it ended. It is append-only, and bounded.

It is a SQLite file of its own, written by a thread of its own: whoever records something does not wait. Entries never
carry a token, a body or a result.
"""

from __future__ import annotations

import os
import queue
import sqlite3
import threading
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from headgate import logs
from headgate.errors import HeadgateError
from headgate.service.tokens import moment, now_us, redacted

log = logs.logger("headgate.service.audit")
WAITING = 100_000
"""Entries that wait to be written. Beyond that they are only counted."""
AGGREGATED_S = 60.0
"""For how long equal entries are counted before they are written as one."""
AGGREGATES = 10_000
"""How many kinds of entries are counted at once; further ones are counted together."""
LONGEST = 200
SHARES = 10
"""One tenant has at most this part of the log, so it does not push out the entries of others."""
FORGET_EVERY = 100
"""How many writes pass before the oldest entries of all are removed."""
_FORGET = "DELETE FROM audit WHERE tenant = ? AND n <= (SELECT n FROM audit WHERE tenant = ? ORDER BY n DESC LIMIT 1 OFFSET ?)"
_FORGET_OLDEST = "DELETE FROM audit WHERE n <= (SELECT n FROM audit ORDER BY n DESC LIMIT 1 OFFSET ?)"
_TABLES = (
    "CREATE TABLE IF NOT EXISTS audit (n INTEGER PRIMARY KEY AUTOINCREMENT, at_us INTEGER NOT NULL, tenant TEXT NOT NULL,"
    " token TEXT NOT NULL, action TEXT NOT NULL, object TEXT NOT NULL, outcome INTEGER NOT NULL, address TEXT NOT NULL,"
    " count INTEGER NOT NULL)",
    "CREATE INDEX IF NOT EXISTS audit_of_tenant ON audit (tenant, n)",
)


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that somebody did. `outcome` is the HTTP status of the answer."""

    tenant: str
    """Empty if nobody knows who it was."""
    token: str
    """The id of the token."""
    action: str
    object: str
    outcome: int
    address: str


class Audit:
    """The log of a service. Its file is opened when there is something to write."""

    def __init__(self, path: Path, most: int = 500_000) -> None:
        self._path, self._most = path, most
        self._waiting: queue.Queue[tuple[int, Entry, int] | threading.Event | None] = queue.Queue(WAITING)
        self._counts: dict[Entry, list[float]] = {}
        """Equal entries since the first of them, which was written: their number, and when they are written."""
        self._lost = self._writes = 0
        self._counts_due = 0.0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def record(self, entry: Entry, count: int = 1) -> None:
        """Append an entry."""
        self._start()
        texts = (entry.tenant, entry.token, entry.action, entry.object, entry.address)
        tenant, token, action, about, address = (storable(redacted(text)[:LONGEST]) for text in texts)
        clean = Entry(tenant, token, action, about, entry.outcome, address)
        try:
            self._waiting.put_nowait((now_us(), clean, count))
        except queue.Full:
            self._lost += 1

    def count(self, entry: Entry) -> None:
        """Append an entry of a kind that may come often: the first at once, further equal ones together, each minute."""
        now = time.monotonic()
        with self._lock:
            if entry not in self._counts and len(self._counts) >= AGGREGATES:
                entry = Entry(entry.tenant, "", "(many)", "(many)", entry.outcome, "(many)")
            known = self._counts.get(entry)
            if known is not None:
                known[0] += 1
                return
            self._counts[entry] = [0, now + AGGREGATED_S]
        self.record(entry)

    def read(
        self, tenant: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[dict[str, Any]]:
        """The latest entries, of a tenant or of all, the newest first; for more, set `before` to the last `n`."""
        self.flush()
        if not self._path.exists():
            return []
        where, values = ["n < ?"], [before if before is not None else 1 << 62]
        if tenant is not None:
            where, values = [*where, "tenant = ?"], [*values, tenant]  # type: ignore[list-item]
        text = f"SELECT * FROM audit WHERE {' AND '.join(where)} ORDER BY n DESC LIMIT ?"
        try:
            with closing(self._connect()) as connection:
                rows = connection.execute(text, [*values, limit]).fetchall()
        except sqlite3.Error as error:
            raise HeadgateError(
                f"the audit log {self._path.name} cannot be read ({error}): if it is damaged, move it away"
            ) from error
        names = ("n", "at", *(field.name for field in fields(Entry)), "count")
        return [dict(zip(names, (row[0], moment(row[1]), *row[2:]), strict=True)) for row in rows]

    def flush(self) -> None:
        """Wait until all that was recorded before is written."""
        if self._thread is not None and self._thread.is_alive():
            written = threading.Event()
            self._waiting.put(written)
            written.wait(30)

    def close(self) -> None:
        """Write all that was recorded, and stop."""
        self._write_counts(every=True)
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
            self._thread = None

    def _start(self) -> None:
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="headgate-audit", daemon=True)
                    self._thread.start()

    def _connect(self) -> sqlite3.Connection:
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = sqlite3.connect(self._path, timeout=30)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        for table in _TABLES:
            connection.execute(table)
        return connection

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        while True:
            some = [self._next()]
            while some[-1] is not None and len(some) < 1000 and not self._waiting.empty():
                some.append(self._waiting.get())
            rows = [(one[0], *astuple(one[1]), one[2]) for one in some if isinstance(one, tuple)]
            try:
                connection = connection or self._connect()
                self._write(connection, rows)
            except Exception as error:  # whatever it is, this thread goes on
                self._lost += len(rows)
                log.warning("%d entries of the audit log could not be written: %s", len(rows), error)
                connection = None
            self._write_counts()
            for one in some:
                if isinstance(one, threading.Event):
                    one.set()
            if some[-1] is None:
                if connection is not None:
                    connection.close()
                return

    def _next(self) -> tuple[int, Entry, int] | threading.Event | None:
        """What waits next. Meanwhile what was counted is written when its time has come."""
        while True:
            try:
                return self._waiting.get(timeout=AGGREGATED_S / 6)
            except queue.Empty:
                self._write_counts()

    def _write_counts(self, *, every: bool = False) -> None:
        now = time.monotonic()
        if now < self._counts_due and not every:
            return
        self._counts_due = now + AGGREGATED_S / 6
        with self._lock:
            due = [(entry, kept[0]) for entry, kept in self._counts.items() if every or kept[1] <= now]
            for entry, _ in due:
                del self._counts[entry]
        for entry, count in due:
            if count:
                self.record(entry, int(count))

    def _write(self, connection: sqlite3.Connection, rows: Iterable[tuple[Any, ...]]) -> None:
        lost, rows = self._lost, list(rows)
        if lost:
            rows.append((now_us(), *astuple(Entry("", "", "entries lost", "", 0, "")), lost))
        if not rows:
            return
        insert = (
            "INSERT INTO audit (at_us, tenant, token, action, object, outcome, address, count)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        )
        with connection:
            connection.executemany(insert, rows)
            for tenant in {row[1] for row in rows}:
                connection.execute(_FORGET, (tenant, tenant, max(1, self._most // SHARES)))
            self._writes += 1
            if self._writes % FORGET_EVERY == 1:
                connection.execute(_FORGET_OLDEST, (self._most,))
        self._lost -= lost


def storable(text: str) -> str:
    """A text as a database can hold it: a path may bring half of a character."""
    return text.encode(errors="backslashreplace").decode()
