"""Events pushed over HTTP: they are in a file before they are acknowledged, and Spark's file source reads the files.

One thread writes. Whatever arrives while it waits for the disk goes into the next file together, so many small pushes
make few files.
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

MAX_WAITING_ROWS = 500_000
ROWS_PER_FILE = 50_000


@dataclass
class _Append:
    rows: pa.Table
    done: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None


class PushLog:
    """A folder of Parquet files. Each file appears in it as a whole."""

    def __init__(self, folder: str) -> None:
        self.store = Store(folder)
        self.store.make("")
        self.rows = 0
        """How many rows were written since this object was made."""
        self._waiting = 0
        self._queue: queue.SimpleQueue[_Append | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._write, name="headgate-push", daemon=True)
        self._thread.start()

    def append(self, rows: pa.Table) -> None:
        """Append rows; they are on disk when this returns."""
        with self._lock:
            if self._waiting + rows.num_rows > MAX_WAITING_ROWS:
                raise HeadgateError(
                    f"{self._waiting} rows are waiting to be written, which is too many: push again in a moment"
                )
            self._waiting += rows.num_rows
        append = _Append(rows)
        self._queue.put(append)
        append.done.wait()
        if append.error is not None:
            raise HeadgateError(f"the events could not be written: {append.error}") from append.error

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
                whole = pa.concat_tables([append.rows for append in group], promote_options="default")
                out = io.BytesIO()
                pq.write_table(whole, out, compression="zstd")
                self.store.create(f"{time.time_ns():020d}.parquet", out.getvalue())
            except Exception as caught:
                error = caught
            with self._lock:
                self._waiting -= size
                self.rows += 0 if error else size
            for append in group:
                append.error = error
                append.done.set()
