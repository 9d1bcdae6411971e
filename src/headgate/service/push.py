"""Events pushed over HTTP: durable in a file before they are acknowledged; Spark's file source reads the files.

One thread writes. What arrives while it waits for the disk goes into one file together, so many small pushes cost few files.
"""

from __future__ import annotations

import io
import queue
import threading
import time
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.errors import HeadgateError
from headgate.storage.store import Store

MOST_ROWS_WAITING = 500_000
ROWS_PER_FILE = 50_000


@dataclass
class _Append:
    rows: pa.Table
    done: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None


class PushLog:
    """A folder of Parquet files, each appearing whole."""

    def __init__(self, folder: str) -> None:
        self.store = Store(folder)
        self.store.make("")
        self.rows = 0
        """Rows that were taken since this began."""
        self._waiting = 0
        self._queue: queue.SimpleQueue[_Append | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._write, name="headgate-push", daemon=True)
        self._thread.start()

    def append(self, rows: pa.Table) -> None:
        """Take rows; they are on disk when this returns."""
        with self._lock:
            if self._waiting + rows.num_rows > MOST_ROWS_WAITING:
                raise HeadgateError(f"{self._waiting} rows wait to be written: send these again in a moment")
            self._waiting += rows.num_rows
        one = _Append(rows)
        self._queue.put(one)
        one.done.wait()
        if one.error is not None:
            raise HeadgateError(f"the events could not be written: {one.error}") from one.error

    def close(self) -> None:
        """Write what waits, and end."""
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
                whole = pa.concat_tables([one.rows for one in group], promote_options="default")
                out = io.BytesIO()
                pq.write_table(whole, out, compression="zstd")
                self.store.create(f"{time.time_ns():020d}.parquet", out.getvalue())
            except Exception as caught:
                error = caught
            with self._lock:
                self._waiting -= size
                self.rows += 0 if error else size
            for one in group:
                one.error = error
                one.done.set()
