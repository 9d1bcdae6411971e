"""A direct stream with its checkpoint and output on S3, in one process: the product's own loop, stage and storage, without Spark.

Run as `python s3_stream.py ROOT ROWS KILL_AT` it reads ROWS rows, ten a batch, and kills itself before its request number KILL_AT.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from headgate import agg
from headgate.operators.aggregate import Aggregate
from headgate.sources.source import Demand, Range, Ranges, Source
from headgate.stage import sinks
from headgate.stage.settings import Routing
from headgate.stage.stage import KeyedStage
from headgate.storage import remote
from headgate.storage.patience import patiently
from headgate.streams.batch_size import BatchSize
from headgate.streams.drive import Drive
from headgate.streams.planned import Input, Planned
from headgate.testing.direct import InProcessDirect

KEYS = 40


class Numbers(Source):
    """The numbers below `end`, `a_batch` at a time."""

    def __init__(self, end: int, a_batch: int) -> None:
        self.end, self.a_batch = end, a_batch

    def schema(self) -> pa.Schema:
        return pa.schema([("k", pa.int64()), ("n", pa.int64())])

    def identity(self) -> dict[str, Any]:
        return {"source": "numbers"}

    def plan(self, offset: Any, demand: Demand) -> Ranges:
        start = offset or 0
        end = min(start + self.a_batch, self.end)
        ranges = (Range([start, end], end - start),) if end > start else ()
        return Ranges(ranges, end, more=end < self.end)

    def read(self, what: Any) -> Iterator[pa.RecordBatch]:
        numbers = list(range(*what))
        data = {"k": [n % KEYS for n in numbers], "n": numbers}
        yield pa.RecordBatch.from_pydict(data, schema=self.schema())


class Nothing(sinks.Sink):
    """Publishes nothing."""

    def publish(self, output: sinks.Output) -> None: ...


def read(planned: Planned) -> pa.Table:
    parts = [b for part in planned.ranges for b in planned.inputs[part.input].source.read(part.what)]
    return pa.Table.from_batches(parts, planned.schema)


def stream(root: str, source: Source, sink: Any, channels: int) -> Drive[pa.Table]:
    """The loop; tasks run in this process."""
    stage = KeyedStage(
        InProcessDirect(),
        key="k",
        operator=Aggregate(n=agg.count(), total=agg.sum("n")),
        checkpoint=f"{root}/checkpoint",
        sink=sink,
        routing=Routing(policy="static", channels=channels, bins=8 * channels),
    )
    return Drive([stage], [Input(source)], read, size=BatchSize(most=1000), tasks=2, now=lambda: 0.0)


def run_all(loop: Drive[pa.Table], each: Callable[[], None] = lambda: None) -> list[Any]:
    loop.open()
    out = []
    while (progress := loop.step(0.0)) is not None:
        out.append(progress)
        each()
    return out


def killed_at(number: int) -> None:
    """Before its request with this number, the process kills itself."""
    sent = 0

    def counted(call: Callable[[], Any]) -> Any:
        nonlocal sent
        sent += 1
        if sent == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return patiently(call)

    vars(remote)["patiently"] = counted


if __name__ == "__main__":
    place, rows, kill_at = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    killed_at(kill_at)
    run_all(stream(place, Numbers(rows, 10), sinks.Parquet(f"{place}/out"), 3))
