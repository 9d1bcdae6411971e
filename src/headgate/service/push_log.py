"""The log of pushed events: rows are durable in it before they are acknowledged, and stay until a commit covers them.

One thread writes. Whatever arrives while it waits for the disk goes into the next file together, so many small pushes
make few files. What waits for a batch is known in memory (`backlog`), so planning a batch reads no file. When too much
waits, a push is refused, and told when to come again.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headgate.errors import Backlogged, CheckpointError, HeadgateError, Superseded
from headgate.service.backlog import Backlog, Taken, first_of
from headgate.service.flow import Flow
from headgate.service.push_lanes import (
    PushFile,
    check_chain,
    claim_of,
    encoded,
    file_name,
    lanes_of,
    read_file,
    read_lanes,
    remove_lane,
    take_lanes,
)
from headgate.storage.store import Store

ROWS_PER_FILE = 50_000
LONGEST_WAIT_S = 60.0
"""The longest time after which a refused push is asked to come again."""


@dataclass
class _Append:
    tenant: str
    rows: pa.Table
    done: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None


class PushLog:
    """The log of one service. Opening it keeps the services before it from writing more."""

    def __init__(self, store: Store, lane: str, offset: Any = None, flow: Flow | None = None) -> None:
        """`lane` is the service's run (`BatchLog.run`), and `offset` what its last commit says."""
        self.store, self.flow = store, flow or Flow()
        self.rows = 0
        """How many rows were written since this object was made."""
        self.on_append: Callable[[], None] = lambda: None
        """Called when rows have become durable."""
        self.check_mine: Callable[[], object] = lambda: None
        """Raises `Superseded` if another service has taken over. Lanes on an object store need it (`remove_lane`)."""
        self.most_backlog: Callable[[str], float] = lambda _: math.inf
        """How many bytes a tenant may have waiting, if that is less than others."""
        self._lock = threading.Lock()
        self._backlog = Backlog(lane)
        self._backlog.next = 1  # the first file begins the lane
        self._writing_rows: dict[str, int] = {}
        self._writing_size: dict[str, int] = {}
        """By tenant: what waits for the disk."""
        self._rate, self._last_commit = 0.0, time.monotonic()
        self._superseded: Superseded | None = None
        store.make("")
        self._old_lanes = take_lanes(store, lane, time.time())
        self._removed = 0
        """The first file of this lane that has not been removed."""
        self.taken_over = self._load(offset)
        """The files of an earlier version whose rows are in this log."""
        self._queue: queue.SimpleQueue[_Append | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="headgate-push", daemon=True)
        self._thread.start()

    def _load(self, offset: Any) -> set[str]:
        """Read what earlier services have left."""
        files = read_lanes(self.store, self._old_lanes, first_of(offset) if offset else None)
        check_chain(self.store, files, self._old_lanes, self._backlog.lane)
        now, clock = time.time(), time.monotonic()
        for file in files:
            self._backlog.add(file, clock - max(0.0, now - file.at), offset)
        return {file.taken_over for file in files if file.taken_over}

    # -- writing

    def append(self, tenant: str, rows: pa.Table) -> None:
        """Append rows of a tenant; they are on disk when this returns. `Backlogged` if too many wait already."""
        with self._lock:
            if self._superseded is not None:
                raise self._superseded
            self._check_room(tenant, rows.num_rows, rows.nbytes)
            self._reserve(tenant, rows, 1)
        append = _Append(tenant, rows)
        self._queue.put(append)
        append.done.wait()
        if isinstance(append.error, HeadgateError):
            raise append.error
        if append.error is not None:
            raise HeadgateError(f"the events could not be written: {append.error}") from append.error

    def check_room(self, tenant: str, size: int) -> None:
        """`Backlogged` if a push of about so many bytes would be refused: a push that is refused costs little."""
        with self._lock:
            self._check_room(tenant, 1, size)

    def _reserve(self, tenant: str, rows: pa.Table, sign: int) -> None:
        for counts, count in ((self._writing_rows, rows.num_rows), (self._writing_size, rows.nbytes)):
            counts[tenant] = counts.get(tenant, 0) + sign * count
            if not counts[tenant]:
                del counts[tenant]

    def _check_room(self, tenant: str, rows: int, size: int) -> None:
        """Refuse what goes beyond a bound: a tenant's own, or its share of what all may have waiting together."""
        flow, backlog = self.flow, self._backlog
        mine_rows, mine_size = backlog.of(tenant)
        mine_rows += self._writing_rows.get(tenant, 0)
        mine_size += self._writing_size.get(tenant, 0)
        all_rows = backlog.rows + sum(self._writing_rows.values())
        all_size = backlog.size + sum(self._writing_size.values())
        tenants = max(1, len(backlog) + (mine_rows == 0))
        checks = (
            (mine_rows, all_rows, rows, flow.tenant_backlog_rows, flow.backlog_rows, "rows"),
            (mine_size, all_size, size, self._own_bytes(tenant), flow.backlog_bytes, "bytes"),
        )
        for mine, everyone, more, own, total, unit in checks:
            bound = min(own, total // tenants) if everyone + more > total else own
            if (mine and mine + more > bound) or (everyone and everyone + more > 2 * total):
                after = self._seconds_for(
                    min(1.0, max(0, mine + more - bound) / max(1, mine)) * mine_rows, tenants
                )
                which = "tenant_backlog" if bound == own else "backlog"
                raise Backlogged(
                    f"{mine} {unit} of tenant {tenant!r} wait for a batch, and with {more} more they would be over {bound} "
                    f"(the limit is {which}_{unit}): push again in {after:g} s, or fewer at a time",
                    after,
                )

    def _own_bytes(self, tenant: str) -> int:
        return int(min(self.flow.tenant_backlog_bytes, self.most_backlog(tenant)))

    def _seconds_for(self, rows: float, tenants: int) -> float:
        """How long it takes at the measured rate until so many rows of a tenant are committed."""
        seconds = rows * tenants / self._rate if self._rate else 1.0
        return float(min(LONGEST_WAIT_S, max(1, math.ceil(seconds))))

    def close(self) -> None:
        """Write what is waiting, and stop the thread."""
        self._queue.put(None)
        self._thread.join()

    def _write(self) -> None:
        while (first := self._queue.get()) is not None:
            group, size = [first], first.rows.num_rows
            while size < ROWS_PER_FILE and not self._queue.empty():
                following = self._queue.get()
                if following is None:
                    self._queue.put(None)
                    break
                group.append(following)
                size += following.rows.num_rows
            error: BaseException | None = None
            try:
                self.write(_by_tenant(group))
            except Exception as caught:
                error = caught
            with self._lock:
                for append in group:
                    self._reserve(append.tenant, append.rows, -1)
                self.rows += 0 if error else size
            for append in group:
                append.error = error
                append.done.set()
            if error is None:
                self.on_append()

    def write(self, tables: Mapping[str, pa.Table], taken_over: str = "") -> None:
        """Write the next file. One thread at a time may call this."""
        while True:
            lane, number = self._backlog.lane, self._backlog.next
            name = file_name(lane, number)
            data = encoded(name, tables, time.time(), taken_over=taken_over)
            try:
                self.store.create(name, data)
                found = read_file(self.store, lane, number)
            except FileExistsError:
                found = read_file(self.store, lane, number)
                if not found.ended_by and self.store.read(name) != data:
                    self._add(found)  # a file whose creation seemed to have failed
                    continue
            except CheckpointError as error:
                if lane not in (lanes := lanes_of(self.store)) and lanes:
                    raise self._overtaken(
                        lanes[-1]
                    ) from error  # it has read all of this lane, and removed it
                raise
            if found.ended_by:
                raise self._overtaken(found.ended_by)
            if self.store.disk is None:
                self.check_mine()
            return self._add(found)

    def _overtaken(self, by: str) -> Superseded:
        self._superseded = Superseded(
            f"another service ({by}) has taken over {self.store.path()}, and this one ({self._backlog.lane}) accepts no more "
            "events: push them to the other one"
        )
        return self._superseded

    def _add(self, file: PushFile) -> None:
        with self._lock:
            self._backlog.add(file, time.monotonic())

    # -- batches

    def take(
        self,
        rows: int,
        size: int,
        weights: Mapping[str, float] | None = None,
        most: Mapping[str, int] | None = None,
    ) -> tuple[list[Taken], Any, bool]:
        """A fair share of every tenant's waiting rows, the offset after them, and whether rows are left."""
        with self._lock:
            return self._backlog.take(rows, size, weights, most)

    def waiting(self) -> dict[str, tuple[int, int]]:
        """By tenant: how many rows and bytes wait."""
        with self._lock:
            return self._backlog.tenants()

    def committed(self, offset: Any) -> None:
        """Forget what a commit covers, and remove the files that only it needed."""
        if offset is None:
            return
        now = time.monotonic()
        with self._lock:
            oldest = min(self._backlog.oldest().values(), default=now)
            rows = self._backlog.commit(offset)
            if rows:
                rate = rows / max(1e-3, now - max(oldest, self._last_commit))
                self._rate = 0.5 * (self._rate + rate) if self._rate else rate
                self._last_commit = now
            files, lanes = self._covered()
        with suppress(CheckpointError):  # they are covered all the same, and the next service removes them
            self.store.remove(*files)
            for lane in lanes:
                remove_lane(self.store, lane)

    def _covered(self) -> tuple[list[str], list[str]]:
        """The files of this lane, and the lanes before it, that nobody needs. The last file stays."""
        lane, number = self._backlog.first()
        mine, lanes, files = self._backlog.lane, list[str](), list[str]()
        while self._old_lanes and claim_of(self._old_lanes[0]) < claim_of(lane):
            lanes.append(self._old_lanes.pop(0))
        if lane == mine:
            last = min(number, self._backlog.next - 1)
            files = [file_name(mine, at) for at in range(self._removed, last)]
            self._removed = max(self._removed, last)
        return files, lanes

    # -- how much waits

    def backlog(self) -> dict[str, Any]:
        """How much waits: rows, bytes, tenants, and since how many seconds."""
        now = time.monotonic()
        with self._lock:
            oldest = min(self._backlog.oldest().values(), default=now)
            return {
                "rows": self._backlog.rows,
                "bytes": self._backlog.size,
                "tenants": len(self._backlog),
                "seconds": round(max(0.0, now - oldest), 3),
            }

    def backlog_of(self, tenant: str) -> tuple[int, int]:
        """How many rows and bytes of a tenant wait."""
        with self._lock:
            return self._backlog.of(tenant)


def _by_tenant(group: Iterable[_Append]) -> dict[str, pa.Table]:
    tables = dict[str, list[pa.Table]]()
    for append in group:
        tables.setdefault(append.tenant, []).append(append.rows)
    return {
        tenant: pa.concat_tables(some, promote_options="default").combine_chunks()
        for tenant, some in tables.items()
    }
