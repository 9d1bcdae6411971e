"""A driver from Kafka to Kafka that kills itself: `python kafka_job.py SERVERS FOLDER STEP BATCH`.
STEP `never` runs to the end.

It runs on the engine of this process, so that it starts in a second; source, sink, stage and loop
are the product's own.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.streams.test_drive import drive

from headgate.sources import Kafka
from headgate.stage import sinks
from headgate.testing.direct import InProcessDirect

IN, OUT, ROWS = "numbers", "counts", 10
SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64())])
STEPS = [
    "open", "prepare", "compute", "decide", "commit", "journal", "retire", "records sent", "offsets sent", "transaction committed",
    "publish",
]  # fmt: skip
OF_SINK = {
    "records sent": ("send_offsets_to_transaction", "before"),
    "offsets sent": ("commit_transaction", "before"),
    "transaction committed": ("commit_transaction", "after"),
}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DoomedProducer:
    """A producer whose process dies before or after one of its calls."""

    def __init__(self, producer: Any, call: str, when: str) -> None:
        self._producer, self._call, self._when = producer, call, when

    def __len__(self) -> int:
        return len(self._producer)

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._producer, name)
        if name != self._call:
            return real

        def doomed(*arguments: Any) -> None:
            self._producer.flush(30)  # the brokers have all records by then
            if self._when == "after":
                real(*arguments)
            die()

        return doomed


def job(
    servers: str,
    folder: Path,
    step: str = "never",
    batch: int = -1,
    *,
    first: int | None = None,
    **options: Any,
) -> Any:
    """The query; `folder` has its checkpoint."""

    class DoomedSink(sinks.Kafka):
        def _send(self, output: sinks.Output, owner: Any) -> None:
            real = self._producer
            if output.batch == batch and step in OF_SINK:
                self._producer = DoomedProducer(real, *OF_SINK[step])
            super()._send(output, owner)

    engine = InProcessDirect()
    engine.folder = str(folder)
    made = drive(
        engine,
        Kafka(servers, IN, SCHEMA, **options),
        sink=DoomedSink(servers, OUT, key="k", first_batch=first, **options),
        rows=ROWS,
    )

    def reached(name: str) -> None:
        if name == step and (made.batch == batch or name == "open"):
            die()

    made.first.on_step = reached
    return made


if __name__ == "__main__":
    loop = job(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    loop.open()
    while loop.step(0.0) is not None:
        pass
